import { describe, expect, test } from "vitest";
import { along } from "../src/chart/axis";
import { COLOURS, faintStyle, MOST_MARKED, MOST_STYLES, styleAt, stylesOf } from "../src/chart/palette";
import { EMPTY, extentX, extentY, logTicks, nearest, withoutLog, type Line, type Picture } from "../src/chart/picture";
import { smooth } from "../src/chart/smooth";

function lineOf(xs: number[], ys: number[], more: Partial<Line> = {}): Line {
  return { run: 1, label: "a", style: styleAt(0, "light"), xs, ys, low: null, high: null, width: 0, odd: [], measured: false, pale: false, ...more };
}

function pictureOf(lines: Line[], more: Partial<Picture> = {}): Picture {
  return { ...EMPTY, spellX: String, tickX: String, lines, ...more };
}

describe("palette", () => {
  test("no two lines of a picture share colour and dashes", () => {
    for (const theme of ["light", "dark"] as const) {
      const styles = [...stylesOf(Array.from({ length: MOST_STYLES }, (_, i) => i), theme).values()];
      expect(new Set(styles.map((style) => `${style.colour} ${style.dash}`)).size).toBe(MOST_STYLES);
    }
  });

  test("a run's style does not depend on how the table is sorted", () => {
    expect(stylesOf([5, 9, 7], "light")).toEqual(stylesOf([9, 7, 5], "light"));
  });

  test("too many to tell apart: the first have colours of their own, the others are grey", () => {
    const runs = Array.from({ length: 100 }, (_, i) => 100 - i);
    const styles = stylesOf(runs, "light");
    expect(new Set(runs.slice(0, MOST_MARKED).map((run) => styles.get(run)!.colour)).size).toBe(MOST_MARKED);
    expect(styles.get(1)).toEqual(faintStyle("light"));
  });

  // Machado, Oliveira and Fernandes (2009), severity 1.0, on linear light; distances in CIE Lab
  const MATRICES = {
    normal: [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    protanopia: [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    deuteranopia: [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    tritanopia: [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
  };

  function lab(hex: string, matrix: number[][]): number[] {
    const linear = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    const [r, g, b] = matrix.map((row) => Math.min(1, Math.max(0, row[0]! * linear[0]! + row[1]! * linear[1]! + row[2]! * linear[2]!))) as [number, number, number];
    const f = (value: number) => (value > 0.008856 ? Math.cbrt(value) : 7.787 * value + 16 / 116);
    const x = f((0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505);
    const y = f(0.2126 * r + 0.7152 * g + 0.0722 * b);
    const z = f((0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089);
    return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
  }

  test("the colour-blind tell all colours apart", () => {
    for (const theme of ["light", "dark"] as const) {
      for (const [sight, matrix] of Object.entries(MATRICES)) {
        const labs = COLOURS[theme].map((hex) => lab(hex, matrix));
        labs.forEach((a, i) => labs.slice(0, i).forEach((b, j) => {
          expect(Math.hypot(a[0]! - b[0]!, a[1]! - b[1]!, a[2]! - b[2]!), `${theme} ${sight} ${COLOURS[theme][i]} ${COLOURS[theme][j]}`).toBeGreaterThan(8);
        }));
      }
    }
  });
});

describe("scales", () => {
  test("a spike in a band is within the axis", () => {
    const picture = pictureOf([lineOf([0, 1, 2], [1, 1, 1], { low: [1, 1, 1], high: [1, 41, 1] })]);
    expect(extentY(picture, extentX(picture))[1]).toBeGreaterThan(41);
  });

  test("only what is in sight counts", () => {
    const picture = pictureOf([lineOf([0, 1, 2, 3], [0, 1, 2, 90])], { from: 0, to: 2 });
    expect(extentY(picture, extentX(picture))[1]).toBeLessThan(3);
  });

  test("a log axis leaves out what has no logarithm, and counts it", () => {
    const picture = pictureOf([lineOf([0, 1, 2, 3], [0, -1, 10, 100])], { log: true });
    expect(extentY(picture, [0, 3])[0]).toBeGreaterThan(0);
    expect(withoutLog(picture)).toBe(2);
  });

  test("a smoothed line hides nothing from the count", () => {
    const picture = pictureOf([lineOf([0, 1], [-1, 10], { pale: true }), lineOf([0, 1], [-1, 5])], { log: true });
    expect(withoutLog(picture)).toBe(1);
  });

  test("nothing, one point, all equal: still an axis", () => {
    for (const lines of [[], [lineOf([5], [2])], [lineOf([0, 1], [2, 2])], [lineOf([0, 1], [NaN, NaN])]]) {
      const picture = pictureOf(lines);
      const x = extentX(picture);
      const y = extentY(picture, x);
      expect(x[0]).toBeLessThan(x[1]);
      expect(y[0]).toBeLessThan(y[1]);
    }
  });

  test("places on a log axis", () => {
    expect(logTicks(0.5, 2000, 5)).toEqual([1, 10, 100, 1000]);
    expect(logTicks(190, 450, 4)).toEqual([200, 300, 400]);
  });

  test("the nearest value that is one", () => {
    const line = lineOf([0, 10, 20], [1, NaN, 3]);
    expect([nearest(line, 4), nearest(line, 12), nearest(line, 99), nearest(lineOf([], []), 1)]).toEqual([0, 2, 2, -1]);
  });
});

test("places between known steps lie on a line, and nowhere outside", () => {
  const table = { xs: [0, 10, 20], ys: [0, NaN, 2] };
  expect([...along([0, 5, 20], table)]).toEqual([0, 0.5, 2]);
});

test("smoothing: the mean of a constant is the constant, gaps stay gaps", () => {
  expect([...smooth([2, NaN, 2, 2], 0.9)].map((value) => Math.round(value * 1e5) / 1e5)).toEqual([2, NaN, 2, 2]);
  expect(smooth([0, 1], 0.5)[1]).toBeCloseTo(2 / 3);
});
