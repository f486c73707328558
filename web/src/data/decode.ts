// Curves out of an answer of /api/series: base64 of little-endian floats, one x array for all.

import type { SeriesAnswer } from "./answers";
import { bytes, floats } from "./base64";

export interface Odd {
  x: number;
  count: number;
  kind: "nan" | "inf" | "-inf" | "";
}

export interface Curve {
  run: number;
  key: string;
  /** Step of each value: the middle of its bucket. */
  xs: Float64Array;
  ys: Float32Array;
  low: Float32Array | null;
  high: Float32Array | null;
  /** Steps a bucket holds; 0 where each value is a point itself. */
  width: number;
  odd: Odd[];
  numPoints: number;
  /** Whether points have come that `numPoints` does not count. */
  grown: boolean;
}

export interface Envelope {
  xs: Float64Array;
  low: Float32Array;
  high: Float32Array;
  width: number;
}

export interface Decoded {
  curves: Curve[];
  envelopes: Map<string, Envelope>;
  /** Seconds since a run was created, by step. */
  walls: Map<number, { xs: Float64Array; ys: Float32Array }>;
  leftOut: string[];
  buckets: number;
  exact: boolean;
}

/** All that an answer holds. */
export function decode(answer: SeriesAnswer): Decoded {
  const starts = new Float64Array(bytes(answer.steps).buffer);
  const half = answer.exact ? 0 : (answer.width - 1) / 2;
  const xs = starts.map((start) => start + half);
  const data = floats(answer.data);
  const n = answer.num_buckets;
  const part = (at: number, index: number) => data.subarray(at + index * n, at + (index + 1) * n);
  const width = answer.exact ? 0 : answer.width;
  const curves = answer.series.map((one): Curve => ({
    run: one.run,
    key: one.key,
    xs,
    ys: part(one.at, 0),
    low: one.bands ? part(one.at, 1) : null,
    high: one.bands ? part(one.at, 2) : null,
    width,
    odd: one.non_finite.map(([bucket, count, kind]) => ({ x: xs[bucket] ?? 0, count, kind: kind as Odd["kind"] })),
    numPoints: one.num_points,
    grown: false,
  }));
  const envelopes = new Map(
    answer.envelopes.map((one) => [one.key, { xs, low: part(one.at, 0), high: part(one.at, 1), width }]),
  );
  const walls = new Map(answer.walls.map((one) => [one.run, { xs, ys: part(one.at, 0) }]));
  return { curves, envelopes, walls, leftOut: answer.left_out, buckets: n, exact: answer.exact };
}

/** The step from which a curve is asked for again when its run has gone on: the start of its last bucket. */
export function openStep(curve: Curve): number {
  let last = curve.ys.length - 1;
  while (last >= 0 && Number.isNaN(curve.ys[last])) last--;
  const half = curve.width ? (curve.width - 1) / 2 : 0;
  const odd = curve.odd.reduce((most, one) => Math.max(most, one.x), 0);
  return Math.max(0, Math.ceil(Math.max(last < 0 ? 0 : curve.xs[last]!, odd) - half));
}

/** A curve whose end, from step `low` on, is replaced by what is there now. */
export function extend(curve: Curve, more: Curve, low: number): Curve {
  const found = curve.xs.findIndex((x) => x >= low);
  const kept = found < 0 ? curve.xs.length : found;
  const join = (old: Float32Array, end: Float32Array) => {
    const out = new Float32Array(kept + end.length);
    out.set(old.subarray(0, kept));
    out.set(end, kept);
    return out;
  };
  const xs = new Float64Array(kept + more.xs.length);
  xs.set(curve.xs.subarray(0, kept));
  xs.set(more.xs, kept);
  return {
    ...curve,
    xs,
    ys: join(curve.ys, more.ys),
    low: curve.low && join(curve.low, more.low ?? more.ys),
    high: curve.high && join(curve.high, more.high ?? more.ys),
    odd: [...curve.odd.filter((odd) => odd.x < low), ...more.odd],
    grown: true,
  };
}
