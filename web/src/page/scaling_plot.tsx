// Time and speed-up over the number of workers, both axes logarithmic: runs as dots, the law as a line with its band.

import { logTicks } from "../chart/picture";
import type { Num, ScalingAnswer } from "../data/answers";
import { t } from "../state/settings";
import { NOTHING, number, toNumber } from "../words/numbers";

const WIDTH = 430;
const HEIGHT = 230;
const LEFT = 58;
const RIGHT = 14;
const TOP = 10;
const BOTTOM = 26;

interface Point {
  x: number;
  y: number;
  title?: string;
}

interface Law extends Point {
  low: number;
  high: number;
  outside: boolean;
}

interface LogPlotProps {
  title: string;
  points: readonly Point[];
  law: readonly Law[];
  ideal: readonly Point[];
  counts: readonly number[];
  spell: (y: number) => string;
}

/** Times that are held against each other: finer than a duration in words. */
export function seconds(value: Num | null): string {
  return value === null ? NOTHING : `${number(value)} s`;
}

/** A scale by which equal ratios are equal distances. */
function logScale(low: number, high: number, from: number, to: number): (value: number) => number {
  const span = Math.log(high / low) || 1;
  return (value) => from + ((to - from) * Math.log(value / low)) / span;
}

function LogPlot({ title, points, law, ideal, counts, spell }: LogPlotProps) {
  const ys = [...points, ...ideal].map((one) => one.y).concat(law.flatMap((one) => [one.y, one.low, one.high])).filter((y) => y > 0);
  const [low, high] = [Math.min(...ys) / 1.15, Math.max(...ys) * 1.15];
  const x = logScale(Math.min(...counts) / 1.08, Math.max(...counts) * 1.08, LEFT, WIDTH - RIGHT);
  const y = logScale(low, high, HEIGHT - BOTTOM, TOP);
  const path = (line: readonly Point[]) => line.map((one, i) => `${i ? "L" : "M"}${x(one.x).toFixed(1)} ${y(one.y).toFixed(1)}`).join("");
  const banded = law.filter((one) => one.low > 0 && one.high > 0);
  const band = [...banded.map((one) => ({ x: one.x, y: one.high })), ...banded.map((one) => ({ x: one.x, y: one.low })).reverse()];
  const inside = law.filter((one) => !one.outside);
  return (
    <figure class="log-plot">
      <figcaption>{title}</figcaption>
      <svg width={WIDTH} viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={title}>
        {logTicks(low, high, 6).map((tick) => (
          <g key={tick}>
            <line class="tick" x1={LEFT} x2={WIDTH - RIGHT} y1={y(tick)} y2={y(tick)} />
            <text x={LEFT - 6} y={y(tick) + 3.5} text-anchor="end">{spell(tick)}</text>
          </g>
        ))}
        {counts.map((count) => (
          <text key={count} x={x(count)} y={HEIGHT - 8} text-anchor="middle">{number(count)}</text>
        ))}
        {band.length > 0 && <path class="band" d={`${path(band)}Z`} />}
        <path class="ideal" d={path(ideal)} />
        <path class="law" d={path(inside)} />
        <path class="law outside" d={path([...inside.slice(-1), ...law.filter((one) => one.outside)])} />
        {points.map((point) => (
          <circle key={point.title} cx={x(point.x)} cy={y(point.y)} r="4">
            <title>{point.title}</title>
          </circle>
        ))}
      </svg>
    </figure>
  );
}

/** Both plots; nothing where no run has done the work. */
export function ScalingPlots({ answer }: { answer: ScalingAnswer }) {
  const timed = answer.timings.flatMap((row) => (row.seconds === null ? [] : [{ run: row.run, count: row.count, seconds: toNumber(row.seconds), speedup: toNumber(row.speedup) }]));
  if (!timed.length) return null;
  const fewest = Math.min(...timed.map((row) => row.count));
  const law = answer.curve.map((one) => ({ x: toNumber(one.count), y: toNumber(one.seconds), low: toNumber(one.ci_low), high: toNumber(one.ci_high), outside: one.is_extrapolated }));
  const counts = [...new Set([...timed.map((row) => row.count), ...law.slice(-1).map((one) => one.x)])].sort((a, b) => a - b);
  const own = timed.filter((row) => row.count === fewest);
  const first = own.reduce((sum, row) => sum + row.seconds, 0) / own.length;
  const base = law[0]?.y ?? first;
  const speeds = law.map((one) => ({ ...one, y: base / one.y, low: NaN, high: NaN }));
  return (
    <div class="log-plots">
      <LogPlot
        title={t("scaling.times", { unit: answer.unit })}
        points={timed.map((row) => ({ x: row.count, y: row.seconds, title: `${row.run}: ${seconds(row.seconds)}` }))}
        law={law}
        ideal={counts.map((count) => ({ x: count, y: (first * fewest) / count }))}
        counts={counts}
        spell={seconds}
      />
      <LogPlot
        title={t("scaling.speedups", { n: fewest, unit: answer.unit })}
        points={timed.map((row) => ({ x: row.count, y: row.speedup, title: `${row.run}: ${number(row.speedup, 3)}` }))}
        law={speeds}
        ideal={counts.map((count) => ({ x: count, y: count / fewest }))}
        counts={counts}
        spell={(y) => number(y, 3)}
      />
    </div>
  );
}
