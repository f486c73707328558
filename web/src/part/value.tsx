// A value with its interval, as text.

import type { Estimate } from "../data/answers";
import { t } from "../state/settings";
import { count, inPercent, parts } from "../words/numbers";

/** A value, its interval and its n; never one without the others. */
export function Value({ estimate, long = false }: { estimate: Estimate | null; long?: boolean }) {
  if (!estimate || estimate.value === null) return <span class="quiet">–</span>;
  const shown = parts(estimate.value, estimate.ci_low, estimate.ci_high);
  const scored = estimate.num_scored < estimate.n;
  const title = [
    shown.low && t("value.interval", { level: inPercent(estimate.level), low: shown.low, high: shown.high }),
    `n = ${estimate.n}`,
    scored && t("value.scored", { n: estimate.num_scored }),
    estimate.method,
    estimate.note,
  ];
  return (
    <span class="value" title={title.filter(Boolean).join("\n")}>
      <b class="number">{shown.value}</b>
      {estimate.unit && <span class="quiet"> {estimate.unit}</span>}
      <span class="ends number">{shown.low ? ` ${shown.low}–${shown.high}` : " ±?"}</span>
      {long && <span class="quiet number"> n {count(estimate.n)}</span>}
      {estimate.partial && <span class="partial">{t("value.partial", { scored: estimate.num_scored, n: estimate.n })}</span>}
    </span>
  );
}
