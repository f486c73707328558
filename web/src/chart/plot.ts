// The one file that knows uPlot: it gives axes, scales, the linked cursor and the drag to zoom; paint.ts draws the rest.

import uPlot from "uplot";
import { number } from "../words/numbers";
import { extentX, extentY, logTicks, type Picture, type Range } from "./picture";
import { paint, type Ink } from "./paint";

export interface Cursor {
  x: number;
  /** Distance in x of a pixel. */
  pixel: number;
  /** Whether it is over this chart, and not over one that it is linked to. */
  here: boolean;
}

export interface Hooks {
  /** The pointer stands here; null where it has left. */
  onCursor: (cursor: Cursor | null) => void;
  /** A range of x was chosen; null = all. */
  onZoom: (range: Range | null) => void;
}

const FONT = '10.5px system-ui, -apple-system, "Segoe UI", sans-serif';
const MOST_PLACES = 8;
/** Distances of places on an axis of steps. */
const WHOLE = Array.from({ length: 17 }, (_, power) => [1, 2, 5].map((factor) => factor * 10 ** power)).flat();
const linked = uPlot.sync("x");

/** Colours of the theme, out of the style sheet. */
export function readInk(): Ink {
  const style = getComputedStyle(document.documentElement);
  const get = (name: string) => style.getPropertyValue(name).trim();
  return {
    text: get("--text"),
    muted: get("--muted"),
    grid: get("--grid"),
    paper: get("--card"),
    severity: { stop: get("--stop"), warn: get("--warn"), note: get("--note") },
  };
}

function spellY(values: number[], step: number): string[] {
  const most = Math.max(...values.map(Math.abs));
  if (most >= 1e4 || most < 1e-4) return values.map((value) => number(value));
  let places = 0;
  while (places < MOST_PLACES && Math.abs(step * 10 ** places - Math.round(step * 10 ** places)) > 1e-6) places++;
  return values.map((value) => (value + 0).toFixed(places).replace("-", "−"));
}

/** A chart in an element of the page. */
export class Plot {
  private readonly chart: uPlot;
  private ranges: { x: Range; y: Range };

  constructor(
    host: HTMLElement,
    private picture: Picture,
    /** The run that stands out; null = none. */
    private focus: number | null,
    private readonly hooks: Hooks,
    width: number,
    height: number,
  ) {
    this.ranges = this.measure();
    this.chart = new uPlot(this.options(width, height), this.corners(), host);
  }

  /** Shows another picture; scale kinds stay as they were made. */
  show(picture: Picture, focus: number | null): void {
    this.picture = picture;
    this.focus = focus;
    this.ranges = this.measure();
    this.chart.setData(this.corners());
  }

  resize(width: number, height: number): void {
    this.chart.setSize({ width, height });
  }

  destroy(): void {
    linked.unsub(this.chart);
    this.chart.destroy();
  }

  private measure(): { x: Range; y: Range } {
    const x = extentX(this.picture);
    return { x, y: extentY(this.picture, x) };
  }

  private corners(): uPlot.AlignedData {
    return [this.ranges.x, this.ranges.y];
  }

  private options(width: number, height: number): uPlot.Options {
    const ink = readInk();
    const axis = { font: FONT, stroke: ink.muted, grid: { stroke: ink.grid, width: 1 }, ticks: { show: false } };
    return {
      width,
      height,
      padding: [6, 10, 0, 0],
      legend: { show: false },
      series: [{}, { paths: () => null, points: { show: false } }],
      scales: {
        x: { time: false, range: () => this.ranges.x },
        y: { distr: this.picture.log ? 3 : 1, range: () => this.ranges.y },
      },
      axes: [
        { ...axis, grid: { show: false }, size: 20, gap: 3, space: 60, ...(this.picture.wholeX && { incrs: WHOLE }), values: (_, splits) => splits.map((x) => this.picture.tickX(x)) },
        {
          ...axis,
          size: (_, values) => 10 + 6.2 * Math.max(2, ...(values ?? []).map((text) => text?.length ?? 0)),
          gap: 4,
          space: 24,
          ...(this.picture.log
            ? {
                splits: (chart: uPlot) => logTicks(...this.ranges.y, Math.max(2, Math.floor(chart.height / 30))),
                filter: (_: uPlot, splits: number[]) => splits,
                values: (_: uPlot, splits: number[]) => splits.map((y) => number(y)),
              }
            : { values: (_: uPlot, splits: number[], _axis: number, _space: number, step: number) => spellY(splits, step) }),
        },
      ],
      cursor: {
        y: false,
        points: { show: false },
        drag: { x: true, y: false, setScale: false },
        // the cursor is one; a drag is of the chart it is on, or each chart would zoom all of them
        sync: { key: linked.key, scales: ["x", null], filters: { pub: (type: string) => type !== "mousedown" && type !== "mouseup" } },
        bind: { dblclick: () => () => (this.hooks.onZoom(null), null) },
      },
      hooks: {
        drawAxes: [(chart) => this.paint(chart, ink)],
        setCursor: [(chart) => this.tellCursor(chart)],
        setSelect: [(chart) => this.tellZoom(chart)],
      },
    };
  }

  private paint(chart: uPlot, ink: Ink): void {
    const { left, top, width, height } = chart.bbox;
    const { x, y } = this.ranges;
    const log = this.picture.log;
    const flat = log ? Math.log10 : (value: number) => value;
    const [low, high] = [flat(y[0]), flat(y[1])];
    const scaleX = width / (x[1] - x[0]);
    const scaleY = height / (high - low);
    const canvas = {
      ctx: chart.ctx,
      left,
      top,
      width,
      height,
      ratio: uPlot.pxRatio,
      x: (value: number) => left + (value - x[0]) * scaleX,
      y: (value: number) => (log && value <= 0 ? NaN : top + height - (flat(value) - low) * scaleY),
    };
    paint(canvas, this.picture, this.focus, ink);
  }

  private tellCursor(chart: uPlot): void {
    const left = chart.cursor.left ?? -1;
    const here = chart.cursor.event !== null && chart.cursor.event !== undefined && chart.over.matches(":hover");
    const [from, to] = this.ranges.x;
    this.hooks.onCursor(left < 0 ? null : { x: chart.posToVal(left, "x"), pixel: (to - from) / chart.over.clientWidth, here });
  }

  private tellZoom(chart: uPlot): void {
    const { left, width } = chart.select;
    if (width < 4) return;
    const range: Range = [chart.posToVal(left, "x"), chart.posToVal(left + width, "x")];
    chart.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.hooks.onZoom(range);
  }
}
