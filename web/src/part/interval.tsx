// Values with their intervals as a point with whiskers, on a scale that rows share.

import type { Conclusion, Num } from "../data/answers";
import { toNumber } from "../words/numbers";

export interface Span {
  low: number;
  high: number;
}

/** A scale on which all given intervals and zero have their place. */
export function spanOf(rows: readonly { value: Num | null; ci_low: Num | null; ci_high: Num | null }[]): Span {
  const all = rows.flatMap((row) => [row.value, row.ci_low, row.ci_high].map(toNumber)).filter(Number.isFinite);
  const [low, high] = [Math.min(0, ...all), Math.max(0, ...all)];
  const pad = (high - low) * 0.06 || 1;
  return { low: low - pad, high: high + pad };
}

export interface WhiskerProps {
  value: Num | null;
  low: Num | null;
  high: Num | null;
  span: Span;
  finding: Conclusion;
  width?: number;
  /** A second line beside zero, as the bound of a gate. */
  bound?: Num | null;
  /** Whether zero is written below its line: where no heading says which line is zero. */
  named?: boolean;
}

const HEIGHT = 18;
const NAME_HEIGHT = 10;

/** A difference on a scale with zero: the point, its interval, and by its form whether it is told from zero. */
export function Whisker({ value, low, high, span, finding, width = 150, bound = null, named = false }: WhiskerProps) {
  const x = (one: Num | null) => (((toNumber(one) - span.low) / (span.high - span.low)) * width).toFixed(1);
  const known = Number.isFinite(toNumber(value));
  const wide = Number.isFinite(toNumber(low)) && Number.isFinite(toNumber(high));
  return (
    <svg class={`whisker ${finding}`} width={width} height={HEIGHT + (named ? NAME_HEIGHT : 0)} aria-hidden="true">
      {named && <text x={x(0)} y={HEIGHT + NAME_HEIGHT - 1}>0</text>}
      <line class="zero" x1={x(0)} x2={x(0)} y1="0" y2={HEIGHT} />
      {bound !== null && <line class="bound" x1={x(bound)} x2={x(bound)} y1="0" y2={HEIGHT} />}
      {wide && <line class="interval" x1={x(low)} x2={x(high)} y1={HEIGHT / 2} y2={HEIGHT / 2} />}
      {known && <circle cx={x(value)} cy={HEIGHT / 2} r="3.4" />}
    </svg>
  );
}
