// A run's first screen: is it getting better, by how much, is it noise; which items changed; what is wrong.

import "../style/run.css";
import { useMemo } from "preact/hooks";
import { MarkLegend } from "../chart/marks";
import { styleAt } from "../chart/palette";
import { useAnswer, watching } from "../data/answer";
import { address, ask, report } from "../data/request";
import { useLiveRuns } from "../data/live_runs";
import type { Marker, RunAnswer, RunsAnswer } from "../data/answers";
import type { Run } from "../data/answers";
import { go, place, put, value } from "../state/place";
import { focusSearch, useKeys } from "../state/keys";
import { t, theme } from "../state/settings";
import { count, duration, moment, percent } from "../words/numbers";
import { CurveGrid } from "../part/curve_grid";
import { Empty, Failure } from "../part/empty";
import { StateMark } from "../part/state";
import { Tags } from "../part/tags";
import { Name } from "../part/text";
import { RunDetails } from "./run_details";
import { RunFindings } from "./run_findings";
import { TaskRow } from "./task_row";

/** Milliseconds after which a run that writes is asked whether it has begun new series. */
const NEW_SERIES_PAUSE = 10_000;

/** Goes to the run before or after this one, in the order of the project's table. */
async function goBeside(run: Run, by: number): Promise<void> {
  const where = report ? address("/api/runs", { runs: report.runs }) : address("/api/runs", { project: run.project, limit: 1000 });
  const { runs } = await ask<RunsAnswer>(where);
  const place = runs.findIndex((one) => one.id === run.id);
  const next = runs[place + by];
  if (place >= 0 && next) go(`/run/${next.id}`, { x: value("x"), log: value("log"), smooth: value("smooth") });
}

function Head({ answer }: { answer: RunAnswer }) {
  const run = useLiveRuns([answer.run])[0]!;
  const { cost } = answer;
  return (
    <header class="run-head">
      <h1>
        <Name text={run.name} most={80} />
      </h1>
      <span>
        <StateMark state={run.state} early={run.ended_early} />
        {run.stopped_by && <span class="quiet"> {t("run.stopped", { kind: run.stopped_by.replaceAll("_", " ") })}</span>}
      </span>
      <span>
        {t("run.at")} <b class="number" data-last-step>{count(run.last_step)}</b>
        {run.planned_steps !== null && <span class="quiet number"> {t("run.planned", { n: count(run.planned_steps) })}</span>}
      </span>
      <span class="number">{duration(run.seconds)}</span>
      {run.attempts > 1 && <span>{t("run.attempts", { n: run.attempts })}</span>}
      {run.num_evaluations > 0 && <span title={t("run.costs.title", { prompt: count(cost.prompt_tokens), output: count(cost.output_tokens) })}>
        {t("run.costs", { time: duration(cost.seconds), share: percent(cost.train_share) })}
      </span>}
      {run.lost_points > 0 && <span class="warn">{t("run.lost_points", { n: count(run.lost_points) })}</span>}
      <span class="quiet">{moment(run.created)}</span>
      <Tags run={run} />
      <span class="tools">
        {!report && <ReferenceChoice answer={answer} />}
        <span class="choice beside">
        <button type="button" title={`${t("run.previous")} (k)`} onClick={() => void goBeside(run, -1)}>
          ‹
        </button>
        <button type="button" title={`${t("run.next")} (j)`} onClick={() => void goBeside(run, 1)}>
          ›
        </button>
        </span>
      </span>
    </header>
  );
}

function ReferenceChoice({ answer }: { answer: RunAnswer }) {
  const known = answer.references.some((one) => one.id === answer.reference);
  const label = (id: string, text: string, step: number | null) =>
    ({ start: t("reference.start"), best: t("reference.best"), previous: t("reference.previous") })[id] ?? `${text}${step === null ? "" : ` @ ${step}`}`;
  return (
    <label class="reference">
      {t("run.against")}
      <select value={answer.reference} onChange={(event) => put({ reference: event.currentTarget.value === "start" ? null : event.currentTarget.value })}>
        {!known && <option value={answer.reference}>{answer.reference}</option>}
        {answer.references.map((one) => (
          <option key={one.id} value={one.id}>
            {label(one.id, one.label, one.step)}
          </option>
        ))}
      </select>
    </label>
  );
}

/** Markers that every chart of the run has. */
function useExtras(answer: RunAnswer) {
  return useMemo(() => {
    const markers: readonly Marker[] = answer.markers;
    const byKey = new Map<string, { from: number; to: number; severity: "stop" | "warn" | "note" }[]>();
    for (const finding of answer.diagnosis.findings) {
      for (const metric of finding.metrics) {
        const windows = byKey.get(metric) ?? [];
        windows.push({ from: finding.onset, to: finding.noticed, severity: finding.severity });
        byKey.set(metric, windows);
      }
    }
    const made = new Map<string, { markers: readonly Marker[]; windows: (typeof byKey extends Map<string, infer W> ? W : never) }>();
    return (key: string) => {
      if (!made.has(key)) made.set(key, { markers, windows: byKey.get(key) ?? [] });
      return made.get(key)!;
    };
  }, [answer.markers, answer.diagnosis]);
}

function Series({ answer }: { answer: RunAnswer }) {
  const { run } = answer;
  const runs = useMemo(() => [{ id: run.id, name: run.name, style: styleAt(0, theme.value) }], [run.id, run.name, theme.value]);
  const keys = useMemo(() => answer.series.map((one) => one.key), [answer.series.map((one) => one.key).join("\n")]);
  const extrasOf = useExtras(answer);
  if (!keys.length) return null;
  return (
    <section>
      <h2>
        {t("run.series")} <MarkLegend kinds={new Set(answer.markers.map((marker) => marker.kind))} findings={answer.diagnosis.findings.length > 0} />
      </h2>
      <CurveGrid runs={runs} keys={keys} axes={answer.axes} focus={null} extrasOf={extrasOf} />
    </section>
  );
}

function Unfinished({ answer }: { answer: RunAnswer }) {
  if (!answer.unfinished.length) return null;
  return (
    <p class="unfinished">
      {answer.unfinished.map((one) => (
        <span key={`${one.task}${one.step}`}>
          <Name text={one.task} /> @ {count(one.step)}: <progress max={one.num_items} value={one.num_answered} />{" "}
          <span class="number">
            {one.num_answered}/{one.num_items}
          </span>
        </span>
      ))}
    </p>
  );
}

function Loaded({ answer, error }: { answer: RunAnswer; error: string }) {
  useKeys({ j: () => void goBeside(answer.run, 1), k: () => void goBeside(answer.run, -1), "/": focusSearch });
  return (
    <main class="run">
      <Head answer={answer} />
      {error && <Failure text={error} />}
      <Unfinished answer={answer} />
      <RunFindings diagnosis={answer.diagnosis} run={answer.run.id} />
      <div class="answers">
        <div class="asked">
          <h2>{t("question.better")}</h2>
          {answer.tasks.length > 0 && <h2 class="changed">{t("question.items")}</h2>}
        </div>
        {answer.tasks.length ? answer.tasks.map((task) => <TaskRow key={`${task.task}/${task.label}`} task={task} run={answer.run} markers={answer.markers} />) : <Empty what="tasks" />}
      </div>
      <Series answer={answer} />
      <RunDetails answer={answer} />
    </main>
  );
}

/** The page of a run. */
export function RunPage() {
  const id = Number(place.value.path[1]);
  const where = address(`/api/runs/${id}`, report ? {} : { reference: value("reference"), metric: value("metric") });
  const ids = useMemo(() => new Set([id]), [id]);
  const { value: answer, error } = useAnswer<RunAnswer>(where, watching(ids, ["evaluations", "state", "findings", "tags"], { points: NEW_SERIES_PAUSE }));
  if (!answer) return error ? <Failure text={error} /> : <Empty what="loading" />;
  return <Loaded key={id} answer={answer} error={error} />;
}

