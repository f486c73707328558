// An answer of the server as part of a component: the old one stays until the new one is there, so nothing flickers.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { ask } from "./request";
import { listen } from "./live";
import type { Change, Changed } from "./answers";

export interface Answered<T> {
  value: T | null;
  error: string;
  /** Whether `value` answers another question than the one now asked. */
  old: boolean;
}

/** Milliseconds from a change to the question, in which more changes may come. */
const PAUSE = 300;
const KEPT = 40;
const cache = new Map<string, unknown>();

function keep(where: string, value: unknown): void {
  cache.delete(where);
  cache.set(where, value);
  for (const oldest of cache.keys()) {
    if (cache.size <= KEPT) return;
    cache.delete(oldest);
  }
}

/** Which changes make an answer old. */
export interface Watch {
  /** Of which runs; null = of any. */
  runs: ReadonlySet<number> | null;
  /** By kind of change, milliseconds until it is asked again. */
  pauses: Partial<Record<Changed, number>>;
}

/** Changes of these kinds, after the usual pause; others after a pause of their own. */
export function watching(runs: ReadonlySet<number> | null, kinds: readonly Changed[], others: Watch["pauses"] = {}): Watch {
  return { runs, pauses: { ...Object.fromEntries(kinds.map((kind) => [kind, PAUSE])), ...others } };
}

/** Milliseconds after which a change asks for a new answer; infinite if it does not. */
function pauseOf(change: Change, watch: Watch | null): number {
  if (change.reset) return PAUSE;
  let pause = Infinity;
  for (const run of change.runs) {
    if (!watch || (watch.runs && !watch.runs.has(run.id))) continue;
    for (const kind of run.changed) pause = Math.min(pause, watch.pauses[kind] ?? Infinity);
  }
  return pause;
}

/** Calls `refresh` a pause after a change that is watched: once for all changes within the pause. */
function useRefresh(watch: Watch | null, refresh: () => void): void {
  const latest = useRef({ watch, refresh });
  latest.current = { watch, refresh };
  useEffect(() => {
    let timer = 0;
    let due = Infinity;
    const run = () => {
      due = Infinity;
      latest.current.refresh();
    };
    const stop = listen((change) => {
      const pause = pauseOf(change, latest.current.watch);
      if (performance.now() + pause >= due) return;
      clearTimeout(timer);
      due = performance.now() + pause;
      timer = window.setTimeout(run, pause);
    });
    return () => (stop(), clearTimeout(timer));
  }, []);
}

/** The answer to a request (none where it is null); asked again after a change that is watched. */
export function useAnswer<T>(where: string | null, watch: Watch | null = null): Answered<T> {
  const [state, setState] = useState<{ where: string | null; value: T | null; error: string }>({ where: null, value: null, error: "" });
  const asked = useRef<string | null>(null);
  const load = (signal?: AbortSignal) => {
    if (where === null) return;
    asked.current = where;
    ask<T>(where, signal).then(
      (value) => {
        keep(where, value);
        if (asked.current === where) setState({ where, value, error: "" });
      },
      (error: Error) => {
        if (error.name !== "AbortError" && asked.current === where) setState((old) => ({ ...old, where, error: error.message }));
      },
    );
  };
  // before the browser paints what is there without an answer: a request that waits for that comes 100 ms later
  useLayoutEffect(() => {
    const controller = new AbortController();
    load(controller.signal);
    return () => controller.abort();
  }, [where]);
  useRefresh(watch, () => load());
  if (where === null) return { value: null, error: "", old: false };
  if (state.where === where) return { value: state.value, error: state.error, old: false };
  const kept = cache.get(where) as T | undefined;
  return { value: kept ?? state.value, error: "", old: kept === undefined };
}
