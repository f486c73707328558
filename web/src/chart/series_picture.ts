// The picture of one logged series over runs.

import type { Curve } from "../data/decode";
import type { Curves, StepRange } from "../data/curves";
import type { Marker } from "../data/answers";
import type { Severity } from "../data/answers";
import { t } from "../state/settings";
import { count } from "../words/numbers";
import { along, placesOf, spelling, tableOf, type Axes, type AxisKind } from "./axis";
import type { Line, Picture } from "./picture";
import type { Style } from "./palette";
import { smooth } from "./smooth";

export interface DrawnRun {
  id: number;
  name: string;
  style: Style;
}

export interface View {
  kind: AxisKind;
  axes: Axes;
  log: boolean;
  smoothing: number;
  range: StepRange | null;
}

export interface Extras {
  markers: readonly Marker[];
  windows: readonly { from: number; to: number; severity: Severity }[];
}

function linesOf(run: DrawnRun, curve: Curve, curves: Curves, view: View): Line[] {
  const xs = placesOf(view.kind, view.axes, curves, curve);
  const onStep = view.kind === "step";
  const odd = onStep ? curve.odd : curve.odd.map((one) => ({ ...one, x: xs[curve.xs.indexOf(one.x)] ?? NaN }));
  const raw: Line = {
    run: run.id,
    label: run.name,
    style: run.style,
    xs,
    ys: curve.ys,
    low: curve.low,
    high: curve.high,
    width: onStep ? curve.width : 0,
    odd,
    measured: false,
    pale: view.smoothing > 0,
  };
  if (!view.smoothing) return [raw];
  return [raw, { ...raw, ys: smooth(curve.ys, view.smoothing), low: null, high: null, odd: [], pale: false }];
}

/** The picture of a series; null while nothing of it is there. */
export function seriesPicture(key: string, runs: readonly DrawnRun[], curves: Curves, view: View, extras: Extras): Picture | null {
  const found = curves.byKey.get(key);
  if (!found) return null;
  const lines = runs.flatMap((run) => {
    const curve = found.get(run.id);
    return curve ? linesOf(run, curve, curves, view) : [];
  });
  const first = runs[0];
  const table = first && view.kind !== "step" ? tableOf(view.kind, view.axes, curves, first.id) : null;
  const move = (step: number) => (view.kind === "step" ? step : table ? along([step], table)[0]! : NaN);
  const onStep = view.kind === "step";
  return {
    lines,
    envelope: onStep ? (curves.envelopes.get(key) ?? null) : null,
    markers: extras.markers.map(({ kind, step, text }) => ({ kind, x: move(step), text })),
    windows: extras.windows.map((window) => ({ from: move(window.from), to: move(window.to), severity: window.severity })),
    level: null,
    log: view.log,
    from: onStep ? (view.range?.low ?? null) : null,
    to: onStep ? (view.range?.high ?? null) : null,
    ...spelling(view.kind),
  };
}

interface Cut {
  points: number;
  buckets: number;
  /** Whether points have come that are not counted. */
  grown: boolean;
  /** Values that the floats of an answer do not reach. */
  beyond: number;
  /** Runs that have the series. */
  runs: number;
}

function cutOf(runs: readonly DrawnRun[], curves: ReadonlyMap<number, Curve>): Cut {
  const cut: Cut = { points: 0, buckets: 0, grown: false, beyond: 0, runs: 0 };
  for (const run of runs) {
    const curve = curves.get(run.id);
    if (!curve) continue;
    let values = 0;
    for (const value of curve.ys) {
      if (value === Infinity || value === -Infinity) cut.beyond++;
      if (!Number.isNaN(value)) values++;
    }
    cut.runs++;
    if (!curve.width || (curve.numPoints <= values && !curve.grown)) continue;
    cut.points += curve.numPoints;
    cut.buckets = Math.max(cut.buckets, values);
    cut.grown ||= curve.grown;
  }
  return cut;
}

/** What the picture of a series does not show as it is. */
export function seriesNotes(key: string, runs: readonly DrawnRun[], curves: Curves): string[] {
  const found = curves.byKey.get(key);
  if (!found) return [];
  const cut = cutOf(runs, found);
  const notes: string[] = [];
  if (cut.points) {
    const points = (cut.grown ? "> " : "") + count(cut.points);
    notes.push(t(curves.envelopes.has(key) ? "chart.envelope" : "chart.buckets", { points, buckets: count(cut.buckets) }));
  }
  if (cut.beyond) notes.push(t("chart.beyond", { n: count(cut.beyond) }));
  if (cut.runs && cut.runs < runs.length) notes.push(t("chart.without", { n: count(cut.runs), total: count(runs.length) }));
  return notes;
}

/** The steps that a range on an axis stands for. */
export function stepsOf(picture: Picture, key: string, curves: Curves, range: readonly [number, number]): { low: number; high: number } {
  let [low, high] = [Infinity, -Infinity];
  for (const line of picture.lines) {
    const steps = curves.byKey.get(key)?.get(line.run)?.xs;
    if (!steps) continue;
    for (let i = 0; i < line.xs.length; i++) {
      if (line.xs[i]! < range[0] || line.xs[i]! > range[1]) continue;
      low = Math.min(low, steps[i]!);
      high = Math.max(high, steps[i]!);
    }
  }
  return low <= high ? { low: Math.floor(low), high: Math.ceil(high) } : { low: Math.floor(range[0]), high: Math.ceil(range[1]) };
}
