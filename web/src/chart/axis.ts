// What x means: steps, or what a logged series or the clock makes of them.

import type { Curve } from "../data/decode";
import type { Curves } from "../data/curves";
import { count, duration, number } from "../words/numbers";

export type AxisKind = "step" | "epoch" | "tokens" | "wall";

export interface Axes {
  epoch: string | null;
  tokens: string | null;
}

export interface Spelling {
  spellX: (x: number) => string;
  tickX: (x: number) => string;
}

/** How places on an axis are written, and in little room. */
export function spelling(kind: AxisKind): Spelling {
  if (kind === "wall") return { spellX: duration, tickX: duration };
  const tickX = (x: number) => number(x, 4);
  return { spellX: kind === "step" ? (x) => count(Math.floor(x)) : (x) => number(x, 6), tickX };
}

interface Table {
  xs: ArrayLike<number>;
  ys: ArrayLike<number>;
}

/** Values of a rising table at these steps, on straight lines between what is known; NaN outside. */
export function along(steps: ArrayLike<number>, table: Table): Float64Array {
  const known: number[] = [];
  for (let i = 0; i < table.xs.length; i++) if (Number.isFinite(table.ys[i])) known.push(i);
  const out = new Float64Array(steps.length).fill(NaN);
  let k = 0;
  for (let i = 0; i < steps.length; i++) {
    const step = steps[i]!;
    while (k < known.length - 2 && table.xs[known[k + 1]!]! < step) k++;
    const [a, b] = [known[k], known[k + 1] ?? known[k]];
    if (a === undefined || b === undefined) continue;
    const [x0, x1, y0, y1] = [table.xs[a]!, table.xs[b]!, table.ys[a]!, table.ys[b]!];
    if (x1 > x0) out[i] = y0 + ((y1 - y0) * (step - x0)) / (x1 - x0);
    else if (step === x0) out[i] = y0;
  }
  return out;
}

/** The table of an axis for a run; null while it is not there. */
export function tableOf(kind: AxisKind, axes: Axes, curves: Curves, run: number): Table | null {
  if (kind === "wall") return curves.walls.get(run) ?? null;
  const key = kind === "epoch" ? axes.epoch : kind === "tokens" ? axes.tokens : null;
  return (key && curves.byKey.get(key)?.get(run)) || null;
}

/** A curve's places on an axis. */
export function placesOf(kind: AxisKind, axes: Axes, curves: Curves, curve: Curve): ArrayLike<number> {
  if (kind === "step") return curve.xs;
  const table = tableOf(kind, axes, curves, curve.run);
  return table ? along(curve.xs, table) : new Float64Array(curve.xs.length).fill(NaN);
}
