// What is new in the store, as it comes: server-sent events, or polling where there are too many streams.

import { signal } from "@preact/signals";
import { ask, report } from "./request";
import type { Change } from "./answers";

export type Link = "off" | "connecting" | "live" | "polling" | "lost";

/** How the page hears of changes. */
export const link = signal<Link>(report ? "off" : "connecting");

type Listener = (change: Change) => void;
const listeners = new Set<Listener>();
const POLL_MILLISECONDS = 2000;
let since = "";
let begun = false;

/** Calls `listener` at every change until the function it returns is called. */
export function listen(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function tell(change: Change): void {
  since = change.since;
  for (const listener of [...listeners]) listener(change);
}

/** Begins to follow the store from the moment that `token` names; once. */
export function follow(token: string): void {
  if (begun || report) return;
  begun = true;
  since = token;
  stream();
}

function stream(): void {
  const source = new EventSource(`/api/events?since=${encodeURIComponent(since)}`);
  source.addEventListener("open", () => (link.value = "live"));
  source.addEventListener("change", (event) => tell(JSON.parse((event as MessageEvent<string>).data) as Change));
  source.addEventListener("error", () => {
    link.value = "lost";
    if (source.readyState === EventSource.CLOSED) void poll();
  });
}

async function poll(): Promise<void> {
  try {
    const change = await ask<Change>(`/api/changes?since=${encodeURIComponent(since)}`);
    link.value = "polling";
    if (change.reset || change.runs.length) tell(change);
    else since = change.since;
  } catch {
    link.value = "lost";
  }
  setTimeout(() => void poll(), POLL_MILLISECONDS);
}
