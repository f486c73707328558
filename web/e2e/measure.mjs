// Measures dashboards as a reader meets them: reads a question a line, each a JSON object, and answers it with one.
// benchmarks/_reader.py asks. Times are seconds.

import { createInterface } from "node:readline";
import { chromium } from "playwright-core";
import { FLAGS } from "./panel.mjs";

const WINDOW = { width: 1440, height: 900 };
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: FLAGS });
/** Where pictures are looked at: the page of a dashboard may refuse to load one. */
const paper = await browser.newPage();

/**
 * In the page: notes when each chart in sight first holds a line, as coloured pixels of its canvas, and when each
 * canvas was last drawn on. A line counts with the frame after the one that it was found in: then it is on the screen.
 */
function watchCharts(selector) {
  const ENOUGH = 40;
  const scratch = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const firsts = new Map();
  const watch = { firsts, lastDrawn: 0, inSight };

  function inSight() {
    return [...document.querySelectorAll(selector)].filter((host) => {
      const { top, bottom, height } = host.getBoundingClientRect();
      return height > 0 && Math.min(bottom, innerHeight) - Math.max(top, 0) > height / 3;
    });
  }

  function holdsLine(canvas) {
    if (!canvas.width || !canvas.height) return false;
    scratch.canvas.width = canvas.width;
    scratch.canvas.height = canvas.height;
    scratch.drawImage(canvas, 0, 0);
    const { data } = scratch.getImageData(0, 0, canvas.width, canvas.height);
    let coloured = 0;
    for (let i = 0; i < data.length; i += 4) {
      const [red, green, blue] = [data[i], data[i + 1], data[i + 2]];
      if (data[i + 3] > 30 && Math.max(red, green, blue) - Math.min(red, green, blue) > 30 && ++coloured > ENOUGH) return true;
    }
    return false;
  }

  function look() {
    for (const host of inSight()) {
      if (firsts.has(host) || ![...host.querySelectorAll("canvas")].some(holdsLine)) continue;
      firsts.set(host, Infinity);
      requestAnimationFrame(() => firsts.set(host, performance.now()));
    }
    requestAnimationFrame(look);
  }

  const clear = CanvasRenderingContext2D.prototype.clearRect;
  CanvasRenderingContext2D.prototype.clearRect = function (...box) {
    if (this !== scratch) requestAnimationFrame(() => (watch.lastDrawn = performance.now()));
    return clear.apply(this, box);
  };
  window.watchedCharts = watch;
  requestAnimationFrame(look);
}

/** In the page: how its charts stand, in milliseconds since the navigation. */
function state() {
  const { firsts, inSight } = window.watchedCharts;
  const times = inSight().map((host) => firsts.get(host) ?? Infinity);
  return { now: performance.now(), seen: times.length, drawn: times.filter(Number.isFinite) };
}

/** A page of a browser profile of its own; `wrong` notes its errors and whom else it asks. */
async function open(url, charts) {
  const context = await browser.newContext({ viewport: WINDOW, locale: "en-US" });
  const page = await context.newPage();
  const wrong = [];
  page.on("pageerror", (error) => wrong.push(`error: ${error.message}`));
  page.on("console", (message) => message.type() === "error" && wrong.push(`console: ${message.text()}`));
  page.on("response", (response) => response.status() >= 400 && wrong.push(`${response.status()}: ${response.url()}`));
  page.on("request", (request) => !request.url().startsWith(new URL(url).origin) && /^http/.test(request.url()) && wrong.push(`outside: ${request.url()}`));
  await page.addInitScript(watchCharts, charts);
  await page.goto(url, { waitUntil: "commit", timeout: 60_000 });
  return { page, context, wrong };
}

/** Waits until all charts in sight hold a line and no more came for a second; null where that takes too long. */
async function untilDrawn(page, seconds) {
  const end = Date.now() + seconds * 1000;
  while (Date.now() < end) {
    const { now, seen, drawn } = await page.evaluate(state);
    const last = Math.max(...drawn);
    if (seen && drawn.length === seen && now - last > 1000) return { first: Math.min(...drawn) / 1000, all: last / 1000, charts: seen };
    await page.waitForTimeout(100);
  }
  return null;
}

/** Seconds from the navigation, or from a click where one is needed, to the first chart and to all in sight. */
async function load({ url, charts, click, seconds = 120, spike, picture }) {
  const { page, context, wrong } = await open(url, charts);
  let from = 0;
  if (click) {
    await page.locator(click).first().waitFor({ timeout: seconds * 1000 });
    await page.waitForTimeout(1000);
    from = (await page.evaluate(() => performance.now())) / 1000;
    await page.locator(click).first().click();
  }
  const drawn = await untilDrawn(page, seconds);
  const seen = spike === undefined || !drawn ? null : await showsSpike(page, charts, spike);
  if (picture) await page.screenshot({ path: picture });
  const code = await page.evaluate(() =>
    performance.getEntriesByType("resource").filter((one) => /\.(js|css)($|\?)/.test(one.name)).map((one) => one.name));
  await context.close();
  return { ...(drawn ? { first: drawn.first - from, all: drawn.all - from, charts: drawn.charts } : { first: null, all: null, charts: 0 }), spike: seen, code, wrong };
}

/**
 * Whether a picture of the first chart shows a line that stands out at this share of its width: it reaches a sixth of
 * the height above all that is beside it.
 */
async function showsSpike(page, charts, share) {
  const picture = await page.locator(charts).first().screenshot();
  return paper.evaluate(async ({ base64, at }) => {
    const image = new Image();
    image.src = `data:image/png;base64,${base64}`;
    await image.decode();
    const { width, height } = image;
    const ctx = new OffscreenCanvas(width, height).getContext("2d");
    ctx.drawImage(image, 0, 0);
    const { data } = ctx.getImageData(0, 0, width, height);
    const coloured = (x, y) => {
      const i = 4 * (y * width + x);
      return Math.max(data[i], data[i + 1], data[i + 2]) - Math.min(data[i], data[i + 1], data[i + 2]) > 30;
    };
    const tops = Array.from({ length: width }, (_, x) => {
      for (let y = 0; y < height; y++) if (coloured(x, y)) return y;
      return height;
    });
    const left = tops.findIndex((top) => top < height); // the axis stands before it
    const place = left + at * (tops.findLastIndex((top) => top < height) - left);
    const highest = (from, to) => Math.min(...tops.slice(Math.max(left, Math.round(from)), Math.round(to)));
    const there = highest(place - width * 0.02, place + width * 0.02);
    const beside = Math.min(highest(place - width * 0.1, place - width * 0.03), highest(place + width * 0.03, place + width * 0.1));
    return beside - there > height / 6;
  }, { base64: picture.toString("base64"), at: share });
}

/** Seconds from the release of the button after a drag to the last chart drawn in detail. */
async function zoom({ url, charts, drags }) {
  const { page, context, wrong } = await open(url, charts);
  await untilDrawn(page, 60);
  const times = [];
  for (const [from, to] of drags) {
    const box = await page.locator(`${charts} .u-over`).first().boundingBox();
    await page.mouse.move(box.x + box.width * from, box.y + box.height / 2);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * to, box.y + box.height / 2, { steps: 3 });
    await page.evaluate(() => addEventListener("mouseup", () => (window.released = performance.now()), { capture: true, once: true }));
    const detail = page.waitForResponse((response) => /\/api\/series.*low=/.test(response.url()));
    await page.mouse.up();
    await (await detail).finished();
    await page.waitForFunction(() => {
      const { lastDrawn } = window.watchedCharts;
      const told = performance.getEntriesByType("resource").findLast((one) => one.name.includes("low="));
      return lastDrawn > (told?.responseEnd ?? Infinity) && performance.now() - lastDrawn > 700;
    });
    times.push(await page.evaluate(() => (window.watchedCharts.lastDrawn - window.released) / 1000));
    await page.mouse.dblclick(box.x + box.width / 2, box.y + box.height / 2);
    await page.waitForFunction(() => !location.search.includes("zoom") && performance.now() - window.watchedCharts.lastDrawn > 700);
  }
  await context.close();
  return { times, wrong };
}

/** When each new step was first read off a chart of a run that goes on: pairs of step and seconds since 1970. */
async function live({ url, charts, count, seconds }) {
  const { page, context, wrong } = await open(url, charts);
  await untilDrawn(page, 60);
  const seen = await page.evaluate(([wanted, patience]) => new Promise((tell) => {
    const found = [];
    const end = performance.now() + patience * 1000;
    const look = () => {
      const step = Number(document.querySelector(".curve .reading").textContent.split("@")[1]?.replaceAll(",", ""));
      if (step > (found.at(-1)?.[0] ?? -1)) found.push([step, Date.now() / 1000]);
      if (found.length > wanted || performance.now() > end) tell(found.slice(1)); // the first was there before
      else requestAnimationFrame(look);
    };
    look();
  }), [count, seconds]);
  await context.close();
  return { seen, wrong };
}

let crowd = [];

/** Opens pages, each in a profile of its own, that stay until `leave`. */
async function come({ url, charts, pages }) {
  crowd = await Promise.all(Array.from({ length: pages }, () => open(url, charts)));
  const drawn = await Promise.all(crowd.map(({ page }) => untilDrawn(page, 300)));
  return { seconds: drawn.map((one) => one?.all ?? null) };
}

/** Closes them, after all have shown this step of this run in its row, or have not in so many seconds: what went wrong in any. */
async function leave({ run, step, seconds }) {
  const told = ([id, wanted]) => document.querySelector(`tr[data-run="${id}"]`)?.children[2].textContent.replaceAll(",", "") === String(wanted);
  const following = await Promise.all(crowd.map(({ page }) =>
    page.waitForFunction(told, [run, step], { timeout: seconds * 1000 }).then(() => true, () => false)));
  const wrong = crowd.flatMap((one) => one.wrong);
  await Promise.all(crowd.map(({ context }) => context.close()));
  return { following: following.filter(Boolean).length, wrong };
}

const ACTIONS = { load, zoom, live, come, leave };
for await (const line of createInterface({ input: process.stdin })) {
  const { action, ...question } = JSON.parse(line);
  const answer = await ACTIONS[action](question).catch((error) => ({ error: String(error) }));
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
await browser.close();
