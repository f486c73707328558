// A chart with its title, what stands at the cursor, and what is cut, left out or not a number.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { theme, t } from "../state/settings";
import { number } from "../words/numbers";
import { oneLine } from "../words/hostile";
import { Later } from "../part/later";
import { nearest, placeOf, withoutLog, type Picture, type Range } from "./picture";
import { Plot, type Cursor } from "./plot";
import { soon } from "./soon";

export interface CurveCardProps {
  title: string;
  picture: Picture | null;
  /** The run that the pointer is on in the table. */
  focus: number | null;
  height: number;
  /** What the chart does not show as it is: buckets, runs left out. */
  notes: readonly string[];
  /** A range of x was chosen; null = all. Without it nothing happens. */
  onZoom?: (range: Range | null) => void;
  /** Called with true when the card comes on the screen and false when it leaves. */
  onSeen?: (seen: boolean) => void;
  /** Behind the notes: what the marks mean. */
  legend?: ComponentChildren;
}

const loadAtCursor = () => import("./at_cursor").then((module) => module.AtCursor);

function useSeen(onSeen: (seen: boolean) => void = () => {}) {
  const host = useRef<HTMLElement>(null);
  const [seen, setSeen] = useState(false);
  const tell = useRef(onSeen);
  tell.current = onSeen;
  useEffect(() => {
    const observer = new IntersectionObserver(
      (entries) => {
        const inside = entries[entries.length - 1]!.isIntersecting;
        setSeen(inside);
        tell.current(inside);
      },
      { rootMargin: "120px" },
    );
    observer.observe(host.current!);
    return () => (observer.disconnect(), tell.current(false));
  }, []);
  return { host, seen };
}

function usePlot(props: CurveCardProps, seen: boolean, onCursor: (cursor: Cursor | null) => void) {
  const canvas = useRef<HTMLDivElement>(null);
  const plot = useRef<Plot | null>(null);
  const zoom = useRef(props.onZoom);
  zoom.current = props.onZoom;
  const { picture, focus, height } = props;
  const latest = useRef({ picture, focus });
  latest.current = { picture, focus };
  const drawn = seen && picture !== null && picture.lines.length > 0;
  useEffect(() => {
    const host = canvas.current;
    if (!drawn || !host) return;
    let width = 0; // as it was drawn: the observer's first word is of the width that is there already
    const observer = new ResizeObserver(() => {
      if (host.clientWidth === width) return;
      width = host.clientWidth;
      plot.current?.resize(width, height);
    });
    const cancel = soon(() => {
      const { picture: first, focus: firstFocus } = latest.current;
      if (!first) return;
      const hooks = { onCursor, onZoom: (range: Range | null) => zoom.current?.(range) };
      width = host.clientWidth;
      plot.current = new Plot(host, first, firstFocus, hooks, width, height);
      observer.observe(host);
    });
    return () => {
      cancel();
      observer.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [drawn, picture?.log, theme.value, height]);
  useEffect(() => (plot.current && picture ? soon(() => plot.current?.show(picture, focus)) : undefined), [picture, focus]);
  return canvas;
}

function oddNote(picture: Picture): string {
  const counts = new Map<string, number>();
  for (const line of picture.lines) {
    if (line.pale) continue;
    for (const odd of line.odd) {
      const name = odd.kind === "inf" ? "▲ ∞" : odd.kind === "-inf" ? "▼ −∞" : odd.kind === "nan" ? "× NaN" : `× ${t("chart.odd")}`;
      counts.set(name, (counts.get(name) ?? 0) + odd.count);
    }
  }
  return [...counts].map(([name, count]) => `${name}: ${number(count)}`).join(", ");
}

function atCursor(picture: Picture, x: number): string {
  const shown = picture.lines.filter((line) => !line.pale);
  if (shown.length !== 1) return picture.spellX(x);
  const i = nearest(shown[0]!, x);
  return i < 0 ? "" : `${number(shown[0]!.ys[i]!)} @ ${placeOf(picture, shown[0]!, i)}`;
}

function lastOf(picture: Picture): string {
  const shown = picture.lines.filter((line) => !line.pale);
  return shown.length === 1 ? atCursor(picture, Infinity) : "";
}

/** A chart in a card. */
export function CurveCard(props: CurveCardProps) {
  const { title, picture, height } = props;
  const { host, seen } = useSeen(props.onSeen);
  const [cursor, setCursor] = useState<Cursor | null>(null);
  const canvas = usePlot(props, seen, setCursor);
  const lost = picture ? withoutLog(picture) : 0;
  const notes = [
    ...props.notes,
    ...(picture ? [oddNote(picture)] : []),
    ...(lost ? [t("chart.nolog", { n: number(lost) })] : []),
  ].filter(Boolean);
  return (
    <figure class="curve" ref={host} data-key={title}>
      <figcaption>
        <span class="title" title={oneLine(title, 200)}>
          {oneLine(title, 60)}
        </span>
        <span class="reading number">{picture && (cursor ? atCursor(picture, cursor.x) : lastOf(picture))}</span>
      </figcaption>
      <div class="plot" ref={canvas} style={{ height: `${height}px` }}>
        {picture && !picture.lines.length && <p class="empty">{t("chart.empty")}</p>}
      </div>
      {(notes.length > 0 || props.legend) && (
        <p class="note">
          {notes.join(" · ")} {props.legend}
        </p>
      )}
      {cursor?.here && picture && <Later load={loadAtCursor} props={{ picture, cursor }} />}
    </figure>
  );
}
