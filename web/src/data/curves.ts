// Curves of the charts on the screen: asked for together, kept while others come, extended while runs go on.

import { signal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { address, ask, report } from "./request";
import { decode, type Curve, type Decoded, type Envelope } from "./decode";
import { listen } from "./live";
import type { Change, SeriesAnswer } from "./answers";

const MOST_WITH_BANDS = 20;
const BUCKETS_FOR_FEW = 400;
const BUCKETS_FOR_MANY = 128;
const MOST_EXTENDED = 1500;
const REFRESH_MILLISECONDS = 400;

/** A part of the steps; without an end it goes on as the runs do. */
export interface StepRange {
  low: number;
  high: number | null;
}

/** Curves of some runs, by key; `version` goes up with each answer. */
export class Curves {
  readonly version = signal(0);
  readonly error = signal("");
  readonly byKey = new Map<string, Map<number, Curve>>();
  readonly envelopes = new Map<string, Envelope>();
  readonly walls = new Map<number, { xs: Float64Array; ys: Float32Array }>();
  readonly leftOut = signal<string[]>([]);
  private readonly wanted = new Set<string>();
  private waiting = new Set<string>();
  private loaded = new Set<string>();
  private generation = 0;
  private timer = 0;
  private late = new Set<number>();
  /** Newest steps of runs, as far as changes have told. */
  private readonly ends = new Map<number, number>();

  constructor(
    readonly runs: readonly number[],
    private range: StepRange | null,
    private readonly withWalls: boolean,
  ) {}

  /** Says that a chart with this series is on the screen. */
  want(key: string): void {
    this.wanted.add(key);
    this.fetch(key);
  }

  /** Asks for a series that is about to be on the screen, before the browser has laid the page out. */
  fetch(key: string): void {
    if (this.loaded.has(key) || this.waiting.has(key) || !this.runs.length) return;
    if (report && this.version.value) return;
    if (!this.waiting.size) queueMicrotask(() => void this.load());
    this.waiting.add(key);
  }

  /** Says that a chart with this series has left the screen. */
  leave(key: string): void {
    this.wanted.delete(key);
  }

  /** Shows a part of the steps, or all; what is drawn stays until its detail is there. */
  zoom(range: StepRange | null): void {
    if (range?.low === this.range?.low && range?.high === this.range?.high) return;
    this.range = range;
    this.again();
  }

  private again(): void {
    this.generation++;
    this.loaded.clear();
    this.waiting = new Set(this.wanted);
    if (this.waiting.size) queueMicrotask(() => void this.load());
  }

  private parameters(keys: readonly string[]) {
    if (report) return { keys: "*", runs: report.runs };
    const buckets = this.runs.length > MOST_WITH_BANDS ? BUCKETS_FOR_MANY : BUCKETS_FOR_FEW;
    return {
      keys,
      runs: this.runs,
      buckets: buckets === 400 ? undefined : buckets,
      low: this.range?.low,
      high: this.range?.high,
      walls: this.withWalls ? 1 : undefined,
    };
  }

  private where(keys: readonly string[]): string {
    return address("/api/series", this.parameters(keys));
  }

  private async load(): Promise<void> {
    const keys = [...this.waiting].sort();
    const generation = this.generation;
    this.waiting = new Set();
    for (const key of keys) this.loaded.add(key);
    try {
      const decoded = decode(await ask<SeriesAnswer>(this.where(keys)));
      if (generation === this.generation) this.take(decoded, keys);
    } catch (error) {
      this.error.value = (error as Error).message;
    }
  }

  private take(decoded: Decoded, keys: readonly string[]): void {
    for (const key of keys) this.byKey.set(key, new Map());
    for (const curve of decoded.curves) {
      let runs = this.byKey.get(curve.key);
      if (!runs) this.byKey.set(curve.key, (runs = new Map()));
      runs.set(curve.run, curve);
    }
    for (const key of keys) this.envelopes.delete(key);
    for (const [key, envelope] of decoded.envelopes) this.envelopes.set(key, envelope);
    for (const [run, wall] of decoded.walls) this.walls.set(run, wall);
    this.leftOut.value = decoded.leftOut;
    this.error.value = "";
    this.version.value++;
  }

  /** Hears that runs have gone on. */
  hear(change: Change): void {
    if (change.reset) return this.again();
    const mine = new Set(this.runs);
    for (const run of change.runs) {
      if (mine.has(run.id) && run.changed.includes("points") && this.reaches(run.id, run.last_step)) this.late.add(run.id);
    }
    if (this.late.size && !this.timer) this.refresh();
  }

  /** Whether points that a run has logged since it was heard of last may lie in what is shown. */
  private reaches(run: number, now: number | null): boolean {
    const before = this.ends.get(run);
    if (now !== null) this.ends.set(run, now);
    const end = this.range?.high ?? null;
    return end === null || before === undefined || now === null || before < end || now < before; // a resumed run goes back
  }

  private refresh(): void {
    for (const key of this.loaded) if (!this.wanted.has(key)) this.loaded.delete(key);
    void this.extendLate();
    this.timer = window.setTimeout(() => {
      this.timer = 0;
      if (this.late.size) this.refresh();
    }, REFRESH_MILLISECONDS);
  }

  private async extendLate(): Promise<void> {
    const runs = [...this.late];
    const keys = [...this.wanted].filter((key) => this.loaded.has(key));
    this.late.clear();
    if (!keys.length || this.withWalls || this.range?.high != null) return this.again();
    const known = keys.flatMap((key) => runs.map((run) => this.byKey.get(key)?.get(run)));
    const ends = known.filter((curve) => curve !== undefined);
    if (ends.length < known.length && ends.length === 0) return this.again();
    if (ends.some((curve) => curve.xs.length > MOST_EXTENDED)) return this.again();
    const generation = this.generation;
    try {
      const { extend, openStep } = await import("./extend");
      const low = Math.min(...ends.map(openStep));
      const where = address("/api/series", { keys: keys.sort(), runs, low, bands: this.runs.length > MOST_WITH_BANDS ? 0 : 1 });
      const decoded = decode(await ask<SeriesAnswer>(where));
      if (generation !== this.generation) return;
      for (const more of decoded.curves) {
        const old = this.byKey.get(more.key)?.get(more.run);
        this.byKey.get(more.key)?.set(more.run, old ? extend(old, more, low) : more);
      }
      this.version.value++;
    } catch (error) {
      this.error.value = (error as Error).message;
    }
  }

  stop(): void {
    this.generation++;
    clearTimeout(this.timer);
  }
}

/** Curves of these runs as part of a component. */
export function useCurves(runs: readonly number[], range: StepRange | null, withWalls: boolean): Curves {
  const id = runs.join(",");
  const curves = useMemo(() => new Curves(runs, range, withWalls), [id, withWalls]);
  useEffect(() => {
    const stop = listen((change) => curves.hear(change));
    return () => (stop(), curves.stop());
  }, [curves]);
  useEffect(() => curves.zoom(range), [curves, range?.low, range?.high]);
  return curves;
}
