// Items, findings, gates and evaluations: what stands on them, where, and in which words.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { openPage, openPanel } from "./panel.mjs";

let panel;
before(async () => (panel = await openPanel()));
after(async () => panel?.close());

test("items: a scale where cells have steps, one right edge, nothing over the matrix, titles that read", async () => {
  const { page, wrong, context } = await openPage(panel);
  await page.goto(`${panel.base}/items?run=11&task=tries`);
  await page.locator(".matrix").waitFor();
  assert.match(await page.locator(".matrix-box .scale").innerText(), /exact_match 0\s+1/);
  assert.equal(await page.locator(".matrix-box .scale .cell").count(), 5);
  assert.match(await page.locator(".matrix-box .signs").innerText(), /^4 items/);
  assert.doesNotMatch(await page.locator("main").innerText(), /1–4 of 4/);
  assert.match(await page.locator(".item-names li").first().innerText(), /t0 What is it, doubled\?/);
  const box = async (place) => page.locator(place).boundingBox();
  const [chart, card, matrix, caret] = await Promise.all([".flip-curve", ".matrix-grid", ".matrix", ".steps path"].map(box));
  assert.equal(chart.x + chart.width, card.x + card.width);
  assert.ok(Math.abs(card.x + card.width - 11 - (matrix.x + matrix.width)) <= 1, "the matrix ends where its card does");
  assert.ok(caret.y + caret.height <= matrix.y);
  await page.goto(`${panel.base}/items?run=1&task=sums`);
  await page.locator(".matrix").waitFor();
  assert.match(await page.locator(".matrix-box .signs").innerText(), /60 items\s+solved\s+unsolved/);
  assert.deepEqual(wrong, []);
  await context.close();
});

test("an item: what it says, then each attempt with its turns and whether it was right; all columns in sight", async () => {
  const { page, wrong, context } = await openPage(panel);
  await page.goto(`${panel.base}/items?run=11&task=tries&item=t2`);
  const answers = page.locator(".answer");
  await answers.nth(1).waitFor();
  assert.match(await page.locator(".row pre").first().innerText(), /^system: Be brief\.\n\nuser: What is it, doubled\?$/);
  assert.match(await page.locator(".row").innerText(), /a = 2[\s\S]*it is not kept[\s\S]*said back between turns is not kept/);
  assert.equal(await page.locator(".row details").evaluate((one) => one.open), false);
  const told = (await answers.first().innerText()).replace(/\s+/g, " ");
  assert.match(told, /^step 0 exact_match 0\.5 sample 1 ✓ turn 1 7 1 token turn 2 4 1 token sample 2 ✗ turn 1 7 1 token turn 2 7 1 token turn 3 7 1 token/);
  assert.doesNotMatch(told, /stop/);
  const view = await page.locator(".item-view").boundingBox();
  for (const one of await answers.all()) {
    const { x, width } = await one.boundingBox();
    assert.ok(x >= view.x && x + width <= view.x + view.width, "no column is cut");
  }
  assert.deepEqual(wrong, []);
  await context.close();
});

test("findings: the gravest first, summed up in words, no number twice", async () => {
  const { page, wrong, context } = await openPage(panel);
  await page.goto(`${panel.base}/findings`);
  await page.locator(".finding-card").first().waitFor();
  await page.waitForFunction(() => !document.querySelector("main").innerText.includes("not looked at"));
  assert.match((await page.locator(".summary").innerText()).replace(/\s+/g, " "), /^\d+ findings( . \d+ (says? stop|warnings?|notes?))+ in \d+ runs? · nothing found in \d+ runs$/);
  const rank = { stop: 0, warning: 1, note: 2 };
  const grave = (await page.locator(".finding-card h3 .quiet").allInnerTexts()).map((word) => rank[word]);
  assert.ok(grave.length > 1);
  assert.deepEqual(grave, [...grave].sort());
  assert.match(await page.locator(".run-findings h2").first().innerText(), /looked at as (supervised fine-tuning|pre-training|reinforcement learning)/);
  const { runs } = await (await fetch(`${panel.base}/api/findings?runs=4`)).json();
  const spike = runs[0].diagnosis.findings.find((one) => one.kind === "grad_explosion");
  assert.deepEqual(Object.keys(spike.evidence), ["value", "largest_before"]);
  assert.match(spike.text, /^grad_norm 41\.05 is 20\.6 times the largest before$/);
  assert.match(await page.locator('[data-kind="grad_explosion"] .evidence').innerText(), /^largest before\s+1\.998$/);
  assert.equal(await page.locator('[data-kind="nonfinite"] .evidence').count(), 0, "its sentence says that it is NaN");
  assert.deepEqual(wrong, []);
  await context.close();
});

test("gates: that nothing is in production is said", async () => {
  const { page, context } = await openPage(panel);
  await page.route("**/api/gates*", async (route) => {
    const answer = await (await route.fetch()).json();
    await route.fulfill({ json: { ...answer, releases: [] } });
  });
  await page.goto(`${panel.base}/gates`);
  assert.match(await page.locator(".released").innerText(), /In production now\s+Nothing is in production: no workflow has released/);
  await context.close();
});

test("evaluations: summed up, the metric named, no column without anything in it, the table as wide as its card", async () => {
  const { page, wrong, context } = await openPage(panel);
  await page.goto(`${panel.base}/evaluations?project=sums`);
  await page.locator(".sheet tbody tr").first().waitFor();
  const figures = (await page.locator(".figures").innerText()).replace(/\s+/g, " ");
  assert.match(figures, /^evaluations 21 21 done running now none took .+ stragglers – none was shared by ranks$/);
  const heads = await page.locator(".sheet.wide thead th").allInnerTexts();
  assert.ok(heads.includes("metric") && !heads.includes("ranks") && !heads.includes("errors") && !heads.includes(""), heads.join());
  assert.match(await page.locator(".sheet.wide tbody tr").first().innerText(), /exact_match/);
  const [table, card] = [await page.locator(".sheet.wide").boundingBox(), await page.locator(".card").first().boundingBox()];
  assert.ok(Math.abs(card.x + card.width - 13 - (table.x + table.width)) <= 1);
  assert.deepEqual(wrong, []);
  await context.close();
});
