// What the keys are, and the marks on curves.

import "../style/help.css";
import { KINDS, Sign } from "../chart/marks";
import { useKeys } from "../state/keys";
import { learn, t } from "../state/settings";
import { helpWords } from "../words/help";

learn(helpWords);

const KEYS: readonly [string, Parameters<typeof t>[0]][] = [
  ["/", "key.search"],
  ["j  k", "key.next"],
  ["x", "key.toggle"],
  ["Enter", "key.open"],
  ["t", "key.theme"],
  ["l", "key.language"],
  ["?", "key.help"],
];

/** The keys, over the page. */
export function Help({ onClose }: { onClose: () => void }) {
  useKeys({ Escape: onClose, "?": onClose });
  return (
    <div class="help" role="dialog" aria-label={t("help.title")} onClick={onClose}>
      <div>
        <h2>{t("help.title")}</h2>
        <dl>
          {KEYS.map(([key, word]) => (
            <div key={key}>
              <dt>
                <kbd>{key}</kbd>
              </dt>
              <dd>{t(word)}</dd>
            </div>
          ))}
        </dl>
        <p class="quiet">{t("help.charts")}</p>
        <h2>{t("help.marks")}</h2>
        <dl class="marks">
          {KINDS.map((kind) => (
            <div key={kind}>
              <dt>
                <Sign kind={kind} /> {t(`marker.${kind}`)}
              </dt>
              <dd>{t(`marker.${kind}.about`)}</dd>
            </div>
          ))}
          <div>
            <dt>
              <i class="window" aria-hidden="true" /> {t("marker.finding")}
            </dt>
            <dd>{t("marker.finding.about")}</dd>
          </div>
        </dl>
      </div>
    </div>
  );
}
