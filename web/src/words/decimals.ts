// How values are written that stand below each other: with the same number of decimals.

import type { Num } from "../data/answers";
import { decimals, fixed, number, toNumber } from "./numbers";

/** Decimals that the intervals of some rows allow: what they share a column with has as many. Null where none says. */
export function sharedDecimals(rows: readonly { ci_low: Num | null; ci_high: Num | null }[]): number | null {
  const known = rows
    .map((row) => [toNumber(row.ci_low), toNumber(row.ci_high)] as const)
    .filter(([low, high]) => high > low && Math.max(Math.abs(low), Math.abs(high)) < 1e4);
  return known.length ? Math.max(...known.map(([low, high]) => decimals(low, high))) : null;
}

/** A value with so many decimals; one that is large, or without a word on decimals, in a few digits. */
export function rounded(given: Num | null, places: number | null): string {
  const value = toNumber(given);
  return places === null || !(Math.abs(value) < 1e4) ? number(given) : fixed(value, places, false);
}
