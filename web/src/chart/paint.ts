// Draws a picture's lines, bands and marks on a canvas whose scales somebody else has set.

import { KINDS, MARK_HEIGHT, MARKS, type MarkKind } from "./marks";
import type { Line, Picture } from "./picture";

export interface Canvas {
  ctx: CanvasRenderingContext2D;
  left: number;
  top: number;
  width: number;
  height: number;
  /** Device pixels of a CSS pixel. */
  ratio: number;
  x: (value: number) => number;
  y: (value: number) => number;
}

export interface Ink {
  text: string;
  muted: string;
  grid: string;
  paper: string;
  severity: Record<string, string>;
}

/** All of a picture, what lies below first. */
export function paint(canvas: Canvas, picture: Picture, focus: number | null, ink: Ink): void {
  const { ctx } = canvas;
  ctx.save();
  ctx.beginPath();
  ctx.rect(canvas.left, canvas.top, canvas.width, canvas.height);
  ctx.clip();
  ctx.lineJoin = "bevel";
  for (const window of picture.windows) paintWindow(canvas, window, ink);
  if (picture.level !== null) paintLevel(canvas, picture.level, ink);
  if (picture.envelope) {
    const { xs, low, high, width } = picture.envelope;
    paintBand(canvas, xs, low, high, width, ink.muted, 0.22);
  }
  const ordered = inOrder(picture.lines, focus);
  for (const line of ordered) paintLineBand(canvas, line, focus);
  for (const line of ordered) paintLine(canvas, line, focus, picture.log);
  for (const line of ordered) if (line.measured) paintMeasured(canvas, line, ink);
  for (const line of ordered) paintOdd(canvas, line);
  ctx.restore();
  paintMarkers(canvas, picture.markers, ink);
}

/** The faint first, the one in focus last. */
function inOrder(lines: readonly Line[], focus: number | null): Line[] {
  const rank = (line: Line) => (line.run === focus ? 2 : line.style.faint || line.pale ? 0 : 1);
  return [...lines].sort((a, b) => rank(a) - rank(b));
}

function alphaOf(line: Line, focus: number | null): number {
  if (focus !== null && line.run !== focus) return line.style.faint ? 0.18 : 0.28;
  if (line.pale) return 0.3;
  return line.style.faint ? 0.4 : 1;
}

function paintWindow(canvas: Canvas, window: Picture["windows"][number], ink: Ink): void {
  const { ctx } = canvas;
  const from = canvas.x(window.from);
  const to = Math.max(canvas.x(window.to), from + 2 * canvas.ratio);
  ctx.fillStyle = ink.severity[window.severity] ?? ink.muted;
  ctx.globalAlpha = 0.13;
  ctx.fillRect(from, canvas.top, to - from, canvas.height);
  ctx.globalAlpha = 0.9;
  ctx.fillRect(from, canvas.top, canvas.ratio, canvas.height);
  ctx.fillRect(from, canvas.top, to - from, 2 * canvas.ratio);
  ctx.globalAlpha = 1;
}

function paintLevel(canvas: Canvas, level: number, ink: Ink): void {
  const { ctx } = canvas;
  ctx.strokeStyle = ink.muted;
  ctx.lineWidth = canvas.ratio;
  ctx.setLineDash([3 * canvas.ratio, 3 * canvas.ratio]);
  ctx.beginPath();
  ctx.moveTo(canvas.left, canvas.y(level));
  ctx.lineTo(canvas.left + canvas.width, canvas.y(level));
  ctx.stroke();
  ctx.setLineDash([]);
}

/**
 * From lowest to highest of each bucket, as wide as the bucket: one step that jumps is a bar of its height.
 * Whole pixels, one rectangle each: a path of thousands of rectangles takes a hundred times as long to fill.
 */
function paintBand(canvas: Canvas, xs: ArrayLike<number>, low: ArrayLike<number>, high: ArrayLike<number>, width: number, colour: string, alpha: number): void {
  const { ctx } = canvas;
  const bottom = canvas.top + canvas.height;
  ctx.fillStyle = colour;
  ctx.globalAlpha = alpha;
  for (let i = 0; i < xs.length; i++) {
    if (!(high[i]! > low[i]!)) continue;
    const top = Math.round(canvas.y(high[i]!));
    if (Number.isNaN(top)) continue;
    const end = canvas.y(low[i]!);
    const left = Math.round(canvas.x(xs[i]! - width / 2));
    const across = Math.max(Math.round(canvas.x(xs[i]! + width / 2)) - left, 1);
    ctx.fillRect(left, top, across, Math.max(Math.round(Number.isNaN(end) ? bottom : end) - top, 1));
  }
  ctx.globalAlpha = 1;
}

/** Where the lower end of an interval is drawn: at the bottom where a log axis has no place for it. */
function floored(canvas: Canvas, low: number): number {
  const y = canvas.y(low);
  return Number.isNaN(y) ? canvas.top + canvas.height : y;
}

function paintLineBand(canvas: Canvas, line: Line, focus: number | null): void {
  if (!line.low || !line.high) return;
  const alpha = focus !== null && line.run !== focus ? 0.06 : 0.26;
  if (!line.measured) return paintBand(canvas, line.xs, line.low, line.high, line.width, line.style.colour, alpha);
  const { ctx } = canvas;
  const known = Array.from(line.xs, (_, i) => i).filter((i) => Number.isFinite(line.low![i]) && Number.isFinite(line.high![i]));
  ctx.fillStyle = line.style.colour;
  ctx.globalAlpha = alpha / 2;
  ctx.beginPath();
  for (const i of known) ctx.lineTo(canvas.x(line.xs[i]!), canvas.y(line.high[i]!));
  for (const i of known.reverse()) ctx.lineTo(canvas.x(line.xs[i]!), floored(canvas, line.low[i]!));
  ctx.fill();
  ctx.globalAlpha = 1;
}

function paintLine(canvas: Canvas, line: Line, focus: number | null, log: boolean): void {
  const { ctx, ratio } = canvas;
  const { xs, ys } = line;
  const thick = line.run === focus ? 2 : line.style.faint ? 0.9 : 1.4;
  ctx.strokeStyle = line.style.colour;
  ctx.globalAlpha = alphaOf(line, focus);
  ctx.lineWidth = thick * ratio;
  if (line.style.dash.length) ctx.setLineDash(line.style.dash.map((part) => part * ratio));
  ctx.beginPath();
  let drawn = 0;
  for (let i = 0; i < xs.length; i++) {
    const value = ys[i]!;
    if (!Number.isFinite(value) || (log && value <= 0)) continue;
    const [x, y] = [canvas.x(xs[i]!), canvas.y(value)];
    if (drawn++) ctx.lineTo(x, y);
    else ctx.moveTo(x, y);
  }
  ctx.stroke();
  if (drawn === 1 && !line.measured) paintLonely(canvas, line, log);
  ctx.setLineDash([]);
  ctx.globalAlpha = 1;
}

/** A line of one point has no length. */
function paintLonely(canvas: Canvas, line: Line, log: boolean): void {
  const i = Array.from(line.ys).findIndex((value) => Number.isFinite(value) && !(log && value <= 0));
  canvas.ctx.fillStyle = line.style.colour;
  dot(canvas, canvas.x(line.xs[i]!), canvas.y(line.ys[i]!), 2.2);
}

function dot(canvas: Canvas, x: number, y: number, radius: number): void {
  canvas.ctx.beginPath();
  canvas.ctx.arc(x, y, radius * canvas.ratio, 0, 2 * Math.PI);
  canvas.ctx.fill();
}

const MOST_WHISKERS = 60;

function paintMeasured(canvas: Canvas, line: Line, ink: Ink): void {
  const { ctx, ratio } = canvas;
  if (line.xs.length > MOST_WHISKERS) return;
  for (let i = 0; i < line.xs.length; i++) {
    if (!Number.isFinite(line.ys[i])) continue;
    const [x, y] = [canvas.x(line.xs[i]!), canvas.y(line.ys[i]!)];
    if (line.low && line.high && Number.isFinite(line.low[i])) {
      ctx.fillStyle = line.style.colour;
      ctx.globalAlpha = 0.55;
      const top = canvas.y(line.high[i]!);
      ctx.fillRect(x - ratio / 2, top, ratio, floored(canvas, line.low[i]!) - top);
      ctx.globalAlpha = 1;
    }
    ctx.fillStyle = ink.paper;
    dot(canvas, x, y, 3.2);
    ctx.fillStyle = line.style.colour;
    dot(canvas, x, y, 2.3);
  }
}

/** NaN as a cross at the bottom, infinities as triangles at the edge they went over. */
function paintOdd(canvas: Canvas, line: Line): void {
  const { ctx, ratio } = canvas;
  const bottom = canvas.top + canvas.height;
  const size = 3.2 * ratio;
  ctx.strokeStyle = ctx.fillStyle = line.style.colour;
  ctx.lineWidth = 1.5 * ratio;
  ctx.beginPath();
  for (const odd of line.odd) {
    const x = canvas.x(odd.x);
    if (odd.kind === "inf" || odd.kind === "-inf") {
      const up = odd.kind === "inf";
      const tip = up ? canvas.top + ratio : bottom - ratio;
      const base = up ? tip + 2 * size : tip - 2 * size;
      ctx.moveTo(x, tip);
      ctx.lineTo(x - size, base);
      ctx.lineTo(x + size, base);
      ctx.closePath();
    } else {
      const y = bottom - 2 * size;
      ctx.moveTo(x - size, y - size);
      ctx.lineTo(x + size, y + size);
      ctx.moveTo(x - size, y + size);
      ctx.lineTo(x + size, y - size);
    }
  }
  ctx.stroke();
}

const paths = new Map<MarkKind, Path2D>();

function pathOf(kind: MarkKind): Path2D {
  let path = paths.get(kind);
  if (!path) paths.set(kind, (path = new Path2D(MARKS[kind].path)));
  return path;
}

/** Marks at the edges, and a dashed line where a run was resumed; at the top they stand below each other. Half of one at the end may stand outside. */
function paintMarkers(canvas: Canvas, markers: Picture["markers"], ink: Ink): void {
  const { ctx, ratio } = canvas;
  const stacked = new Map<number, number>();
  for (const { kind, x } of [...markers].sort((a, b) => KINDS.indexOf(a.kind) - KINDS.indexOf(b.kind))) {
    const { edge, filled } = MARKS[kind];
    const left = canvas.x(x);
    if (!(left >= canvas.left - ratio && left <= canvas.left + canvas.width + ratio)) continue;
    const above = edge === "top" ? (stacked.get(Math.round(left)) ?? 0) : 0;
    if (edge === "top") stacked.set(Math.round(left), above + 1);
    ctx.save();
    ctx.translate(left, edge === "bottom" ? canvas.top + canvas.height : canvas.top + above * MARK_HEIGHT * ratio);
    ctx.scale(ratio, ratio);
    ctx.strokeStyle = ctx.fillStyle = edge === "top" ? ink.text : ink.muted;
    ctx.lineWidth = 1;
    if (edge === "both") {
      ctx.setLineDash([4, 3]);
      ctx.strokeRect(0, 0, 0, canvas.height / ratio);
    } else if (filled) ctx.fill(pathOf(kind));
    else ctx.stroke(pathOf(kind));
    ctx.restore();
  }
}
