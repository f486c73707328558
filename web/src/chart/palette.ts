// Colours that the colour-blind tell apart (Okabe and Ito), and what is done when there are more lines than colours.

import type { Theme } from "../state/settings";

/** Okabe–Ito without yellow (too pale on paper) and with grey for black, which text has. */
export const COLOURS: Record<Theme, readonly string[]> = {
  light: ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6b6b6b"],
  dark: ["#3d9bd9", "#e8752a", "#1fb58a", "#d98cb6", "#e69f00", "#8fd0f5", "#dedede"],
};

/** Line styles: a second round of colours is dashed, and so on. */
export const DASHES: readonly (readonly number[])[] = [[], [7, 3], [2, 2.5], [9, 3, 2, 3]];

/** Lines that can be told apart. */
export const MOST_STYLES = COLOURS.light.length * DASHES.length;

/** Lines in colour where there are too many to tell all apart: the first of the table. */
export const MOST_MARKED = COLOURS.light.length - 1;

export interface Style {
  colour: string;
  dash: readonly number[];
  /** Whether it is one of many in grey. */
  faint: boolean;
}

/** Style of the line at this place; no two places below MOST_STYLES share one. */
export function styleAt(place: number, theme: Theme): Style {
  const colours = COLOURS[theme];
  const dash = DASHES[Math.floor(place / colours.length)] ?? [];
  return { colour: colours[place % colours.length]!, dash, faint: false };
}

/** Style of the many. */
export function faintStyle(theme: Theme): Style {
  return { colour: theme === "dark" ? "#8a8a8a" : "#8c8c8c", dash: [], faint: true };
}

/**
 * Styles of runs: by age where each can have its own, so that a style stays when the table is sorted anew;
 * else the first rows of the table have colours and the others are grey.
 */
export function stylesOf(runs: readonly number[], theme: Theme): Map<number, Style> {
  if (runs.length <= MOST_STYLES) {
    const byAge = [...runs].sort((a, b) => a - b);
    return new Map(byAge.map((run, place) => [run, styleAt(place, theme)]));
  }
  return new Map(runs.map((run, place) => [run, place < MOST_MARKED ? styleAt(place, theme) : faintStyle(theme)]));
}
