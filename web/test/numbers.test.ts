import { describe, expect, test } from "vitest";
import { spellPattern } from "../src/page/groups";
import { language } from "../src/state/settings";
import { rounded, sharedDecimals } from "../src/words/decimals";
import { count, duration, number, parts, percent, pValue, withInterval } from "../src/words/numbers";
import { fittingSteps } from "../src/words/slope";

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

  test("a large value and its interval share a unit", () => {
    expect(withInterval(11268.4, 8312, 15280)).toBe("11.3k [8.3k, 15.3k]");
    expect(withInterval(9500, 9100, 9900)).toBe("9500 [9100, 9900]");
    expect(withInterval(-2.5e6, -3e6, -2e6, true)).toBe("−2.5M [−3.0M, −2.0M]");
  });

  test("values in a column have the decimals of the smallest error", () => {
    const rows = [{ ci_low: 7838, ci_high: 14700 }, { ci_low: -0.019, ci_high: 0.021 }, { ci_low: null, ci_high: null }];
    expect(sharedDecimals(rows)).toBe(3);
    expect([1.29, 1.2911, 11268.4].map((one) => rounded(one, 3))).toEqual(["1.290", "1.291", "11.27k"]);
    expect(sharedDecimals([rows[0]!])).toBe(null);
    expect([rounded(1.29, null), rounded(null, 3)]).toEqual(["1.29", "–"]);
  });

  test("a slope is of as many steps as the run has and the metric's range allows", () => {
    const slope = { value: -17.9, ci_low: -45.5, ci_high: 9.7, first_step: 0, last_step: 33 };
    expect(fittingSteps(slope, 1000, 0, 1)).toBe(10);
    expect(fittingSteps({ ...slope, last_step: 5000 }, 1000, 0, 1)).toBe(10);
    expect(fittingSteps({ ...slope, last_step: 5000 }, 1000, 0, null)).toBe(1000);
    expect(fittingSteps({ value: 0.1, ci_low: null, ci_high: null, first_step: 100, last_step: 500 }, 1000, 0, 1)).toBe(100);
    expect(fittingSteps({ ...slope, last_step: 1 }, 1000, null, null)).toBe(1);
  });

  test("times are in the reader's language", () => {
    language.value = "zh";
    expect([42, 200, 7300].map(duration)).toEqual(["42 秒", "3 分钟", "2 小时 1 分钟"]);
    language.value = "en";
  });

  test("a pattern that is suggested reads as a name", () => {
    expect(["(.+)-seed\\d+", "(.+)_s\\d+", "(.+)\\.\\d+"].map(spellPattern)).toEqual(["…-seed#", "…_s#", "….#"]);
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
