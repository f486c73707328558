// Charts of logged series, side by side, with one set of controls and one linked cursor.

import { useEffect, useLayoutEffect, useMemo, useState } from "preact/hooks";
import type { AxisKind, Axes } from "../chart/axis";
import { CurveCard } from "../chart/curve_card";
import { reachesEnd, type Range } from "../chart/picture";
import { seriesNotes, seriesPicture, stepsOf, type DrawnRun, type Extras, type View } from "../chart/series_picture";
import { useCurves, type Curves } from "../data/curves";
import { report } from "../data/request";
import { put, value } from "../state/place";
import { t } from "../state/settings";
import { count } from "../words/numbers";
import { Choices, ScaleChoice } from "./choices";

const KINDS: readonly AxisKind[] = ["step", "epoch", "tokens", "wall"];
const CHART_HEIGHT = 148;
const FEW_CHART_HEIGHT = 250;
/** Charts that the first screen may hold. */
const FIRST_SCREEN = 12;
const NO_EXTRAS: Extras = { markers: [], windows: [] };

const PLAIN: View = { kind: "step", axes: { epoch: null, tokens: null }, log: false, smoothing: 0, range: null };

/** The zoom of the URL: `300-360`, or `300-` for all from there on. */
function readRange(): View["range"] {
  const [, low, high] = /^(\d{1,15})-(\d{0,15})$/.exec(value("zoom")) ?? [];
  if (low === undefined || (high && Number(high) < Number(low))) return null;
  return { low: Number(low), high: high ? Number(high) : null };
}

function readView(axes: Axes): View {
  const wanted = value("x", "step") as AxisKind;
  const known = wanted === "wall" || (wanted === "epoch" && axes.epoch) || (wanted === "tokens" && axes.tokens);
  return {
    kind: known ? wanted : "step",
    axes,
    log: value("log") === "1",
    smoothing: Math.min(Math.max(Number(value("smooth", "0")) || 0, 0), 0.99),
    range: readRange(),
  };
}

function kindsOf(axes: Axes): readonly AxisKind[] {
  return KINDS.filter((kind) => kind === "step" || (kind === "wall" ? !report : axes[kind]));
}

/** What holds for all charts: the axis, its scale, smoothing, zoom, and which series. */
function Controls({ view, numKeys, numShown }: { view: View; numKeys: number; numShown: number }) {
  return (
    <div class="controls">
      <Choices label={t("chart.axis")} name="x" now={view.kind === "step" ? "" : view.kind} options={kindsOf(view.axes).map((kind) => [kind === "step" ? "" : kind, t(`axis.${kind}`)])} clears={["zoom"]} />
      <ScaleChoice />
      <label>
        {t("chart.smoothing")}
        <input
          type="range"
          min="0"
          max="0.99"
          step="0.01"
          value={view.smoothing}
          onInput={(event) => put({ smooth: event.currentTarget.value === "0" ? null : event.currentTarget.value })}
        />
        <output class="number">{view.smoothing ? view.smoothing.toFixed(2) : t("chart.off")}</output>
      </label>
      {view.range && (
        <button type="button" class="zoomed" onClick={() => put({ zoom: null })}>
          {t(view.range.high === null ? "chart.zoomed.open" : "chart.zoomed", { low: count(view.range.low), high: count(view.range.high) })} ✕
        </button>
      )}
      <input
        class="filter"
        data-search
        type="search"
        placeholder={t("chart.filter")}
        aria-label={t("chart.filter")}
        value={value("keys")}
        onInput={(event) => put({ keys: event.currentTarget.value || null })}
      />
      <span class="quiet number">{numShown < numKeys ? t("chart.some", { n: numShown, total: numKeys }) : t("chart.all", { n: numKeys })}</span>
    </div>
  );
}

interface TileProps {
  name: string;
  runs: readonly DrawnRun[];
  curves: Curves;
  view: View;
  viewId: string;
  extras: Extras;
  focus: number | null;
  cut: string;
  height: number;
}

function Tile({ name, runs, curves, view, viewId, extras, focus, cut, height }: TileProps) {
  const [seen, setSeen] = useState(false);
  const version = curves.version.value;
  const axis = view.kind === "epoch" || view.kind === "tokens" ? view.axes[view.kind] : null;
  useEffect(() => {
    if (!seen) return;
    curves.want(name);
    if (axis) curves.want(axis);
    return () => curves.leave(name);
  }, [seen, name, axis, curves]);
  const picture = useMemo(
    () => (seen ? seriesPicture(name, runs, curves, view, extras) : null),
    [seen, version, runs, curves, viewId, extras],
  );
  const zoom = (range: Range | null) => {
    if (!range || !picture) return put({ zoom: null });
    const { low, high } = view.kind === "step" ? { low: Math.max(0, Math.floor(range[0])), high: Math.ceil(range[1]) } : stepsOf(picture, name, curves, range);
    put({ zoom: `${low}-${reachesEnd(picture, range) && !view.range?.high ? "" : high}` });
  };
  const notes = picture ? [...seriesNotes(name, runs, curves), cut].filter(Boolean) : [];
  return <CurveCard title={name} picture={picture} focus={focus} height={height} notes={notes} onZoom={zoom} onSeen={setSeen} />;
}

export interface CurveGridProps {
  runs: readonly DrawnRun[];
  keys: readonly string[];
  axes: Axes;
  focus: number | null;
  extrasOf?: (key: string) => Extras;
  /** What the charts leave out, said on each. */
  cut?: string;
  /** How the lines are told apart, said once. */
  legend?: string;
  /** Without controls: steps, linear, as on a page where each chart has its own story. */
  bare?: boolean;
}

/** The charts of these series of these runs. */
export function CurveGrid({ runs, keys, axes, focus, extrasOf, cut = "", legend = "", bare = false }: CurveGridProps) {
  const view = bare ? { ...PLAIN, range: readRange() } : readView(axes);
  const curves = useCurves(
    useMemo(() => runs.map((run) => run.id).sort((a, b) => a - b), [runs]),
    view.range,
    view.kind === "wall",
  );
  const filter = bare ? "" : value("keys").toLowerCase();
  const shown = keys.filter((key) => !filter || key.toLowerCase().includes(filter));
  const height = shown.length <= 2 && !bare ? FEW_CHART_HEIGHT : CHART_HEIGHT;
  const viewId = JSON.stringify(view);
  useLayoutEffect(() => shown.slice(0, FIRST_SCREEN).forEach((key) => curves.fetch(key)), [curves]);
  return (
    <section class="curves">
      {!bare && <Controls view={view} numKeys={keys.length} numShown={shown.length} />}
      {legend && <p class="note">{legend}</p>}
      {curves.error.value && <p class="error">{curves.error.value}</p>}
      {curves.leftOut.value.map((text) => (
        <p class="note" key={text}>
          {t("chart.leftout", { what: text })}
        </p>
      ))}
      <div class="grid">
        {shown.map((key) => (
          <Tile key={key} name={key} runs={runs} curves={curves} view={view} viewId={viewId} extras={extrasOf?.(key) ?? NO_EXTRAS} focus={focus} cut={cut} height={height} />
        ))}
      </div>
    </section>
  );
}
