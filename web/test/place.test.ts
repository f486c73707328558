import { expect, test } from "vitest";
import { address } from "../src/data/request";
import { numbers, readPlace, spellPlace } from "../src/state/place";

test("a request has one spelling", () => {
  expect(address("/api/runs", { sort: "name", project: "a b&c", tag: "" })).toBe("/api/runs?project=a%20b%26c&sort=name");
  expect(address("/api/series", { runs: [3, 4], keys: ["a,b", "c/d"], low: 0, high: undefined })).toBe("/api/series?keys=a%2Cb,c%2Fd&low=0&runs=3,4");
  expect(address("/api/runs/3", { reference: null })).toBe("/api/runs/3");
});

test("a place and its URL are the same", () => {
  const values = { q: "lr=1e-5 & <b>", runs: "3,4", item: "q/1?#%", 名: "数学" };
  const url = spellPlace("/items", values);
  expect(url).toContain("runs=3,4");
  expect(readPlace(url)).toEqual({ path: ["items"], values });
});

test("what is not there is left out", () => {
  expect(spellPlace("/", { a: "", b: null, c: undefined })).toBe("/");
});

test("a broken URL is no error", () => {
  expect(readPlace("/run/%E0%A4%A").path).toEqual(["run", "%E0%A4%A"]);
  expect(numbers("3,x,,4,-1,1e5")).toEqual([3, 4]);
});
