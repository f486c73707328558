// Measured checkpoints of several runs or groups of runs: a chart a task and metric, a line each.

import { useMemo } from "preact/hooks";
import { spelling } from "../chart/axis";
import { CurveCard } from "../chart/curve_card";
import { EMPTY, type Line } from "../chart/picture";
import { value } from "../state/place";

export interface MeasuredChartsProps {
  /** Lines by the title of their chart. */
  charts: ReadonlyMap<string, Line[]>;
  note: string;
}

const HEIGHT = 190;

function Chart({ title, lines, note }: { title: string; lines: Line[]; note: string }) {
  const log = value("log") === "1";
  const picture = useMemo(() => ({ ...EMPTY, ...spelling("step"), lines, log }), [lines, log]);
  return <CurveCard title={title} picture={picture} focus={null} height={HEIGHT} notes={[note]} />;
}

interface Titled {
  task: string;
  label: string;
  metric: string;
  slice?: string;
}

/** What a curve is of, as the title of its chart. */
export function titleOf(curve: Titled): string {
  return [curve.task, curve.label, curve.metric, curve.slice].filter(Boolean).join(" · ");
}

/** Lines of curves by the title of their chart. */
export function chartsOf<Curve extends Titled>(curves: readonly Curve[], lineOf: (curve: Curve) => Line): Map<string, Line[]> {
  const found = new Map<string, Line[]>();
  for (const curve of curves) found.set(titleOf(curve), [...(found.get(titleOf(curve)) ?? []), lineOf(curve)]);
  return found;
}

/** The charts; on a linear scale a run that went astray leaves no room for the others, so the URL may ask for a log one. */
export function MeasuredCharts({ charts, note }: MeasuredChartsProps) {
  return (
    <div class="grid wide">
      {[...charts].map(([title, lines]) => (
        <Chart key={title} title={title} lines={lines} note={note} />
      ))}
    </div>
  );
}
