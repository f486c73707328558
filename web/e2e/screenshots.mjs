// Takes the pictures of the pages that docs/panel.md shows: node screenshots.mjs STORE FOLDER, as `make screenshots` does
// with the store of the demo.

import { mkdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { argv } from "node:process";
import { fileURLToPath } from "node:url";
import { openPage, openPanel } from "./panel.mjs";

const WIDE = { viewport: { width: 1280, height: 800 } };
const PHONE = { viewport: { width: 390, height: 780 } };
const DARK = { colorScheme: "dark" };
const QUALITY = 0.92;

/** What the pages show best of a store: the best run, the one with most findings, those with evaluations, a learned item. */
async function choose(base) {
  const ask = (path) => fetch(base + path).then((answer) => answer.json());
  const { runs } = await ask("/api/runs");
  const measured = runs.filter((run) => run.latest.some((one) => one.estimate.higher_is_better));
  const judged = (run) => run.latest.find((one) => one.estimate.higher_is_better);
  const weight = (run) => 100 * (run.findings?.stop ?? 0) + (run.findings?.warn ?? 0);
  const best = measured.reduce((a, b) => (judged(b).estimate.value > judged(a).estimate.value ? b : a));
  const ill = runs.reduce((a, b) => (weight(b) > weight(a) ? b : a));
  const { task } = judged(best);
  const { items } = await ask(`/api/items?run=${best.id}&task=${task}`);
  const item = (items.find((one) => one.now && !one.first && one.flips === 1) ?? items[0]).id;
  const compared = measured.map((run) => run.id).sort((a, b) => a - b);
  return { best: best.id, ill: ill.id, task, item, compared: compared.join() };
}

/** Name of the picture, address of the page, what stands on it when it is done, and how it is looked at. */
function pagesOf({ best, ill, task, item, compared }) {
  const items = `/items?run=${best}&task=${task}`;
  return [
    ["project", "/", ".runs tr[data-run] .spark", WIDE],
    ["run", `/run/${best}`, ".task .uplot", WIDE],
    ["run-dark", `/run/${ill}`, ".run-head h1", { ...WIDE, ...DARK }],
    ["run-phone", `/run/${best}`, ".task .uplot", PHONE],
    ["compare", `/compare?runs=${compared}`, ".forest .whisker", WIDE],
    ["items", `${items}&sort=flips`, ".matrix", WIDE],
    ["item", `${items}&item=${item}`, ".answer pre", WIDE],
    ["findings", `/findings?runs=${ill}`, ".finding-card .uplot", WIDE],
    ["gates", "/gates", ".outcome", WIDE],
    ["evaluations", "/evaluations", ".sheet tbody tr", WIDE],
    ["project-zh", "/", ".runs tr[data-run] .spark", { ...WIDE, locale: "zh-CN" }],
  ];
}

/** Waits until all that was asked for is there and each chart in sight is drawn. */
async function untilDone(page, shown) {
  await page.locator(shown).first().waitFor();
  await page.waitForLoadState("networkidle");
  await page.waitForFunction(() =>
    [...document.querySelectorAll(".plot")]
      .filter((plot) => plot.getBoundingClientRect().top < innerHeight)
      .every((plot) => plot.querySelector("canvas, .empty")));
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
}

/** A picture down to where the page ends, or to what one window holds. */
async function picture(page) {
  const end = await page.evaluate(() => document.querySelector("main").getBoundingClientRect().bottom);
  const { width, height } = page.viewportSize();
  return page.screenshot({ clip: { x: 0, y: 0, width, height: Math.min(height, Math.ceil(end) + 8) } });
}

/** Whether the machine has letters for Chinese: without a font all of them are the same box. */
async function writesChinese(paper) {
  return paper.evaluate(() => {
    const drawn = [..."中文"].map((letter) => {
      const ctx = new OffscreenCanvas(20, 20).getContext("2d");
      ctx.font = "16px system-ui, sans-serif";
      ctx.fillText(letter, 1, 16);
      return ctx.getImageData(0, 0, 20, 20).data.join();
    });
    return drawn[0] !== drawn[1];
  });
}

/**
 * What a picture is like: its size, and the share of its pixels, one in seven looked at, that are of none of its four
 * commonest colours: an empty page has next to none. With `webp` also as WebP, which takes half the room of a PNG.
 */
export async function look(paper, bytes, type, webp = false) {
  return paper.evaluate(async ([base64, kind, quality]) => {
    const image = await createImageBitmap(await (await fetch(`data:${kind};base64,${base64}`)).blob());
    const { width, height } = image;
    const canvas = new OffscreenCanvas(width, height);
    const ctx = canvas.getContext("2d", { willReadFrequently: true });
    ctx.drawImage(image, 0, 0);
    const pixels = new Uint32Array(ctx.getImageData(0, 0, width, height).data.buffer).filter((_, i) => i % 7 === 0);
    const counts = new Map();
    for (const pixel of pixels) counts.set(pixel, (counts.get(pixel) ?? 0) + 1);
    const common = [...counts.values()].sort((a, b) => b - a).slice(0, 4).reduce((sum, one) => sum + one, 0);
    const blob = quality ? await canvas.convertToBlob({ type: "image/webp", quality }) : null;
    return { width, height, ink: 1 - common / pixels.length, webp: blob && [...new Uint8Array(await blob.arrayBuffer())] };
  }, [bytes.toString("base64"), type, webp ? QUALITY : 0]);
}

/** Takes every picture into a folder; of each its name, what it is like, and what was wrong with its page. */
export async function takePictures(panel, folder) {
  mkdirSync(folder, { recursive: true });
  const paper = await panel.browser.newPage();
  const taken = [];
  for (const [name, path, shown, options] of pagesOf(await choose(panel.base))) {
    const { page, wrong, context } = await openPage(panel, options);
    await page.goto(panel.base + path);
    await untilDone(page, shown);
    const { webp, ...facts } = await look(paper, await picture(page), "image/png", true);
    writeFileSync(join(folder, `${name}.webp`), Buffer.from(webp));
    taken.push({ name, ...facts, size: webp.length, wrong });
    await context.close();
  }
  return taken;
}

if (resolve(argv[1]) === fileURLToPath(import.meta.url)) {
  const [store, folder] = argv.slice(2);
  const panel = await openPanel(resolve(store));
  try {
    if (!(await writesChinese(await panel.browser.newPage()))) throw new Error("no font has Chinese letters: install one, as fonts-wqy-microhei");
    for (const { name, width, height, ink, size, wrong } of await takePictures(panel, folder)) {
      console.log(`${name}.webp  ${width} × ${height}, ink ${ink.toFixed(3)}, ${Math.round(size / 1000)} kB`, wrong.join("; "));
    }
  } finally {
    await panel.close();
  }
}
