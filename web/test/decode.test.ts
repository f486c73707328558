import { expect, test } from "vitest";
import { decode } from "../src/data/decode";
import { extend, openStep } from "../src/data/extend";
import type { SeriesAnswer } from "../src/data/answers";

function base64(array: Float32Array | Float64Array): string {
  return Buffer.from(array.buffer, array.byteOffset, array.byteLength).toString("base64");
}

function answerOf(steps: number[], width: number, rows: number[][], more: Partial<SeriesAnswer> = {}): SeriesAnswer {
  return {
    low: 0,
    high: 10,
    width,
    exact: width === 0,
    num_buckets: steps.length,
    steps: base64(Float64Array.from(steps)),
    series: [{ run: 3, key: "loss", at: 0, bands: rows.length > 1, num_points: 10, non_finite: [[1, 2, "nan"]] }],
    envelopes: [],
    walls: [],
    data: base64(Float32Array.from(rows.flat())),
    left_out: [],
    since: "a.1",
    ...more,
  };
}

test("means, lowest and highest, in the middle of their buckets", () => {
  const { curves } = decode(answerOf([0, 4, 8], 4, [[1, 2, NaN], [0, 1, NaN], [5, 6, NaN]]));
  const curve = curves[0]!;
  expect([...curve.xs]).toEqual([1.5, 5.5, 9.5]);
  expect([...curve.ys]).toEqual([1, 2, NaN]);
  expect([...curve.low!]).toEqual([0, 1, NaN]);
  expect([...curve.high!]).toEqual([5, 6, NaN]);
  expect(curve.odd).toEqual([{ x: 5.5, count: 2, kind: "nan" }]);
});

test("points as they are have no band and no width", () => {
  const curve = decode(answerOf([0, 7], 0, [[1, 2]])).curves[0]!;
  expect([[...curve.xs], curve.width, curve.low]).toEqual([[0, 7], 0, null]);
});

test("a run that goes on: the open bucket is asked for again and replaced", () => {
  const curve = decode(answerOf([0, 4, 8], 4, [[1, 2, 3], [0, 1, 2], [5, 6, 7]], { series: [{ run: 3, key: "loss", at: 0, bands: true, num_points: 9, non_finite: [] }] })).curves[0]!;
  expect(openStep(curve)).toBe(8);
  const more = decode(answerOf([8, 9, 10], 0, [[30, 31, 32]])).curves[0]!;
  const longer = extend(curve, more, 8);
  expect([...longer.xs]).toEqual([1.5, 5.5, 8, 9, 10]);
  expect([...longer.ys]).toEqual([1, 2, 30, 31, 32]);
  expect([...longer.high!]).toEqual([5, 6, 30, 31, 32]);
});

test("an empty curve begins at the beginning", () => {
  const curve = decode(answerOf([], 0, [[]], { series: [{ run: 3, key: "loss", at: 0, bands: false, num_points: 0, non_finite: [] }] })).curves[0]!;
  expect(openStep(curve)).toBe(0);
});
