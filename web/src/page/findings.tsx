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
import { CurveGrid } from "../part/curve_grid";
import { Empty, Failure } from "../part/empty";
import { SeverityMark } from "../part/state";
import { Name, Seen } from "../part/text";
import { Healthy } from "./run_findings";

learn(findingsWords);

const NO_AXES = { epoch: null, tokens: null };

function question(): string {
  if (report) return address("/api/findings", { runs: report.runs });
  return address("/api/findings", { project: value("project"), runs: numbers(value("runs")) });
}

function Evidence({ finding }: { finding: Finding }) {
  return (
    <dl class="evidence">
      {Object.entries(finding.evidence).map(([name, one]) => (
        <div key={name}>
          <dt class="quiet"><Name text={name.replaceAll("_", " ")} /></dt>
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
        <p><Seen text={finding.text} /></p>
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
        {diagnosis.algorithm && <span class="quiet"> {diagnosis.algorithm}</span>}
      </h2>
      {diagnosis.findings.length ? diagnosis.findings.map((finding) => <FindingCard key={`${finding.kind}${finding.onset}`} finding={finding} run={row.run} name={row.name} />) : <Healthy diagnosis={diagnosis} />}
    </section>
  );
}

/** The page of findings; runs with findings first. */
export function FindingsPage() {
  const { value: answer, error } = useAnswer<FindingsAnswer>(question(), watching(null, ["findings", "new"]));
  if (!answer) return error ? <Failure text={error} /> : <Empty what="loading" />;
  if (!answer.runs.length) return <Empty what="runs" />;
  const weight = (row: FindingsAnswer["runs"][number]) => row.diagnosis.findings.length;
  const rows = [...answer.runs].sort((a, b) => weight(b) - weight(a));
  const healthy = rows.filter((row) => row.diagnosis.status === "ready" && !weight(row)).length;
  return (
    <main class="findings">
      {error && <Failure text={error} />}
      <p class="quiet">{t("findings.summary", { runs: rows.length, healthy })}</p>
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
