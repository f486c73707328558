// Measured checkpoints of several runs in one chart a task.

import { useMemo } from "preact/hooks";
import { spelling } from "../chart/axis";
import { CurveCard } from "../chart/curve_card";
import type { Style } from "../chart/palette";
import { EMPTY, type Picture } from "../chart/picture";
import type { CompareAnswer } from "../data/answers";
import { t } from "../state/settings";
import { toNumber } from "../words/numbers";

type Curve = CompareAnswer["curves"][number];

function pictureOf(curves: readonly Curve[], styles: Map<number, Style>, names: Map<number, string>): Picture {
  return {
    ...EMPTY,
    ...spelling("step"),
    lines: curves.map((curve) => {
      const points = curve.points.filter((point) => point.estimate.value !== null);
      return {
        run: curve.run,
        label: names.get(curve.run) ?? `#${curve.run}`,
        style: styles.get(curve.run)!,
        xs: points.map((point) => point.step),
        ys: points.map((point) => toNumber(point.estimate.value)),
        low: points.map((point) => toNumber(point.estimate.ci_low)),
        high: points.map((point) => toNumber(point.estimate.ci_high)),
        width: 0,
        odd: [],
        measured: true,
        pale: false,
      };
    }),
  };
}

function noop(): void {}

function TaskCurves({ title, curves, styles, names }: { title: string; curves: readonly Curve[]; styles: Map<number, Style>; names: Map<number, string> }) {
  const picture = useMemo(() => pictureOf(curves, styles, names), [curves, styles]);
  return <CurveCard title={title} picture={picture} focus={null} height={190} notes={[t("compare.bands")]} onZoom={noop} onSeen={noop} />;
}

/** A chart a task and way of evaluating. */
export function CompareCurves({ answer, styles }: { answer: CompareAnswer; styles: Map<number, Style> }) {
  const byTask = useMemo(() => {
    const found = new Map<string, Curve[]>();
    for (const curve of answer.curves) {
      const title = [curve.task, curve.label, curve.metric].filter(Boolean).join(" · ");
      found.set(title, [...(found.get(title) ?? []), curve]);
    }
    return found;
  }, [answer]);
  const names = new Map([answer.baseline, ...answer.candidates].map((side) => [side.run, side.name]));
  if (!byTask.size) return null;
  return (
    <section>
      <h2>{t("compare.curves")}</h2>
      <div class="grid wide">
        {[...byTask].map(([title, curves]) => (
          <TaskCurves key={title} title={title} curves={curves} styles={styles} names={names} />
        ))}
      </div>
    </section>
  );
}
