// Asks the server, or, in a report file, what is written in the file itself.

type One = string | number | boolean | null | undefined;
export type Parameters = Record<string, One | readonly (string | number)[]>;

export interface Report {
  version: string;
  made_at: number;
  title: string;
  runs: number[];
  start: string;
  answers: Record<string, unknown>;
  /** More answers: base64 of the gzip of a JSON object. */
  packed?: string;
  /** What was asked for and is not in the file. */
  left_out?: string[];
}

export const NOT_IN_REPORT = "not in this report";

/** What the server or the page has against a request. */
export class Refusal extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

function readReport(): Report | null {
  const text = document.getElementById("midflight-report")?.textContent ?? "null";
  return JSON.parse(text) as Report | null;
}

/** The data of a report file; null where a server answers, whose page is built without what only reports need. */
export const report: Report | null = import.meta.env.MODE === "production" ? null : readReport();

function spell(value: Parameters[string]): string {
  if (value === null || value === undefined) return "";
  if (Array.isArray(value)) return value.map((one) => encodeURIComponent(one)).join(",");
  return encodeURIComponent(String(value));
}

let unpacked: Promise<Record<string, unknown>> | null = null;

/** The answers that a report holds packed. */
function unpack(packed: string): Promise<Record<string, unknown>> {
  const bytes = Uint8Array.from(atob(packed), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json() as Promise<Record<string, unknown>>;
}

async function lookUp(where: string, { answers, packed }: Report): Promise<unknown> {
  if (where in answers) return answers[where];
  if (packed && where.startsWith("/api/item?")) {
    const items = await (unpacked ??= unpack(packed));
    if (where in items) return items[where];
  }
  throw new Refusal(404, NOT_IN_REPORT);
}

/** The one spelling of a request: parameters by name, empty ones left out. */
export function address(path: string, parameters: Parameters = {}): string {
  const parts = Object.keys(parameters)
    .sort()
    .map((name) => [name, spell(parameters[name])] as const)
    .filter(([, text]) => text !== "")
    .map(([name, text]) => `${name}=${text}`);
  return parts.length ? `${path}?${parts.join("&")}` : path;
}

async function refusal(response: Response): Promise<Refusal> {
  const body = (await response.json().catch(() => null)) as { error?: { message?: string } } | null;
  return new Refusal(response.status, body?.error?.message ?? `${response.status} ${response.statusText}`);
}

/** The answer to a request. */
export async function ask<T>(where: string, signal?: AbortSignal): Promise<T> {
  if (report) return (await lookUp(where, report)) as T;
  const response = await fetch(where, { signal: signal ?? null, headers: { Accept: "application/json" } });
  if (response.status === 401) {
    location.href = `/login?next=${encodeURIComponent(location.pathname + location.search + location.hash)}`;
  }
  if (!response.ok) throw await refusal(response);
  return (await response.json()) as T;
}

/** Changes something on the server. */
export async function change<T>(where: string, body: unknown): Promise<T> {
  const response = await fetch(where, {
    method: "PATCH",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw await refusal(response);
  return (await response.json()) as T;
}
