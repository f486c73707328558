// Long text of models and users: bounded and folded.

import { useState } from "preact/hooks";
import { address, ask, report, type Parameters } from "../data/request";
import type { BoundedText } from "../data/answers";
import { t } from "../state/settings";
import { count } from "../words/numbers";
import { Seen } from "./text";

const FOLDED = 1200;

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
