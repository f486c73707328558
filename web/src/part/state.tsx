// Words and signs for how a run is, how grave a finding is, how a comparison ended: a form and a word, never colour alone.

import type { Conclusion, Counts, RunState, Severity } from "../data/answers";
import { named, t } from "../state/settings";

/** From the gravest on. */
export const SEVERITIES: readonly Severity[] = ["stop", "warn", "note"];

/** The state of a run; `early` where it finished before the steps that were planned. */
export function StateMark({ state, early = false }: { state: RunState; early?: boolean }) {
  return (
    <span class={`state ${state} ${early ? "early" : ""}`}>
      <i aria-hidden="true" />
      {early ? t("state.early") : named("state", state)}
    </span>
  );
}

/** Whether more of a metric is better. */
export function Direction({ higherIsBetter }: { higherIsBetter: boolean | null }) {
  if (higherIsBetter === null) return null;
  return <span class="quiet" title={t(higherIsBetter ? "task.higher" : "task.lower")}>{higherIsBetter ? "↑" : "↓"}</span>;
}

/** A sign for the gravity of a finding. */
export function SeverityMark({ severity }: { severity: Severity }) {
  return (
    <span class={`severity ${severity}`} title={named("severity", severity)}>
      {severity === "stop" ? "■" : severity === "warn" ? "▲" : "●"}
    </span>
  );
}

/** How many findings of each gravity a run has. */
export function FindingCounts({ counts }: { counts: Counts | null }) {
  if (!counts) return <span class="quiet">…</span>;
  const some = SEVERITIES.filter((severity) => counts[severity]);
  if (!some.length) return <span class="quiet">{t("findings.none.short")}</span>;
  return (
    <span class="counts number">
      {some.map((severity) => (
        <span key={severity}>
          <SeverityMark severity={severity} />
          {counts[severity]}{" "}
        </span>
      ))}
    </span>
  );
}

/** What a comparison has found, in a word. */
export function Verdict({ finding }: { finding: Conclusion }) {
  return <span class={`verdict ${finding}`}>{named("verdict", finding)}</span>;
}
