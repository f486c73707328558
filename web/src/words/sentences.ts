// Sentences and paths that the server gives, as they stand beside the page's own numbers.

import type { Num } from "../data/answers";
import { oneLine } from "./hostile";
import { toNumber } from "./numbers";

const HYPHEN = /(^|[\s([])-(?=\.?\d)/g;

/** A sentence with its negative numbers as all others have them. */
export function withMinus(text: string): string {
  return text.replace(HYPHEN, "$1−");
}

/** Whether a sentence has a number already, rounded as it may be: 0.6289 in "63% of them are cut". */
export function tells(text: string, given: Num): boolean {
  const value = toNumber(given);
  if (!Number.isFinite(value)) return /\b(nan|inf)/i.test(text);
  return [...text.matchAll(/(-?\d+(?:\.(\d+))?(?:e([+-]?\d+))?)( ?%)?/g)].some(([, digits, decimals = "", exponent = "0", share]) => {
    const unit = 10 ** (Number(exponent) - decimals.length) * (share ? 0.01 : 1);
    return Math.abs(Number(digits) * (share ? 0.01 : 1) - value) <= unit * 0.5000001;
  });
}

const MOST_OF_PATH = 52;

/** The end of a path, which tells it from others: its last two parts, cut in the middle where they are long. */
export function pathEnd(path: string): string {
  const end = oneLine(path.split("/").filter(Boolean).slice(-2).join("/"), 400);
  const half = (MOST_OF_PATH - 1) / 2;
  return end.length > MOST_OF_PATH ? `${end.slice(0, Math.floor(half))}…${end.slice(-Math.ceil(half))}` : end;
}
