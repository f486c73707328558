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
}

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

/** The data of a report file; null where a server answers. */
export const report = readReport();

function spell(value: Parameters[string]): string {
  if (value === null || value === undefined) return "";
  if (Array.isArray(value)) return value.map((one) => encodeURIComponent(one)).join(",");
  return encodeURIComponent(String(value));
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
  if (report) {
    if (where in report.answers) return report.answers[where] as T;
    throw new Refusal(404, "not in this report");
  }
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
