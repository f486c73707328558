// An answer of the server as part of a component: the old one stays until the new one is there, so nothing flickers.

import { useEffect, useRef, useState } from "preact/hooks";
import { ask } from "./request";
import { listen } from "./live";
import type { Change } from "./answers";

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

/** Calls `refresh` a pause after a change that concerns it: once for all changes within the pause. */
function useRefresh(concerns: ((change: Change) => boolean) | null, refresh: () => void, pause: number): void {
  const latest = useRef({ concerns, refresh });
  latest.current = { concerns, refresh };
  useEffect(() => {
    let timer = 0;
    const run = () => {
      timer = 0;
      latest.current.refresh();
    };
    const stop = listen((change) => {
      if (!change.reset && !latest.current.concerns?.(change)) return;
      timer ||= window.setTimeout(run, pause);
    });
    return () => (stop(), clearTimeout(timer));
  }, []);
}

/** The answer to a request (none where it is null); asked again after a change that concerns it. */
export function useAnswer<T>(where: string | null, concerns: ((change: Change) => boolean) | null = null, pause = PAUSE): Answered<T> {
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
  useEffect(() => {
    const controller = new AbortController();
    load(controller.signal);
    return () => controller.abort();
  }, [where]);
  useRefresh(concerns, () => load(), pause);
  if (where === null) return { value: null, error: "", old: false };
  if (state.where === where) return { value: state.value, error: state.error, old: false };
  const kept = cache.get(where) as T | undefined;
  return { value: kept ?? state.value, error: "", old: kept === undefined };
}

/** Whether a change concerns one of these runs in one of these ways. */
export function touches(change: Change, ids: ReadonlySet<number> | null, ...ways: string[]): boolean {
  return change.runs.some((run) => (ids === null || ids.has(run.id)) && run.changed.some((way) => ways.includes(way)));
}
