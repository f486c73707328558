// Findings of runs: when they began, the window drawn on the curve, what they mean and what to do.

import "../style/evidence.css";
import { useMemo } from "preact/hooks";
import { styleAt } from "../chart/palette";
import { useAnswer, watching } from "../data/answer";
import { address, report } from "../data/request";
import type { FindingsAnswer } from "../data/answers";
import type { Finding } from "../data/answers";
import { href, numbers, value } from "../state/place";
import { learn, named, t, theme } from "../state/settings";
import { findingsWords } from "../words/findings";
import { count, number } from "../words/numbers";
import { tells, withMinus } from "../words/sentences";
import { CurveGrid } from "../part/curve_grid";
import { Empty, Failure } from "../part/empty";
import { SeverityMark, SEVERITIES } from "../part/state";
import { Name, Seen } from "../part/text";
import { Healthy } from "./run_findings";

learn(findingsWords);

const NO_AXES = { epoch: null, tokens: null };

function question(): string {
  if (report) return address("/api/findings", { runs: report.runs });
  return address("/api/findings", { project: value("project"), runs: numbers(value("runs")) });
}

/** The numbers that the sentence does not say already. */
function Evidence({ finding }: { finding: Finding }) {
  const others = Object.entries(finding.evidence).filter(([, one]) => !tells(finding.text, one));
  if (!others.length) return null;
  return (
    <dl class="evidence">
      {others.map(([name, one]) => (
        <div key={name}>
          <dt class="quiet"><Name text={named("evidence", name).replaceAll("_", " ")} /></dt>
          <dd class="number">{number(one)}</dd>
        </div>
      ))}
    </dl>
  );
}

function FindingCard({ finding, run, name }: { finding: Finding; run: number; name: string }) {
  const runs = useMemo(() => [{ id: run, name, style: styleAt(0, theme.value) }], [run, name, theme.value]);
  const extras = useMemo(() => ({ markers: [], windows: [{ from: finding.onset, to: finding.noticed, severity: finding.severity }] }), [finding]);
  return (
    <article class={`finding-card ${value("kind") === finding.kind ? "at" : ""}`} data-kind={finding.kind}>
      <div class="told">
        <h3>
          <SeverityMark severity={finding.severity} /> {finding.kind.replaceAll("_", " ")} <span class="quiet">{named("severity", finding.severity)}</span>
        </h3>
        <p class="number quiet">{t("findings.window", { onset: count(finding.onset), noticed: count(finding.noticed) })}</p>
        <p><Seen text={withMinus(finding.text)} /></p>
        <h4>{t("findings.meaning")}</h4>
        <p><Seen text={finding.meaning} /></p>
        <h4>{t("findings.advice")}</h4>
        <p><Seen text={finding.advice} /></p>
        {finding.confirm && (
          <>
            <h4>{t("findings.confirm")}</h4>
            <p><Seen text={finding.confirm} /></p>
          </>
        )}
      </div>
      <div class="shown">
        {finding.metrics.length > 0 && <CurveGrid runs={runs} keys={finding.metrics} axes={NO_AXES} focus={null} extrasOf={() => extras} bare />}
        <Evidence finding={finding} />
      </div>
    </article>
  );
}

function RunSection({ row }: { row: FindingsAnswer["runs"][number] }) {
  const { diagnosis } = row;
  return (
    <section class="run-findings">
      <h2>
        <a href={href(`/run/${row.run}`)}><Name text={row.name} /></a>
        {diagnosis.algorithm && <span class="quiet"> {t("findings.as", { what: named("algorithm", diagnosis.algorithm) })}</span>}
      </h2>
      {diagnosis.findings.length ? diagnosis.findings.map((finding) => <FindingCard key={`${finding.kind}${finding.onset}`} finding={finding} run={row.run} name={row.name} />) : <Healthy diagnosis={diagnosis} />}
    </section>
  );
}

/** How grave the findings of a run are together: one that asks to stop before any number of warnings. */
function weight({ diagnosis: { counts } }: FindingsAnswer["runs"][number]): number {
  return counts ? 1e6 * counts.stop + 1e3 * counts.warn + counts.note : 0;
}

/** How many findings there are of each gravity, in how many runs, and how many runs have none. */
function Summary({ rows }: { rows: readonly FindingsAnswer["runs"][number][] }) {
  const ready = rows.filter((row) => row.diagnosis.status === "ready");
  const ill = ready.filter(weight).length;
  const counts = { stop: 0, warn: 0, note: 0 };
  for (const { diagnosis } of ready) for (const one of diagnosis.findings) counts[one.severity] += 1;
  const total = counts.stop + counts.warn + counts.note;
  return (
    <p class="summary">
      <b>{total ? t("findings.all", { n: count(total) }) : t("findings.none")}</b>
      {total > 0 && <> {SEVERITIES.filter((one) => counts[one]).map((one) => <span class="told" key={one}><SeverityMark severity={one} /> {t(`findings.count.${one}`, { n: count(counts[one]) })} </span>)} {rows.length > 1 && t("findings.in", { n: ill })}</>}
      <span class="quiet">
        {ready.length > ill && rows.length > 1 && ` · ${t("findings.healthy", { n: count(ready.length - ill) })}`}
        {rows.length > ready.length && ` · ${t("findings.unseen", { n: count(rows.length - ready.length) })}`}
      </span>
    </p>
  );
}

/** The page of findings; the gravest run first. */
export function FindingsPage() {
  const { value: answer, error } = useAnswer<FindingsAnswer>(question(), watching(null, ["findings", "new"]));
  if (!answer) return error ? <Failure text={error} /> : <Empty what="loading" />;
  if (!answer.runs.length) return <Empty what="runs" />;
  const rows = [...answer.runs].sort((a, b) => weight(b) - weight(a));
  return (
    <main class="findings">
      {error && <Failure text={error} />}
      <Summary rows={rows} />
      {rows.map((row) => (
        <RunSection key={row.run} row={row} />
      ))}
      <details class="detectors">
        <summary>{t("findings.detectors", { n: answer.detectors.length })}</summary>
        <dl class="pairs">
          {answer.detectors.map((one) => (
            <div key={one.kind}>
              <dt>{one.kind.replaceAll("_", " ")}</dt>
              <dd>{one.summary}</dd>
            </div>
          ))}
        </dl>
      </details>
    </main>
  );
}
