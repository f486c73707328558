// The pictures of docs/panel.md can be taken, show something, and are those that the page has.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { judge, openPanel, pictures } from "./panel.mjs";
import { look, takePictures } from "./screenshots.mjs";

const DOCS = resolve(dirname(fileURLToPath(import.meta.url)), "../../docs");
const MOST_BYTES = 1_000_000;
const LEAST_INK = 0.02;
const POLICY = `name = "release"
[[rules]]
task = "sums"
metric = "exact_match"
must_improve = 0.0
[[rules]]
task = "sums"
metric = "response_length"
at_most = 20
`;

let panel;
let taken;
before(async () => {
  panel = await openPanel();
  const policy = join(panel.folder, "policy.toml");
  writeFileSync(policy, POLICY);
  judge(panel, policy, "sft-seed0");
  taken = await takePictures(panel, pictures || join(panel.folder, "pictures"));
});
after(async () => panel?.close());

test("each page is drawn without an error, and shows something", () => {
  for (const { name, wrong, ink } of taken) {
    assert.deepEqual(wrong, [], name);
    assert.ok(ink > LEAST_INK, `${name}: ${(100 * ink).toFixed(1)} % of the picture is neither paper nor card`);
  }
});

test("the docs show each of them, and no other", () => {
  const names = taken.map((one) => `${one.name}.webp`).sort();
  const shown = [...readFileSync(join(DOCS, "panel.md"), "utf8").matchAll(/\(panel\/([^)]+)\)/g)].map((match) => match[1]);
  assert.deepEqual([...new Set(shown)].sort(), names);
  assert.deepEqual(readdirSync(join(DOCS, "panel")).sort(), names);
});

test("the pictures in the docs are as wide as the pages now, and together small", async () => {
  const paper = await panel.browser.newPage();
  let bytes = 0;
  for (const { name, width } of taken) {
    const file = readFileSync(join(DOCS, "panel", `${name}.webp`));
    bytes += file.length;
    const kept = await look(paper, file, "image/webp");
    assert.equal(kept.width, width, `${name}: take the pictures anew, with make screenshots`);
    assert.ok(kept.ink > LEAST_INK, name);
  }
  assert.ok(bytes <= MOST_BYTES, `${bytes} bytes`);
});
