// A report: one file that opens from a disk, asks nobody, holds the pages and prints.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { join } from "node:path";
import { openPage, openPanel, pictures, writeReport } from "./panel.mjs";

let panel;
let file;
before(async () => {
  panel = await openPanel();
  file = writeReport(panel, join(panel.folder, "report.html"), ["sft-seed0", "sft-seed1", "unlucky <b>"]);
});
after(async () => panel?.close());

const PAGES = {
  "": ".runs tbody tr[data-run]",
  "#/run/1": ".task .uplot",
  "#/compare": ".forest .whisker",
  "#/items?run=1&task=sums": ".matrix",
  "#/items?run=1&task=sums&item=q3": ".answer pre",
  "#/findings": ".finding-card .uplot",
  "#/evaluations": ".sheet tbody tr",
};

for (const [hash, shown] of Object.entries(PAGES)) {
  test(`report ${hash || "start"}: shows without a server`, async () => {
    const { page, wrong, context } = await openPage(panel, { offline: true });
    await page.goto(`file://${file}${hash}`);
    await page.locator(shown).first().waitFor();
    assert.deepEqual(wrong, []);
    await context.close();
  });
}

test("links of a report stay in it; hostile text in it is text", async () => {
  const { page, wrong, context } = await openPage(panel, { offline: true });
  await page.goto(`file://${file}`);
  await page.locator("tr[data-run='1'] th a").click();
  await page.locator(".task .uplot").waitFor();
  assert.match(page.url(), /^file:.*#\/run\/1/);
  await page.goto(`file://${file}#/items?run=1&task=sums&item=q3`);
  await page.locator(".answer pre").first().waitFor();
  assert.match(await page.locator(".item-view").innerText(), /<script>document.title=2<\/script>/);
  assert.deepEqual(wrong, []);
  await context.close();
});

test("a report prints", async () => {
  const { page, context } = await openPage(panel, { offline: true });
  await page.goto(`file://${file}#/run/1`);
  await page.locator(".task .uplot").waitFor();
  const pdf = await page.pdf({ format: "A4", landscape: true, ...(pictures && { path: join(pictures, "report.pdf") }) });
  assert.ok(pdf.length > 20_000);
  assert.equal(pdf.subarray(0, 5).toString(), "%PDF-");
  await context.close();
});
