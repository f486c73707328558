import { expect, test } from "vitest";
import { pathEnd, tells, withMinus } from "../src/words/sentences";

test("a sentence of the server has one minus", () => {
  expect(withMinus("difference -0.66 [-0.69, -.5] since 2026-11-30, half-5, 1e-5")).toBe("difference −0.66 [−0.69, −.5] since 2026-11-30, half-5, 1e-5");
});

test("a sentence tells a number that it rounds", () => {
  expect(tells("63% of the completions are cut", 0.62890625)).toBe(true);
  expect(tells("mean length 1.88 tokens after 9.61 at the start", 9.607421875)).toBe(true);
  expect(tells("fell to -2.1e-06", -2.06e-6)).toBe(true);
  expect(tells("63% of the completions are cut", 0.645)).toBe(false);
  expect(tells("mean length 1.88 tokens", 0.02)).toBe(false);
  expect(tells("loss is nan", "NaN")).toBe(true);
  expect(tells("loss is high", "NaN")).toBe(false);
});

test("of a path its end is seen, whatever is cut", () => {
  expect(pathEnd("/mnt/runs/sft/checkpoint-600")).toBe("sft/checkpoint-600");
  expect(pathEnd("models/production/")).toBe("models/production");
  expect(pathEnd("production")).toBe("production");
  const long = pathEnd(`/mnt/${"a".repeat(80)}/checkpoint-600`);
  expect(long).toMatch(/^a{25}…a+\/checkpoint-600$/);
  expect(long.length).toBe(52);
});
