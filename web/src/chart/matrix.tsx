// Items × checkpoints as a picture: a row an item, a column a checkpoint, a cell its score.

import { useEffect, useRef } from "preact/hooks";
import { theme } from "../state/settings";

export interface MatrixProps {
  rows: number;
  columns: number;
  values: Float32Array;
  states: Uint8Array;
  lowest: number;
  highest: number;
  rowHeight: number;
  width: number;
  /** The row and column that is open. */
  open: { row: number; column: number } | null;
  /** The column that others are held against. */
  reference: number | null;
  onPick: (row: number, column: number) => void;
}

const OK = 0;
const UNKNOWN = 255;

interface Paint {
  full: string;
  none: string;
  failed: string;
}

function paints(): Paint {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  return { full: colour("--learned"), none: colour("--cell"), failed: colour("--forgotten") };
}

/** How strongly a share of the highest value covers its cell: a little is told from nothing. */
export function opacityOf(share: number): number {
  return share > 0 ? 0.15 + 0.85 * Math.min(share, 1) : 0;
}

function drawCell(ctx: CanvasRenderingContext2D, x: number, y: number, width: number, height: number, share: number, state: number, paint: Paint): void {
  if (Number.isNaN(share) && (state === UNKNOWN || state === OK)) return;
  ctx.globalAlpha = 1;
  ctx.fillStyle = paint.none;
  ctx.fillRect(x, y, width, height);
  if (share > 0) {
    ctx.globalAlpha = opacityOf(share);
    ctx.fillStyle = paint.full;
    ctx.fillRect(x, y, width, height);
  }
  ctx.globalAlpha = 1;
  if (state !== OK && state !== UNKNOWN) {
    ctx.fillStyle = paint.failed;
    const mark = Math.max(2, Math.min(width, height) * 0.36);
    ctx.fillRect(x + (width - mark) / 2, y + (height - mark) / 2, mark, mark);
  }
}

function draw(canvas: HTMLCanvasElement, props: MatrixProps): void {
  const { rows, columns, rowHeight, width, values, states } = props;
  const ratio = Math.min(window.devicePixelRatio || 1, 2);
  canvas.width = Math.max(1, Math.floor(width * ratio));
  canvas.height = Math.max(1, Math.floor(rows * rowHeight * ratio));
  const ctx = canvas.getContext("2d")!;
  ctx.scale(ratio, ratio);
  const cell = width / Math.max(columns, 1);
  const gap = cell > 5 ? 1 : 0;
  const paint = paints();
  const span = props.highest - props.lowest || 1;
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      const at = row * columns + column;
      const share = (values[at]! - props.lowest) / span;
      drawCell(ctx, column * cell, row * rowHeight + 0.5, cell - gap, rowHeight - 1, share, states[at] ?? UNKNOWN, paint);
    }
  }
  if (props.open) {
    ctx.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue("--text");
    ctx.lineWidth = 1.5;
    ctx.strokeRect(0.75, props.open.row * rowHeight + 0.25, width - 1.5, rowHeight - 0.5);
  }
}

/** The matrix; a click names row and column. */
export function Matrix(props: MatrixProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => draw(canvas.current!, props), [props.values, props.states, props.rows, props.columns, props.width, props.open?.row, theme.value]);
  const pick = (event: MouseEvent) => {
    const column = Math.floor((event.offsetX / props.width) * props.columns);
    props.onPick(Math.floor(event.offsetY / props.rowHeight), Math.min(column, props.columns - 1));
  };
  return (
    <canvas
      class="matrix"
      ref={canvas}
      onClick={pick}
      style={{ width: `${props.width}px`, height: `${props.rows * props.rowHeight}px` }}
    />
  );
}
