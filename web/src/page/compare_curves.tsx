// Measured checkpoints of several runs in one chart a task.

import { useMemo } from "preact/hooks";
import type { Style } from "../chart/palette";
import { measuredLine } from "../chart/picture";
import type { CompareAnswer } from "../data/answers";
import { t } from "../state/settings";
import { ScaleChoice } from "../part/choices";
import { chartsOf, MeasuredCharts } from "../part/measured_charts";

/** A chart a task and way of evaluating. */
export function CompareCurves({ answer, styles }: { answer: CompareAnswer; styles: Map<number, Style> }) {
  const charts = useMemo(() => {
    const names = new Map([answer.baseline, ...answer.candidates].map((side) => [side.run, side.name]));
    return chartsOf(answer.curves, ({ run, points }) =>
      measuredLine(run, names.get(run) ?? `#${run}`, styles.get(run)!, points.map(({ step, estimate }) => ({ ...estimate, step }))),
    );
  }, [answer, styles]);
  if (!charts.size) return null;
  return (
    <section>
      <h2 class="with-choice">
        {t("compare.curves")} <ScaleChoice />
      </h2>
      <MeasuredCharts charts={charts} note={t("compare.bands")} />
    </section>
  );
}
