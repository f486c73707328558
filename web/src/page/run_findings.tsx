// What is wrong with a run, beside its tasks.

import type { Diagnosis } from "../data/answers";
import { href } from "../state/place";
import { t } from "../state/settings";
import { count } from "../words/numbers";
import { SeverityMark } from "../part/state";
import { Seen } from "../part/text";

const MOST = 4;

/** That nothing was found, by how many detectors, and how many had too little to look at. */
export function Healthy({ diagnosis }: { diagnosis: Diagnosis }) {
  if (diagnosis.status === "pending") return <p class="quiet">{t("findings.pending")}</p>;
  if (diagnosis.status === "off") return <p class="quiet">{diagnosis.note || t("findings.off")}</p>;
  return (
    <div class="healthy">
      <p>
        <b>✓ {t("findings.none")}</b>
      </p>
      <p class="quiet">{t(diagnosis.lacking.length ? "findings.judged" : "findings.looked", { n: diagnosis.judged.length, m: diagnosis.lacking.length })}</p>
      {diagnosis.lacking.length > 0 && (
        <details>
          <summary>{t("findings.lacking")}</summary>
          <p class="quiet">{diagnosis.lacking.join(", ")}</p>
        </details>
      )}
    </div>
  );
}

function steps(from: number, to: number): string {
  return from === to ? t("findings.step", { at: count(from) }) : t("findings.steps", { from: count(from), to: count(to) });
}

/** How many detectors found nothing. */
function others({ judged, lacking, findings }: Diagnosis): string {
  const silent = Math.max(0, judged.length - new Set(findings.map((one) => one.kind)).size);
  return t(lacking.length ? "findings.others" : "findings.silent", { n: count(silent), m: lacking.length });
}

/** The findings of a run side by side, the gravest first, as the server has them. */
export function RunFindings({ diagnosis, run }: { diagnosis: Diagnosis; run: number }) {
  const { findings } = diagnosis;
  return (
    <aside class={`wrong ${findings.length ? "" : "nothing-found"}`}>
      <h2>
        {t("question.wrong")} {findings.length > 0 && diagnosis.status === "ready" && <span class="quiet">{others(diagnosis)}</span>}
      </h2>
      {!findings.length && <Healthy diagnosis={diagnosis} />}
      {findings.slice(0, MOST).map((finding) => (
        <a class="finding bare" key={`${finding.kind}${finding.onset}`} href={href("/findings", { runs: String(run), kind: finding.kind })}>
          <h3>
            <SeverityMark severity={finding.severity} /> {finding.kind.replaceAll("_", " ")}
            <span class="quiet number">{steps(finding.onset, finding.noticed)}</span>
          </h3>
          <p>
            <Seen text={finding.text} />
          </p>
          <p class="advice">
            <Seen text={finding.advice} />
          </p>
        </a>
      ))}
      {findings.length > MOST && <a href={href("/findings", { runs: String(run) })}>{t("findings.more", { n: findings.length - MOST })}</a>}
    </aside>
  );
}
