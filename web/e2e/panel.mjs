// Starts what the tests look at: a store, the real server on it, a real browser.

import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const here = dirname(fileURLToPath(import.meta.url));
const root = resolve(here, "../..");
const venv = join(root, ".venv/bin/python");
const python = process.env.PYTHON ?? (existsSync(venv) ? venv : "python3");
const env = { ...process.env, PYTHONPATH: process.env.MIDFLIGHT_SRC ?? join(root, "src"), OMP_NUM_THREADS: "1" };
export const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

/** Where pictures of the pages go, for docs and for eyes. */
export const pictures = process.env.PICTURES ?? "";

function freePort() {
  return new Promise((tell) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => tell(port));
    });
  });
}

async function untilItAnswers(url, child) {
  let said = "";
  child.stderr.on("data", (text) => (said += text));
  for (let i = 0; i < 300; i++) {
    if (child.exitCode !== null) throw new Error(`the server ended with ${child.exitCode}: ${said}`);
    if (await fetch(url).then((answer) => answer.ok, () => false)) return;
    await new Promise((go) => setTimeout(go, 100));
  }
  throw new Error("the server does not answer");
}

/** A panel over a store, or over one of its own; `close` ends all that was started. */
export async function openPanel(given = "") {
  const folder = mkdtempSync(join(tmpdir(), "midflight-panel-"));
  const store = given || `sqlite:///${join(folder, "store.db")}`;
  if (!given) {
    const made = spawnSync(python, [join(here, "make_store.py"), store], { env, encoding: "utf8" });
    if (made.status !== 0) throw new Error(made.stderr);
  }
  const port = await freePort();
  const server = spawn(python, ["-m", "midflight", "serve", "--store", store, "--port", String(port), ...(given ? [] : ["--allow-write"])], { env, cwd: folder });
  const base = `http://127.0.0.1:${port}`;
  await untilItAnswers(`${base}/api/projects`, server);
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: FLAGS });
  const close = async () => {
    await browser.close();
    server.kill("SIGTERM");
    rmSync(folder, { recursive: true, force: true });
  };
  return { base, store, folder, browser, close };
}

/** Judges a run's last checkpoint by a policy, against its first; the verdict is kept in the store. */
export function judge(panel, policy, run) {
  const words = ["gate", policy, "--candidate", `${run}@last`, "--baseline", `${run}@first`, "--store", panel.store];
  const done = spawnSync(python, ["-m", "midflight", ...words], { env, encoding: "utf8" });
  if (![0, 1, 3].includes(done.status)) throw new Error(done.stderr);
}

/** Writes a report of these runs; its path. */
export function writeReport(panel, out, runs) {
  const done = spawnSync(python, ["-m", "midflight", "report", ...runs, "--store", panel.store, "--out", out], { env, encoding: "utf8" });
  if (done.status !== 0) throw new Error(done.stderr);
  return out;
}

/** A page that notes whatever is wrong with it: errors, messages, requests to elsewhere. */
export async function openPage(panel, options = {}) {
  const context = await panel.browser.newContext({ viewport: { width: 1280, height: 800 }, locale: "en-US", ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(20_000);
  const wrong = [];
  page.on("pageerror", (error) => wrong.push(`error: ${error.message}`));
  page.on("console", (message) => message.type() === "error" && wrong.push(`console: ${message.text()}`));
  page.on("request", (request) => {
    const ours = request.url().startsWith(panel.base) || request.url().startsWith("file:");
    if (!ours) wrong.push(`outside request: ${request.url()}`);
  });
  return { page, wrong, context };
}

/** A training that writes until it is ended; `stepsAt` maps each step to when it was logged. */
export function startWriter(panel) {
  const child = spawn(python, [join(here, "writer.py"), panel.store], { env });
  const stepsAt = new Map();
  createInterface({ input: child.stdout }).on("line", (line) => {
    const [step, at] = line.split(" ").map(Number);
    stepsAt.set(step, at);
  });
  return { stepsAt, stop: () => child.kill("SIGTERM") };
}
