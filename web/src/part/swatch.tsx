import type { Style } from "../chart/palette";

/** A piece of a line as it is drawn: colour and dashes. */
export function Swatch({ style }: { style: Style }) {
  return (
    <svg class="swatch" width="18" height="8" aria-hidden="true">
      <line x1="0" y1="4" x2="18" y2="4" stroke={style.colour} stroke-width={style.faint ? 1 : 2} stroke-dasharray={style.dash.join(" ")} />
    </svg>
  );
}
