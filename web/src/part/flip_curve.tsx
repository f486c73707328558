// How many items are solved, were learned and forgotten since the reference, and were ever solved, by checkpoint.

import { useMemo } from "preact/hooks";
import { CurveCard } from "../chart/curve_card";
import { spelling } from "../chart/axis";
import { styleAt } from "../chart/palette";
import { EMPTY, type Picture } from "../chart/picture";
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

function noop(): void {}

/** The curves, with their names at their last values. */
export function FlipCurve({ points }: { points: readonly FlipPoint[] }) {
  const picture = useMemo((): Picture => {
    const xs = points.map((point) => point.step);
    const line = ([row, place]: (typeof ROWS)[number]) => ({
      run: place,
      label: t(`course.${row}`),
      style: styleAt(place, theme.value),
      xs,
      ys: points.map((point) => point[row]),
      low: null,
      high: null,
      width: 0,
      odd: [],
      measured: true,
      pale: false,
    });
    return { ...EMPTY, ...spelling("step"), lines: ROWS.map(line) };
  }, [points, theme.value]);
  const last = points[points.length - 1];
  if (!last || points.length < 2) return null;
  return (
    <div class="flip-curve">
      <CurveCard title={t("items.course", { n: count(last.n) })} picture={picture} focus={null} height={132} notes={[]} onZoom={noop} onSeen={noop} />
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
