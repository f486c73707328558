// A slope in a unit that fits the run: nobody thinks of an accuracy as -18 in 1,000 steps of a run of 33.

import type { Num } from "../data/answers";
import { toNumber } from "./numbers";

interface Slope {
  value: Num;
  ci_low: Num | null;
  ci_high: Num | null;
  first_step: number;
  last_step: number;
}

/**
 * The most of 1, 10, 100, … steps, up to `per`, that the checkpoints span and in which the slope and its interval stay
 * within the range of the metric (null = it has no end there).
 */
export function fittingSteps(slope: Slope, per: number, lowest: Num | null, highest: Num | null): number {
  const ends = [slope.value, slope.ci_low, slope.ci_high].map(toNumber).filter(Number.isFinite);
  const most = Math.max(...ends.map(Math.abs));
  const range = lowest === null || highest === null ? Infinity : toNumber(highest) - toNumber(lowest);
  let steps = per;
  while (steps > 1 && (steps > slope.last_step - slope.first_step || (most * steps) / per > range)) steps /= 10;
  return steps;
}
