// Marks of what stands at a step: one shape each, on the charts and in their legend.

import type { Marker } from "../data/answers";
import { t } from "../state/settings";

export type MarkKind = Marker["kind"];

interface Mark {
  /** In pixels, from the step's place on the edge. */
  path: string;
  edge: "top" | "bottom" | "both";
  filled: boolean;
}

export const MARKS: Record<MarkKind, Mark> = {
  evaluation: { path: "M-.5-5h1v5h-1z", edge: "bottom", filled: true },
  missing: { path: "M-2-5h4v4h-4z", edge: "bottom", filled: false },
  checkpoint: { path: "M-3.5 1h7L0 7z", edge: "top", filled: false },
  best: { path: "M0 0l3.5 4L0 8l-3.5-4z", edge: "top", filled: true },
  promoted: { path: "M0 0l4 5H1.5v4h-3V5H-4z", edge: "top", filled: true },
  resume: { path: "M0 0v4M0 7v4", edge: "both", filled: false },
};
/** All kinds, in the order in which they stand below each other. */
export const KINDS = Object.keys(MARKS) as MarkKind[];
/** Height that a mark at the top takes, where several stand above each other. */
export const MARK_HEIGHT = 10;

/** A mark as it is drawn. */
export function Sign({ kind }: { kind: MarkKind }) {
  const { path, edge, filled } = MARKS[kind];
  return (
    <svg class={`mark ${filled ? "filled" : ""}`} width="10" height="11" viewBox={edge === "bottom" ? "-5 -8 10 11" : "-5 -1 10 11"} aria-hidden="true">
      <path d={path} />
    </svg>
  );
}

/** What the marks of these kinds mean. */
export function MarkLegend({ kinds, findings = false }: { kinds: ReadonlySet<MarkKind>; findings?: boolean }) {
  return (
    <span class="signs quiet">
      {KINDS.filter((kind) => kinds.has(kind)).map((kind) => (
        <span key={kind}>
          <Sign kind={kind} /> {t(`marker.${kind}`)}
        </span>
      ))}
      {findings && (
        <span>
          <i class="window" aria-hidden="true" /> {t("marker.finding")}
        </span>
      )}
    </span>
  );
}
