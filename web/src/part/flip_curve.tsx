// How many items are solved, were learned and forgotten since the reference, and were ever solved, by checkpoint.

import { useMemo } from "preact/hooks";
import { CurveCard } from "../chart/curve_card";
import { spelling } from "../chart/axis";
import { styleAt } from "../chart/palette";
import { EMPTY, measuredLine, type Picture } from "../chart/picture";
import type { FlipPoint } from "../data/answers";
import { t, theme } from "../state/settings";
import { count } from "../words/numbers";
import { Swatch } from "./swatch";

const ROWS = [
  ["solved", 0],
  ["ever", 5],
  ["learned", 2],
  ["forgotten", 1],
] as const;

/** The curves, with their names at their last values. */
export function FlipCurve({ points }: { points: readonly FlipPoint[] }) {
  const picture = useMemo((): Picture => {
    const line = ([row, place]: (typeof ROWS)[number]) =>
      measuredLine(place, t(`course.${row}`), styleAt(place, theme.value), points.map((point) => ({ step: point.step, value: point[row] })));
    return { ...EMPTY, ...spelling("step"), lines: ROWS.map(line) };
  }, [points, theme.value]);
  const last = points[points.length - 1];
  if (!last) return null;
  return (
    <div class="flip-curve">
      <CurveCard title={t("items.course", { n: count(last.n) })} picture={picture} focus={null} height={132} notes={[]} />
      <ul class="legend">
        {ROWS.map(([row, place]) => (
          <li key={row}>
            <Swatch style={styleAt(place, theme.value)} /> {t(`course.${row}`)} <b class="number">{count(last[row])}</b>
          </li>
        ))}
      </ul>
    </div>
  );
}
