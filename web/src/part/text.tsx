// Text of models and users as text, with the unseen made visible.

import { t } from "../state/settings";
import { oneLine, pieces } from "../words/hostile";

/** A text with its unseen characters as codes; nothing in it is ever markup. */
export function Seen({ text }: { text: string }) {
  return (
    <>
      {pieces(text).map((piece, i) =>
        piece.code ? (
          <span class="code" key={i} title={t("text.unseen")}>
            {piece.text}
          </span>
        ) : (
          piece.text
        ),
      )}
    </>
  );
}

/** A name in one line. */
export function Name({ text, most = 60 }: { text: string; most?: number }) {
  return (
    <bdi title={text.length > most ? oneLine(text, 400) : undefined} class="name">
      {oneLine(text, most)}
    </bdi>
  );
}
