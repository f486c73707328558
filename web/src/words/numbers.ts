// Numbers as people read them: a value with as many digits as its interval allows. The rules are those of the terminal.

import type { Num } from "../data/answers";
import { language } from "../state/settings";

const SCALES: readonly (readonly [number, string])[] = [
  [1e12, "T"],
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
];
const MOST_DECIMALS = 6;
export const NOTHING = "–";

/** A number out of JSON; NaN where there is none. */
export function toNumber(value: Num | null | undefined): number {
  return value === null || value === undefined ? NaN : Number(value);
}

function trim(text: string): string {
  return text.includes("e") ? text.replace(/\.?0+e/, "e") : text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

/** A number in a few significant digits. */
export function number(given: Num | null | undefined, digits = 4): string {
  if (given === null || given === undefined) return NOTHING;
  const value = Number(Number(given).toPrecision(digits));
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  const [unit, letter] = scaleOf(size);
  const text = letter ? trim((value / unit).toPrecision(digits)) + letter : significant(value, size, digits);
  return text.replace("-", "−");
}

function significant(value: number, size: number, digits: number): string {
  if (size && (size < 1e-4 || size >= 1e15)) return trim(value.toExponential(digits - 1));
  return size >= 10 ** digits ? String(value) : trim(value.toPrecision(digits));
}

/** The unit in which a size is written; 1 where it needs none. */
function scaleOf(size: number): readonly [number, string] {
  return SCALES.find(([least]) => size < 1e15 && size >= (least === 1e3 ? 1e4 : least)) ?? [1, ""];
}

function magnitude(value: number): number {
  return Math.floor(Math.log10(Math.abs(value))) + 1;
}

/** Digits behind the point that an interval of this width can tell. */
export function decimals(low: number, high: number): number {
  return Math.min(Math.max(2 - magnitude(high - low), 0), MOST_DECIMALS);
}

/** With so many digits behind the point, and a plus if `sign` is set. */
export function fixed(value: number, places: number, sign: boolean): string {
  const text = (Number(value.toFixed(places)) + 0).toFixed(places).replace("-", "−");
  return sign && value >= 0 && !text.startsWith("−") ? `+${text}` : text;
}

export interface Parts {
  value: string;
  low: string;
  high: string;
}

/** A value and the ends of its interval, rounded to what the interval can tell; ends are empty where there are none. */
export function parts(given: Num | null, givenLow: Num | null, givenHigh: Num | null, sign = false): Parts {
  const all = [given, givenLow, givenHigh].map(toNumber) as [number, number, number];
  if (given === null) return { value: NOTHING, low: "", high: "" };
  const plain = (one: number) => (sign && one > 0 ? "+" : "") + number(one);
  const most = Math.max(Math.abs(all[1]), Math.abs(all[2]));
  if (!all.every(Number.isFinite) || all[2] <= all[1]) return { value: plain(all[0]), low: "", high: "" };
  if (most >= 1e15) return { value: plain(all[0]), low: plain(all[1]), high: plain(all[2]) };
  const [unit, letter] = scaleOf(most);
  const [value, low, high] = all.map((one) => one / unit) as [number, number, number];
  const places = Math.max(decimals(low, high), sign || !value ? 0 : Math.min(2 - magnitude(value), MOST_DECIMALS));
  const text = (one: number) => fixed(one, places, sign) + letter;
  return { value: text(value), low: text(low), high: text(high) };
}

/** A value and its interval in one text: `0.512 [0.492, 0.533]`. */
export function withInterval(value: Num | null, low: Num | null, high: Num | null, sign = false): string {
  const shown = parts(value, low, high, sign);
  return shown.low ? `${shown.value} [${shown.low}, ${shown.high}]` : shown.value;
}

/** A probability as papers give it. */
export function pValue(given: Num | null): string {
  const value = toNumber(given);
  if (Number.isNaN(value)) return NOTHING;
  if (value < 0.0001) return "< 0.0001";
  return value < 0.1 ? trim(value.toPrecision(2)) : value.toFixed(2);
}

/** A share of something in percent. */
export function percent(value: Num | null | undefined): string {
  if (value === null || value === undefined) return NOTHING;
  const shown = toNumber(value) * 100;
  return `${shown < 10 ? shown.toFixed(1) : shown.toFixed(0)} %`;
}

/** A confidence level in percent. */
export function inPercent(level: Num): number {
  return Math.round(toNumber(level) * 100);
}

/** A whole number with its thousands apart. */
export function count(value: number | null | undefined): string {
  if (value === null || value === undefined) return NOTHING;
  return String(Math.round(value)).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

/** Bytes. */
export function size(value: number | null | undefined): string {
  if (value === null || value === undefined) return NOTHING;
  return value < 1e9 ? `${number(value / 1e6, 3)} MB` : `${number(value / 1e9, 3)} GB`;
}

const UNITS = {
  en: { ms: "ms", s: "s", min: "min", h: "h", d: "d" },
  zh: { ms: "毫秒", s: "秒", min: "分钟", h: "小时", d: "天" },
};

/** Seconds as s, min, h, d, in the reader's language. */
export function duration(given: Num | null | undefined): string {
  const seconds = toNumber(given);
  const unit = UNITS[language.value];
  if (!Number.isFinite(seconds)) return NOTHING;
  if (seconds < 1) return `${number(seconds * 1000, 2)} ${unit.ms}`;
  if (seconds < 10) return `${(Math.floor(seconds * 10) / 10).toFixed(1).replace(".0", "")} ${unit.s}`;
  if (seconds < 120) return `${Math.round(seconds)} ${unit.s}`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 120) return `${minutes} ${unit.min}`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} ${unit.h} ${minutes % 60} ${unit.min}` : `${Math.floor(hours / 24)} ${unit.d} ${hours % 24} ${unit.h}`;
}

/** A moment in the reader's own time zone. */
export function moment(seconds: Num): string {
  const at = new Date(toNumber(seconds) * 1000);
  const two = (value: number) => String(value).padStart(2, "0");
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${two(at.getHours())}:${two(at.getMinutes())}`;
}

/** A value of a configuration. */
export function plain(value: unknown): string {
  if (value === null || value === undefined) return NOTHING;
  if (typeof value === "number") return number(value, 6);
  return typeof value === "string" ? value : JSON.stringify(value);
}
