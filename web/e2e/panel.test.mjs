// The panel as a reader sees it: every page, keys, both languages, a phone, live, hostile text.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { openPage, openPanel, pictures, startWriter } from "./panel.mjs";

let panel;
before(async () => (panel = await openPanel()));
after(async () => panel?.close());

const PAGES = {
  runs: ["/", ".runs tbody tr[data-run]"],
  run: ["/run/1", ".task .uplot"],
  compare: ["/compare?runs=1,2,3", ".forest .whisker"],
  items: ["/items?run=1&task=sums", ".matrix"],
  item: ["/items?run=1&task=sums&item=q3", ".answer pre"],
  findings: ["/findings?runs=4", ".finding-card .uplot"],
  gates: ["/gates", "main"],
  evaluations: ["/evaluations", ".sheet tbody tr"],
};

async function picture(page, name) {
  if (pictures) await page.screenshot({ path: `${pictures}/${name}.png` });
}

/** Whether the page is wider than its window: then a phone has to scroll sideways. */
const overflows = (page) => page.evaluate(() => document.documentElement.scrollWidth > window.innerWidth + 1);

for (const [name, [path, shown]] of Object.entries(PAGES)) {
  test(`page ${name}: shows, asks nobody else, has no error`, async () => {
    const { page, wrong, context } = await openPage(panel);
    await page.goto(panel.base + path);
    await page.locator(shown).first().waitFor();
    assert.equal(await overflows(page), false);
    await page.waitForTimeout(400);
    await picture(page, name);
    assert.deepEqual(wrong, []);
    await context.close();
  });

  test(`page ${name}: in Chinese, dark, on a phone`, async () => {
    const options = { locale: "zh-CN", colorScheme: "dark", viewport: { width: 390, height: 844 } };
    const { page, wrong, context } = await openPage(panel, options);
    await page.goto(panel.base + path);
    await page.locator(shown).first().waitFor();
    assert.equal(await page.evaluate(() => document.documentElement.lang), "zh-Hans");
    assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
    assert.match(await page.locator(".bar").innerText(), /运行/);
    assert.equal(await overflows(page), false);
    await page.waitForTimeout(400);
    await picture(page, `${name}-zh-dark-phone`);
    assert.deepEqual(wrong, []);
    await context.close();
  });
}

test("the first screen of a run answers the three questions without a click", async () => {
  const { page, context } = await openPage(panel);
  await page.goto(`${panel.base}/run/1`);
  const task = page.locator('[data-task="sums"]');
  await task.locator(".verdict").waitFor();
  for (const part of [".figure .big", ".whisker", ".uplot", ".still dd", ".flipbar"]) {
    const box = await task.locator(part).first().boundingBox();
    assert.ok(box && box.y + box.height <= 800, `${part} is on the first screen`);
  }
  assert.ok((await page.locator(".wrong").boundingBox()).y < 200);
  await context.close();
});

test("keys: search, rows, toggle, open, next run, help", async () => {
  const { page, context } = await openPage(panel);
  await page.goto(`${panel.base}/`);
  await page.locator(".runs tbody tr[data-run]").first().waitFor();
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  await page.keyboard.press("k");
  assert.match(page.url(), /at=4/);
  await page.keyboard.press("x");
  assert.match(page.url(), /hide=4/);
  await page.locator("tr.hidden[data-run='4']").waitFor();
  await page.keyboard.press("x");
  assert.doesNotMatch(page.url(), /hide/);
  await page.keyboard.press("/");
  await page.keyboard.type("seed=2");
  await page.waitForFunction(() => document.querySelectorAll(".runs tbody tr[data-run]").length === 1);
  assert.match(page.url(), /q=seed/);
  await page.keyboard.press("Escape");
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/run\/3/);
  await page.locator(".run-head h1").waitFor();
  await page.keyboard.press("j");
  await page.waitForURL(/\/run\/2/);
  await page.keyboard.press("?");
  await page.locator(".help kbd").first().waitFor();
  await page.keyboard.press("Escape");
  assert.equal(await page.locator(".help").count(), 0);
  await context.close();
});

test("what one sets stands in the URL, and the URL brings it back", async () => {
  const { page, context } = await openPage(panel);
  await page.goto(`${panel.base}/run/4?log=1&smooth=0.6&x=wall`);
  await page.locator(".curves .uplot").first().waitFor();
  assert.equal(await page.locator('.controls button[aria-pressed="true"]').allInnerTexts().then((all) => all.join()), "time,log");
  assert.equal(await page.locator(".controls output").innerText(), "0.60");
  await page.goto(`${panel.base}/run/4?zoom=300-360`);
  const note = page.locator('.curve[data-key="grad_norm"] .note');
  await page.locator(".zoomed").waitFor();
  await note.waitFor();
  await page.waitForFunction(() => !document.querySelector('.curve[data-key="grad_norm"] .note')?.textContent.includes("buckets"));
  await page.locator(".zoomed").click();
  assert.doesNotMatch(page.url(), /zoom/);
  await context.close();
});

test("a drag zooms all charts at full resolution, a double click shows all", async () => {
  const { page, context } = await openPage(panel);
  await page.goto(`${panel.base}/run/4`);
  const over = page.locator('.curve[data-key="grad_norm"] .u-over');
  await over.waitFor();
  await over.scrollIntoViewIfNeeded();
  const box = await over.boundingBox();
  await page.mouse.move(box.x + box.width * 0.4, box.y + 30);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.45, box.y + 30, { steps: 4 });
  await page.mouse.up();
  await page.waitForURL(/zoom=3\d\d-3\d\d/);
  await page.waitForFunction(() => !document.querySelector('.curve[data-key="grad_norm"] .note')?.textContent.includes("buckets"));
  await over.dblclick();
  await page.waitForFunction(() => !location.search.includes("zoom"));
  await context.close();
});

test("NaN and infinity are marks that the chart counts, a spike of one step is drawn", async () => {
  const { page, context } = await openPage(panel);
  await page.goto(`${panel.base}/run/4`);
  await page.locator('.curve[data-key="grad_norm"] .uplot').waitFor();
  assert.match(await page.locator('.curve[data-key="loss"] .note').innerText(), /NaN: 2/);
  const note = await page.locator('.curve[data-key="grad_norm"] .note').innerText();
  assert.match(note, /∞: 1/);
  assert.match(note, /800 points as \d+ buckets, min–max shaded/);
  const column = await page.locator('.curve[data-key="grad_norm"] canvas').evaluate((canvas) => {
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, Math.floor(canvas.height / 3));
    let coloured = 0;
    for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 30 && data[i + 2] - data[i] > 30) coloured++;
    return coloured;
  });
  assert.ok(column > 10, `the upper third of the chart holds the spike: ${column} pixels`);
  await context.close();
});

test("hostile text is text", async () => {
  const { page, wrong, context } = await openPage(panel);
  await page.goto(`${panel.base}/items?run=1&task=sums&item=q3`);
  await page.locator(".answer pre").first().waitFor();
  const text = await page.locator(".item-view").innerText();
  assert.match(text, /<img src=x onerror=/);
  for (const code of ["U+202E", "U+0007", "U+200B"]) assert.ok(text.includes(code), code);
  assert.equal(await page.locator(".item-view img, .item-view script").count(), 0);
  assert.doesNotMatch(await page.title(), /^[12]$/);
  assert.ok((await page.locator(".answer pre").first().innerText()).length < 1500, "folded");
  await page.locator(".answer .link").first().click();
  await page.waitForFunction(() => document.querySelector(".answer pre").textContent.length > 9000);
  assert.equal(await overflows(page), false);
  assert.deepEqual(wrong, []);
  await context.close();
});

test("a training that writes is seen within a second; scroll and selection stay", async () => {
  const writer = startWriter(panel);
  const { page, wrong, context } = await openPage(panel, { viewport: { width: 1280, height: 420 } });
  try {
    await page.goto(`${panel.base}/`);
    const row = page.locator("tr[data-run='5']");
    await row.waitFor();
    await page.goto(`${panel.base}/run/5`);
    await page.locator('.curve[data-key="loss"] .uplot').waitFor();
    await page.evaluate(() => window.scrollTo(0, 90));
    const reading = () => page.locator('.curve[data-key="loss"] .reading').innerText().then((text) => Number(text.split("@")[1]?.replace(",", "")));
    const delays = [];
    let last = await reading();
    while (delays.length < 12) {
      const now = await reading();
      if (now > last && writer.stepsAt.has(now)) delays.push(Date.now() / 1000 - writer.stepsAt.get(now));
      last = now;
    }
    delays.sort((a, b) => a - b);
    console.log(`# a point is seen after ${delays[6].toFixed(2)} s in the median, ${delays[11].toFixed(2)} s at most`);
    assert.ok(delays[6] < 1, `median ${delays[6]} s`);
    assert.equal(await page.evaluate(() => window.scrollY), 90);
    assert.ok(Number((await page.locator("[data-last-step]").innerText()).replace(",", "")) >= last - 5);
    assert.deepEqual(wrong, []);
  } finally {
    writer.stop();
    await context.close();
  }
});
