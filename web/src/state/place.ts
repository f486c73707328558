// Where the reader is: the page and all of its state stand in the URL; in the path live, in the hash in a report.

import { signal } from "@preact/signals";
import { report } from "../data/request";

export interface Place {
  /** Path in parts: `/run/3` is ["run", "3"], the project page []. */
  path: string[];
  values: Record<string, string>;
}

/** A place as a URL within the page. */
export function spellPlace(path: string, values: Record<string, string | null | undefined>): string {
  const parts = Object.entries(values)
    .filter((pair): pair is [string, string] => pair[1] !== null && pair[1] !== undefined && pair[1] !== "")
    .map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value).replaceAll("%2C", ",").replaceAll("%20", "+")}`);
  return parts.length ? `${path}?${parts.join("&")}` : path;
}

/** The place that a URL within the page names. */
export function readPlace(url: string): Place {
  const [path = "", query = ""] = url.split("?", 2);
  const values: Record<string, string> = {};
  for (const [name, value] of new URLSearchParams(query)) values[name] = value;
  const parts = path.split("/").filter(Boolean);
  return { path: parts.map((part) => safeDecode(part)), values };
}

function safeDecode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function current(): string {
  if (report) return location.hash.slice(1) || report.start;
  return location.pathname + location.search;
}

export const place = signal<Place>(readPlace(current()));
const arrive = () => (place.value = readPlace(current()));
window.addEventListener(report ? "hashchange" : "popstate", arrive);

/** The href of a place: what a link holds, so that it may be opened in another tab. */
export function href(path: string, values: Record<string, string | null | undefined> = {}): string {
  return (report ? "#" : "") + spellPlace(path, values);
}

/** Goes to another place; the old one stays in the history. */
export function go(path: string, values: Record<string, string | null | undefined> = {}): void {
  history.pushState(null, "", href(path, values));
  arrive();
  window.scrollTo(0, 0);
}

/** Changes some of the state of the page one is on, without a new entry in the history. */
export function put(values: Record<string, string | null>): void {
  const now = place.value;
  history.replaceState(null, "", href(`/${now.path.map(encodeURIComponent).join("/")}`, { ...now.values, ...values }));
  arrive();
}

/** A value of the page's state. */
export function value(name: string, otherwise = ""): string {
  return place.value.values[name] ?? otherwise;
}

/** Numbers with commas between them, as `runs=3,4`. */
export function numbers(text: string): number[] {
  return text.split(",").filter((part) => /^\d{1,15}$/.test(part)).map(Number);
}

/** Follows a click on a link of ours without loading the page anew. */
export function followLinks(event: MouseEvent): void {
  if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
  const link = (event.target as Element).closest("a[href]");
  const where = link?.getAttribute("href") ?? "";
  if (report || !where.startsWith("/") || where.startsWith("/api") || where.startsWith("/login")) return;
  event.preventDefault();
  const { path, values } = readPlace(where);
  go(`/${path.map(encodeURIComponent).join("/")}`, values);
}
