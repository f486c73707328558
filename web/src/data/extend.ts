// Curves of runs that go on; it comes when the first of them does.

import type { Curve } from "./decode";

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
