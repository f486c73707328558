import { describe, expect, test } from "vitest";
import { count, duration, number, parts, percent, pValue, withInterval } from "../src/words/numbers";

// the terminal's rules: src/midflight/show/lines.py has the same cases
describe("numbers with their intervals", () => {
  test("a number in a few digits", () => {
    expect([0.5, 1234567, null, "NaN" as const, 1e-9, -0.0, 9999.9, 160].map((one) => number(one))).toEqual([
      "0.5", "1.235M", "–", "NaN", "1e−9", "0", "10k", "160",
    ]);
    expect(number(160, 2)).toBe("160");
    expect(number("Infinity")).toBe("∞");
    expect(number("-Infinity")).toBe("−∞");
  });

  test("a value is rounded to what its interval can tell", () => {
    expect(withInterval(0.51234, 0.4917, 0.5329)).toBe("0.512 [0.492, 0.533]");
    expect(withInterval(0.0123456, -0.0021, 0.0267)).toBe("0.012 [−0.002, 0.027]");
    expect(withInterval(0.5, null, null)).toBe("0.5");
    expect(withInterval(null, null, null)).toBe("–");
  });

  test("a difference has its sign", () => {
    expect(withInterval(0.01234, -0.0042, 0.0288, true)).toBe("+0.012 [−0.004, +0.029]");
    expect(withInterval(-3, null, null, true)).toBe("−3");
  });

  test("an interval that is none is not shown", () => {
    expect(parts(1, 1, 1).low).toBe("");
    expect(parts(1, "NaN", "NaN").low).toBe("");
    expect(parts("NaN", null, null).value).toBe("NaN");
  });

  test("missing is never zero", () => {
    for (const shown of [number(null), percent(null), count(null), duration(null), pValue(null)]) expect(shown).toBe("–");
  });

  test("large and small", () => {
    expect(count(1000000)).toBe("1,000,000");
    expect([0.0058, 0.35, 42, 200, 7300, 200000].map(duration)).toEqual(["5.8 ms", "350 ms", "42 s", "3 min", "2 h 1 min", "2 d 7 h"]);
    expect([0.00001, 0.0059, 0.2].map(pValue)).toEqual(["< 0.0001", "0.0059", "0.20"]);
    expect([0.041, 0.56].map(percent)).toEqual(["4.1 %", "56 %"]);
  });
});
