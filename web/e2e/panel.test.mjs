// The panel as a reader sees it: every page, keys, both languages, a phone, live, hostile text.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { gzipSync } from "node:zlib";
import { openPage, openPanel, pictures, startWriter } from "./panel.mjs";

let panel;
before(async () => (panel = await openPanel()));
after(async () => panel?.close());

const PAGES = {
  runs: ["/", ".runs tbody tr[data-run]"],
  run: ["/run/1", ".task .uplot"],
  compare: ["/compare?runs=1,2,3", ".forest .whisker"],
  scaling: ["/compare?runs=5,6,7,8,9,10&scaling=1", ".log-plot circle"],
  items: ["/items?run=1&task=sums", ".matrix"],
  item: ["/items?run=1&task=sums&item=q3", ".answer pre"],
  findings: ["/findings?runs=4", ".finding-card .uplot"],
  gates: ["/gates", ".verdict-card[open] .whisker"],
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

test("what a page loads first is at most 60 kB of code", async () => {
  for (const [name, [path, shown]] of Object.entries(PAGES)) {
    const { page, context } = await openPage(panel, { locale: "zh-CN" }); // the longer words
    const code = [];
    const nothing = () => Buffer.alloc(0); // on its way when the page closed: what comes later does not come first
    page.on("response", (response) => /script|stylesheet|document/.test(response.request().resourceType()) && code.push(response.body().catch(nothing)));
    await page.goto(panel.base + path);
    await page.locator(shown).first().waitFor();
    const bytes = (await Promise.all(code)).reduce((sum, body) => sum + gzipSync(body).length, 0);
    assert.ok(bytes <= 60_000, `${name}: ${bytes} bytes`);
    await context.close();
  }
});

test("the help says what the keys are and what the marks on curves mean", async () => {
  const { page, wrong, context } = await openPage(panel);
  await page.goto(`${panel.base}/gates`);
  await page.locator(".verdict-card").first().waitFor();
  await page.keyboard.press("?");
  await page.locator(".help .marks .mark").nth(5).waitFor();
  assert.match(await page.locator(".help").innerText(), /promoted\s+Released after a verdict and not taken back/);
  await picture(page, "help");
  assert.deepEqual(wrong, []);
  await context.close();
});

test("all metrics, configuration and environment of a run open at a click", async () => {
  const { page, wrong, context } = await openPage(panel);
  await page.goto(`${panel.base}/run/1`);
  const details = page.locator(".details details");
  await details.nth(0).locator("summary").click();
  await details.nth(0).locator("td", { hasText: "n 60" }).first().waitFor();
  await details.nth(1).locator("summary").click();
  assert.match(await details.nth(1).locator("dl").innerText(), /model\s+tiny/);
  await details.nth(0).locator("a", { hasText: "response_length" }).click();
  await page.locator('.task h3', { hasText: "response_length" }).waitFor();
  assert.match(await page.locator(".still").innerText(), /neither more nor less is better/);
  assert.deepEqual(wrong, []);
  await context.close();
});

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
  await page.goto(`${panel.base}/?project=sums`);
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
  await page.locator(".zoomed").waitFor();
  await page.locator('.curve[data-key="grad_norm"] .uplot').waitFor();
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

test("each chart is drawn once, a drag zooms once, and the first question does not wait for a paint", async () => {
  const { page, context } = await openPage(panel);
  await page.addInitScript(() => {
    window.drawn = new Map();
    window.places = [];
    const { clearRect } = CanvasRenderingContext2D.prototype;
    CanvasRenderingContext2D.prototype.clearRect = function (...box) {
      window.drawn.set(this.canvas, (window.drawn.get(this.canvas) ?? 0) + 1);
      return clearRect.apply(this, box);
    };
    const replace = history.replaceState.bind(history);
    history.replaceState = (...state) => (window.places.push(state[2]), replace(...state));
  });
  await page.setViewportSize({ width: 1280, height: 1400 });
  await page.goto(`${panel.base}/run/4`);
  await page.locator('.curve[data-key="train/entropy"] .uplot').waitFor();
  await page.waitForLoadState("networkidle");
  const over = page.locator('.curve[data-key="grad_norm"] .u-over');
  const counts = await page.evaluate(() => [...document.querySelectorAll(".uplot canvas")].map((canvas) => window.drawn.get(canvas)));
  assert.deepEqual(counts, [1, 1, 1]);
  const asked = await page.evaluate(() => {
    const first = performance.getEntriesByType("resource").find((one) => one.name.endsWith("/api/projects"));
    return { at: first.startTime, paint: performance.getEntriesByName("first-contentful-paint")[0].startTime };
  });
  assert.ok(asked.at < asked.paint, `asked at ${asked.at} ms, painted at ${asked.paint} ms`);
  const box = await over.boundingBox();
  await page.mouse.move(box.x + box.width * 0.4, box.y + 30);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.6, box.y + 30, { steps: 4 });
  await page.mouse.up();
  await page.waitForURL(/zoom=/);
  assert.equal(await page.evaluate(() => window.places.length), 1);
  await context.close();
});

test("what is wrong comes first, on a phone too, and no page of the bar is cut", async () => {
  for (const width of [1280, 390, 320]) {
    const { page, context } = await openPage(panel, { viewport: { width, height: 800 } });
    await page.goto(`${panel.base}/run/4`);
    await page.locator(".wrong .finding").first().waitFor();
    const ranks = await page.locator(".wrong .severity").evaluateAll((all) => all.map((one) => ["stop", "warn", "note"].findIndex((name) => one.classList.contains(name))));
    assert.deepEqual(ranks, [...ranks].sort());
    const [wrong, better] = await Promise.all([page.locator(".wrong").boundingBox(), page.locator(".answers").boundingBox()]);
    assert.ok(wrong.y + wrong.height <= better.y, `at ${width} px`);
    for (const link of await page.locator(".bar .pages a").all()) {
      const box = await link.boundingBox();
      assert.ok(box.x >= 0 && box.x + box.width <= width, `${await link.innerText()} at ${width} px`);
    }
    await context.close();
  }
});

test("compared values have as many decimals as their error allows, and their curves a log scale", async () => {
  const { page, context } = await openPage(panel);
  await page.goto(`${panel.base}/compare?runs=1,2,3`);
  await page.locator(".forest .whisker").first().waitFor();
  const cells = await page.locator(".forest tbody tr:not(.overall)").evaluateAll((rows) => rows.map((row) => [2, 3].map((i) => row.cells[i].textContent)));
  assert.equal(new Set(cells.flat().map((text) => text.split(".")[1]?.length)).size, 1, cells.join());
  await page.locator(".with-choice button", { hasText: "log" }).click();
  await page.waitForURL(/log=1/);
  await page.goto(`${panel.base}/compare?project=sums`);
  assert.equal(await page.locator("button.zoomed", { hasText: "…-seed#" }).count(), await page.locator("button.zoomed").count());
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

test("marks say where checkpoints are, which was best and which was released", async () => {
  const { page, wrong, context } = await openPage(panel);
  await page.goto(`${panel.base}/run/1`);
  const chart = page.locator('.curve[data-key="loss"]');
  await chart.locator(".uplot").waitFor();
  const legend = await page.locator("h2 .signs").innerText();
  for (const word of ["evaluation", "checkpoint", "best checkpoint", "promoted", "window of a finding"]) assert.ok(legend.includes(word), word);
  assert.match(await page.locator(".task .signs").innerText(), /checkpoint\s+best checkpoint\s+promoted/);
  const box = await chart.locator(".u-over").boundingBox();
  await page.mouse.move(box.x + box.width - 2, box.y + 40);
  const told = await chart.locator(".values").innerText();
  assert.match(told, /evaluation sums \(fake-0-600\)/);
  assert.match(told, /promoted .*models\/production \([0-9a-f]{12}\), release/);
  assert.match(told, /checkpoint .*sft-seed0\/checkpoint-600/);
  assert.match(told, /best checkpoint sums exact_match/);
  await page.mouse.move(box.x + box.width * 0.45, box.y + 40);
  await chart.locator(".values").waitFor({ state: "detached" });
  await page.goto(`${panel.base}/run/4`);
  await page.locator("h2 .signs").waitFor();
  assert.equal(await page.locator("h2 .signs").innerText().then((text) => text.trim()), "window of a finding", "a run without checkpoints has no marks of them");
  assert.deepEqual(wrong, []);
  await context.close();
});

test("scaling: runs as points on log axes, the law with its band", async () => {
  const { page, wrong, context } = await openPage(panel);
  await page.goto(`${panel.base}/compare?runs=5,6,7,8,9,10&scaling=1`);
  const [times, speeds] = [page.locator(".log-plot").nth(0), page.locator(".log-plot").nth(1)];
  await speeds.locator("circle").first().waitFor();
  for (const plot of [times, speeds]) assert.equal(await plot.locator("circle").count(), 6);
  const places = await times.locator("circle").evaluateAll((all) => all.map((one) => [Number(one.getAttribute("cx")), Number(one.getAttribute("cy"))]));
  const [one, two, four] = [places[0][0], places[2][0], places[4][0]];
  assert.ok(Math.abs(two - one - (four - two)) < 0.1, "doubled counts are as far apart");
  assert.ok((await times.locator(".band").getAttribute("d")).length > 100);
  assert.equal(await speeds.locator(".band").count(), 0);
  for (const line of [".law:not(.outside)", ".law.outside", ".ideal"]) assert.ok((await times.locator(line).getAttribute("d")).startsWith("M"), line);
  const { law } = await (await fetch(`${panel.base}/api/scaling?runs=5,6,7,8,9,10`)).json();
  assert.ok(law.ci_low < 0.1 && 0.1 < law.ci_high, "a tenth does not split");
  assert.match(await page.locator("main").innerText(), /Amdahl's law: a share of 0\.\d+ \[0\.\d+, 0\.\d+\] does not split/);
  await page.locator('input[aria-label="goal: step=1000"]').fill("nonsense");
  await page.keyboard.press("Enter");
  assert.match(await page.locator(".error", { hasText: "goal" }).innerText(), /^goal; got 'nonsense'; allowed: step=1000/);
  assert.deepEqual(wrong.filter((text) => !text.includes("400")), []);
  await context.close();
});

test("the metric is chosen on Compare, Groups and Items, and stands in the URL", async () => {
  const { page, wrong, context } = await openPage(panel);
  const choose = () => page.locator(".choose", { hasText: "metric" }).locator("select");
  await page.goto(`${panel.base}/compare?runs=1,2`);
  await choose().selectOption("response_length");
  await page.locator(".forest th", { hasText: "response_length" }).waitFor();
  assert.match(page.url(), /metric=response_length/);
  await page.goto(`${panel.base}/compare?pattern=${encodeURIComponent("(.+)-seed\\d+")}`);
  await page.locator('.curve[data-key="sums · exact_match"]').waitFor();
  await choose().selectOption("response_length");
  await page.locator('.curve[data-key="sums · response_length"]').waitFor();
  await page.goto(`${panel.base}/items?run=1&task=sums&item=q3`);
  await page.locator(".answer .grade").first().waitFor();
  await choose().selectOption("response_length");
  await page.waitForFunction(() => document.querySelector(".answer .grade")?.textContent.includes("2002"));
  assert.deepEqual(wrong, []);
  await context.close();
});

/** SHA-256 over what `sha256sum` prints for a checkpoint's files, as docs/workflows.md says. */
function weightsOf(folder, files) {
  const sha = (bytes) => createHash("sha256").update(bytes).digest("hex");
  return sha(files.map((file) => `${sha(readFileSync(join(folder, file)))}  ${file}\n`).join(""));
}

test("gates: outcomes, the evidence of each rule, what was released when and by which weights", async () => {
  const { page, wrong, context } = await openPage(panel);
  await page.goto(`${panel.base}/gates`);
  const cards = page.locator(".verdict-card");
  await cards.first().waitFor();
  assert.deepEqual(await cards.locator("summary .outcome").allInnerTexts(), ["✓ pass", "✓ pass", "? inconclusive", "✗ fail"]);

  const checkpoint = join(panel.folder, "runs/sft-seed0/checkpoint-600");
  assert.equal(realpathSync(join(panel.folder, "models/production")), realpathSync(checkpoint));
  const weights = weightsOf(checkpoint, ["config.json", "model.safetensors"]);
  const released = page.locator(".released tbody tr");
  assert.equal(await released.count(), 1);
  const told = await released.innerText();
  assert.match(await page.locator(".released h2").innerText(), /In production now/);
  assert.ok((await released.boundingBox()).y < (await cards.first().boundingBox()).y, "what is in production stands first");
  for (const part of ["models/production", "sft-seed0/checkpoint-600", weights.slice(0, 10), "✓ pass sft-seed0 step 600"]) assert.ok(told.includes(part), `${part} in ${told}`);
  assert.equal(await released.locator("code").getAttribute("title"), weights);
  const { at } = (await (await fetch(`${panel.base}/api/gates`)).json()).releases[0];
  assert.ok(Math.abs(at - Date.now() / 1000) < 600);
  assert.match(told, /\d{4}-\d\d-\d\d \d\d:\d\d/);

  const { verdicts } = await (await fetch(`${panel.base}/api/gates`)).json();
  for (const [place, verdict] of verdicts.entries()) {
    const card = cards.nth(place);
    assert.ok(await card.evaluate((one) => one.open), "a pass is as open as a fail");
    assert.doesNotMatch(await card.innerText(), /\de-\d|(?<![\w-])-\d/, "one minus, one way to give a small p");
    const rows = card.locator("tbody tr");
    assert.equal(await rows.count(), verdict.decisions.length);
    for (const [i, rule] of verdict.decisions.entries()) {
      const row = rows.nth(i);
      const text = await row.innerText();
      for (const part of [rule.outcome, rule.metric, rule.slice, String(rule.n), String(rule.bound).replace("-", "−")]) assert.ok(text.includes(part), `${part} in ${text}`);
      assert.ok(!text.includes(rule.reason), "the numbers are told once");
      assert.equal(await row.locator(".whisker circle").count(), 1);
      assert.equal(await row.locator(".whisker .bound").count(), 1);
    }
  }
  assert.equal(await cards.nth(3).locator("tbody tr").nth(2).locator(".tag").innerText(), "advisory");

  const rows = page.locator("section", { hasText: "What followed" }).last().locator("tbody tr");
  const followed = await rows.allInnerTexts();
  assert.match(followed[0], /failed[\s\S]*sft-seed1\/checkpoint-600[\s\S]*production rolled back[\s\S]*smoke failed[\s\S]*exit code 1/);
  assert.match(followed[1], /done[\s\S]*sft-seed0\/checkpoint-600[\s\S]*production done/);
  assert.match(followed[2], /sft-seed2\/checkpoint-500[\s\S]*production skipped[\s\S]*tell done/);
  assert.match(followed[3], /sft-seed1\/checkpoint-100[\s\S]*production skipped/);
  await page.locator("summary", { hasText: "Audit trail" }).click();
  await page.locator("details td", { hasText: "rolled_back" }).first().waitFor();
  await picture(page, "gates-open");
  assert.deepEqual(wrong, []);
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

test("tags are changed where the server lets the page write", async () => {
  const { page, wrong, context } = await openPage(panel);
  await page.goto(`${panel.base}/run/2`);
  await page.locator(".run-head button.link").click();
  await page.locator(".run-head input:focus").waitFor();
  await page.keyboard.press("Control+a");
  await page.keyboard.type("kept, <b>");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => [...document.querySelectorAll(".run-head .tag")].map((tag) => tag.textContent).join() === "kept,<b>");
  await page.reload();
  await page.locator(".run-head .tag").first().waitFor();
  assert.deepEqual(await page.locator(".run-head .tag").allInnerTexts(), ["kept", "<b>"]);
  assert.deepEqual(wrong, []);
  await context.close();
});

/** A run that goes on, its page at a zoom, and what the loss chart reads: its newest step in view. */
async function openLive(zoomOf) {
  const writer = startWriter(panel);
  const { page, wrong, context } = await openPage(panel, { viewport: { width: 1280, height: 900 } });
  const known = async () => (await (await fetch(`${panel.base}/api/runs?project=sums&search=live`)).json()).runs[0];
  let run = await known();
  while (!run || run.state !== "running" || run.last_step < 5) run = await known();
  const at = `${panel.base}/run/${run.id}`;
  await page.goto(zoomOf ? `${at}?zoom=${zoomOf(run.last_step)}` : at);
  await page.locator('.curve[data-key="loss"] .uplot').waitFor();
  const close = () => (writer.stop(), context.close());
  return { page, wrong, close, writer, run, from: run.last_step };
}

const newest = () => Number(document.querySelector('.curve[data-key="loss"] .reading')?.textContent.split("@")[1]?.replace(",", ""));

/** Waits until the newest step in view is at least this one. */
const untilStep = (page, step) =>
  page.waitForFunction((least) => Number(document.querySelector('.curve[data-key="loss"] .reading')?.textContent.split("@")[1]?.replace(",", "")) >= least, step);

test("a zoomed view fills while a training writes into it, and stays where it is", async () => {
  const { page, wrong, close, from } = await openLive((step) => `${step}-${step + 12}`);
  try {
    await untilStep(page, from + 4);
    await untilStep(page, from + 12);
    await page.waitForFunction((step) => Number(document.querySelector("[data-last-step]").textContent.replace(",", "")) > step, from + 20);
    assert.equal(await page.evaluate(newest), from + 12);
    assert.match(page.url(), new RegExp(`zoom=${from}-${from + 12}$`));
    assert.deepEqual(wrong, []);
  } finally {
    await close();
  }
});

test("a view that was zoomed up to the newest point follows it", async () => {
  const { page, wrong, close } = await openLive();
  try {
    await untilStep(page, 20);
    const over = page.locator('.curve[data-key="loss"] .u-over');
    const box = await over.boundingBox();
    await page.mouse.move(box.x + box.width * 0.5, box.y + 30);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width - 1, box.y + 30, { steps: 4 });
    await page.mouse.up();
    await page.waitForURL(/zoom=\d+-$/);
    await page.mouse.move(0, 0);
    const first = Number(page.url().match(/zoom=(\d+)-$/)[1]);
    assert.match(await page.locator(".zoomed").innerText(), new RegExp(`from step ${first} on`));
    const before = await page.evaluate(newest);
    await untilStep(page, before + 10);
    await page.reload();
    await page.locator('.curve[data-key="loss"] .uplot').waitFor();
    await untilStep(page, before + 15);
    assert.deepEqual(wrong, []);
  } finally {
    await close();
  }
});

test("a training that writes is seen within a second; scroll and selection stay", async () => {
  const { page, wrong, close, writer, run } = await openLive();
  try {
    await page.goto(`${panel.base}/`);
    await page.locator(`tr[data-run='${run.id}']`).waitFor();
    await page.setViewportSize({ width: 1280, height: 420 });
    await page.goto(`${panel.base}/run/${run.id}`);
    await page.locator('.curve[data-key="loss"] .uplot').waitFor();
    await page.evaluate(() => window.scrollTo(0, 90));
    const delays = [];
    let last = await page.evaluate(newest);
    while (delays.length < 12) {
      const now = await page.evaluate(newest);
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
    await close();
  }
});
