import { oneLine } from "../words/hostile";
import { toNumber } from "../words/numbers";
import type { Num } from "../data/answers";

const WIDTH = 84;
const HEIGHT = 20;

/** A curve as small as a word; its last value is a dot; `title` is what it is of. */
export function Sparkline({ values, colour, title }: { values: readonly (Num | null)[]; colour: string; title: string }) {
  const all = values.map(toNumber);
  const known = all.filter(Number.isFinite);
  if (!known.length) return <svg class="spark" width={WIDTH} height={HEIGHT} aria-hidden="true" />;
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const x = (i: number) => 2 + (i / Math.max(1, all.length - 1)) * (WIDTH - 6);
  const y = (value: number) => (high === low ? HEIGHT / 2 : 3 + (1 - (value - low) / (high - low)) * (HEIGHT - 6));
  const at = all.map((value, i) => ({ value, i })).filter(({ value }) => Number.isFinite(value));
  const last = at[at.length - 1]!;
  return (
    <svg class="spark" width={WIDTH} height={HEIGHT} role="img" aria-label={oneLine(title, 120)}>
      <title>{oneLine(title, 120)}</title>
      <polyline fill="none" stroke={colour} stroke-width="1.2" points={at.map(({ value, i }) => `${x(i).toFixed(1)},${y(value).toFixed(1)}`).join(" ")} />
      <circle cx={x(last.i)} cy={y(last.value)} r="1.9" fill={colour} />
    </svg>
  );
}
