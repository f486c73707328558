// Text of models and users as text: bounded, folded, with the unseen made visible.

import { useState } from "preact/hooks";
import { address, ask, report, type Parameters } from "../data/request";
import type { BoundedText } from "../data/answers";
import { t } from "../state/settings";
import { count } from "../words/numbers";
import { oneLine, pieces } from "../words/hostile";

const FOLDED = 1200;

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

/** A long text: folded, unfolded at a click, fetched whole where the server has cut it. */
export function LongText({ given, whole }: { given: BoundedText; whole: Parameters | null }) {
  const [open, setOpen] = useState(false);
  const [more, setMore] = useState<BoundedText | null>(null);
  const [error, setError] = useState("");
  const shown = more ?? given;
  const text = open ? shown.text : shown.text.slice(0, FOLDED);
  const cut = given.length > given.text.length && !more;
  const unfold = () => {
    setOpen(!open);
    if (!open && cut && whole && !report) {
      ask<BoundedText>(address("/api/text", whole)).then(setMore, (why: Error) => setError(why.message));
    }
  };
  return (
    <div class="long">
      <pre dir="auto">
        <Seen text={text} />
        {text.length < shown.length && "…"}
      </pre>
      {shown.length > FOLDED && (
        <button class="link" type="button" onClick={unfold}>
          {open ? t("text.fold") : t("text.unfold", { n: count(given.length) })}
        </button>
      )}
      {open && text.length < shown.length && <span class="quiet"> {t("text.cut", { shown: count(text.length), n: count(shown.length) })}</span>}
      {error && <p class="error">{error}</p>}
    </div>
  );
}
