/**
 * Exponential moving average without the pull of its start (as Adam corrects it); values that are not there stay out.
 *
 * @param weight Of what came before, 0 to below 1.
 */
export function smooth(values: ArrayLike<number>, weight: number): Float32Array {
  const out = new Float32Array(values.length).fill(NaN);
  let sum = 0;
  let weights = 0;
  for (let i = 0; i < values.length; i++) {
    const value = values[i]!;
    if (!Number.isFinite(value)) continue;
    sum = weight * sum + (1 - weight) * value;
    weights = weight * weights + (1 - weight);
    out[i] = sum / weights;
  }
  return out;
}
