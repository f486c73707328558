// Which rows of many are shown, and the way to the others.

import "../style/choose.css";
import { put } from "../state/place";
import { t } from "../state/settings";
import { count } from "../words/numbers";

/** The rows `offset` + 1 to `offset` + `shown` of `total`, a page of `most` at a time. */
export function Pager({ offset, shown, total, most }: { offset: number; shown: number; total: number; most: number }) {
  const last = offset + shown;
  return (
    <span class="pager quiet">
      {total > 0 && t("items.range", { from: count(offset + 1), to: count(last), total: count(total) })}
      {offset > 0 && <button type="button" class="link" onClick={() => put({ offset: String(Math.max(0, offset - most)) })}>‹ {t("items.before")}</button>}
      {last < total && <button type="button" class="link" onClick={() => put({ offset: String(last) })}>{t("items.after")} ›</button>}
    </span>
  );
}
