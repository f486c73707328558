// What a chart shows, without how it is drawn.

import type { Envelope, Odd } from "../data/decode";
import type { Num, Severity } from "../data/answers";
import { toNumber } from "../words/numbers";
import type { MarkKind } from "./marks";
import type { Style } from "./palette";

export interface Line {
  run: number;
  label: string;
  style: Style;
  xs: ArrayLike<number>;
  ys: ArrayLike<number>;
  low: ArrayLike<number> | null;
  high: ArrayLike<number> | null;
  /** Extent in x that a value stands for: its band is that wide; 0 where values are points. */
  width: number;
  odd: readonly Odd[];
  /** Measured values with intervals: dots, whiskers and a band between them. */
  measured: boolean;
  /** The raw values below a smoothed line. */
  pale: boolean;
}

export interface Picture {
  lines: Line[];
  envelope: Envelope | null;
  markers: readonly { kind: MarkKind; x: number; text: string }[];
  windows: readonly { from: number; to: number; severity: Severity }[];
  /** A value to compare with, as a horizontal line. */
  level: number | null;
  log: boolean;
  /** Limits of x where one has zoomed; else all there is. */
  from: number | null;
  to: number | null;
  /** How a place on x is written. */
  spellX: (x: number) => string;
  /** The same in the little room of an axis. */
  tickX: (x: number) => string;
  /** Whether there is nothing between whole numbers of x. */
  wholeX: boolean;
}

/** A value that was measured at a step, with its interval. */
export interface Measured {
  step: number;
  value: Num | null;
  ci_low?: Num | null;
  ci_high?: Num | null;
}

/** The line of measured values. */
export function measuredLine(run: number, label: string, style: Style, points: readonly Measured[]): Line {
  const row = (key: keyof Measured) => Float64Array.from(points, (point) => toNumber(point[key]));
  return { run, label, style, xs: row("step"), ys: row("value"), low: row("ci_low"), high: row("ci_high"), width: 0, odd: [], measured: true, pale: false };
}

export const EMPTY: Omit<Picture, "lines" | "spellX" | "tickX" | "wholeX"> = {
  envelope: null,
  markers: [],
  windows: [],
  level: null,
  log: false,
  from: null,
  to: null,
};

export type Range = [number, number];

/** The extent of all lines in x. */
export function extentX(picture: Picture): Range {
  let [low, high] = [Infinity, -Infinity];
  for (const line of picture.lines) {
    for (let i = 0; i < line.xs.length; i++) {
      if (!Number.isFinite(line.ys[i]) || !Number.isFinite(line.xs[i])) continue;
      low = Math.min(low, line.xs[i]!);
      high = Math.max(high, line.xs[i]!);
    }
    for (const odd of line.odd) {
      low = Math.min(low, odd.x);
      high = Math.max(high, odd.x);
    }
  }
  if (picture.from !== null) low = picture.from;
  if (picture.to !== null) high = picture.to;
  if (!(low <= high)) return [0, 1];
  const margin = picture.from === null && picture.lines.some((line) => line.measured) ? (high - low) * 0.02 : 0;
  return low === high ? [low - 0.5, high + 0.5] : [low - margin, high + margin];
}

/** Share of a chart's width within which a chosen range ends at the newest point. */
const END = 0.01;

/** Whether a range of x goes up to the newest point, so that it is to follow the ones that come. */
export function reachesEnd(picture: Picture, range: Range): boolean {
  const [low, high] = extentX(picture);
  return range[1] >= high - (high - low) * END;
}

/** The extent of all values, bands and intervals that stand within a range of x. */
export function extentY(picture: Picture, [from, to]: Range): Range {
  let [low, high] = [Infinity, -Infinity];
  const see = (value: number | undefined) => {
    if (value === undefined || !Number.isFinite(value) || (picture.log && value <= 0)) return;
    if (value < low) low = value;
    if (value > high) high = value;
  };
  const walk = (xs: ArrayLike<number>, rows: (ArrayLike<number> | null)[], width: number) => {
    for (let i = 0; i < xs.length; i++) {
      if (xs[i]! + width < from || xs[i]! - width > to) continue;
      for (const row of rows) if (row) see(row[i]);
    }
  };
  for (const line of picture.lines) walk(line.xs, [line.ys, line.low, line.high], line.width);
  if (picture.envelope) walk(picture.envelope.xs, [picture.envelope.low, picture.envelope.high], picture.envelope.width);
  if (picture.level !== null) see(picture.level);
  return padded(low, high, picture.log);
}

function padded(low: number, high: number, log: boolean): Range {
  if (!(low <= high)) return log ? [0.1, 1] : [0, 1];
  if (log) return low === high ? [low / 2, high * 2] : [low / (high / low) ** 0.05, high * (high / low) ** 0.05];
  const pad = low === high ? Math.abs(low) * 0.11 || 1 : (high - low) * 0.06;
  return [low - pad, high + pad];
}

/** Values that a log axis cannot show. */
export function withoutLog(picture: Picture): number {
  if (!picture.log) return 0;
  const raw = picture.lines.filter((line) => line.pale);
  let found = 0;
  for (const line of raw.length ? raw : picture.lines) {
    for (let i = 0; i < line.ys.length; i++) if (line.ys[i]! <= 0) found++;
  }
  return found;
}

/** Places for numbers on a log axis: powers of ten, or round numbers where there is less than one and a half. */
export function logTicks(low: number, high: number, most: number): number[] {
  const decades = Math.log10(high / low);
  const out: number[] = [];
  if (decades >= 1.5) {
    const every = Math.max(1, Math.ceil(decades / most));
    for (let power = Math.ceil(Math.log10(low)); 10 ** power <= high; power += every) out.push(10 ** power);
    return out;
  }
  const rough = (high - low) / most;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = unit * ([1, 2, 5, 10].find((factor) => factor * unit >= rough) ?? 10);
  for (let i = Math.ceil(low / step); i * step <= high; i++) if (i > 0) out.push(i * step);
  return out;
}

/** Index of the value nearest to x; -1 where there is none. */
export function nearest(line: Line, x: number): number {
  let [low, high] = [0, line.xs.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (line.xs[middle]! < x) low = middle + 1;
    else high = middle;
  }
  let [before, after] = [low - 1, low];
  while (before >= 0 && !Number.isFinite(line.ys[before])) before--;
  while (after < line.xs.length && !Number.isFinite(line.ys[after])) after++;
  if (after >= line.xs.length) return before;
  if (before < 0) return after;
  return x - line.xs[before]! <= line.xs[after]! - x ? before : after;
}

/** Where a value stands: the first step of its bucket. */
export function placeOf(picture: Picture, line: Line, i: number): string {
  return picture.spellX(line.width ? line.xs[i]! - (line.width - 1) / 2 : line.xs[i]!);
}
