// Runs held against each other: paired differences by task and slice, curves, groups over seeds, configuration, scaling.

import "../style/evidence.css";
import { useMemo } from "preact/hooks";
import { stylesOf } from "../chart/palette";
import { useAnswer, watching } from "../data/answer";
import { address, report } from "../data/request";
import { useRunsList } from "../data/runs_list";
import type { CompareAnswer } from "../data/answers";
import { href, numbers, put, value } from "../state/place";
import { learn, t, theme } from "../state/settings";
import { compareWords } from "../words/compare";
import { plain } from "../words/numbers";
import { Choose, metricOptions } from "../part/choose";
import { Empty, Failure } from "../part/empty";
import { Swatch } from "../part/swatch";
import { Name, Seen } from "../part/text";
import { CompareCurves } from "./compare_curves";
import { Forest } from "./forest";
import { Groups } from "./groups";
import { Scaling } from "./scaling";

learn(compareWords);

const STEPS = ["last", "best", "first"] as const;

/** The runs of the page, the one that the others are held against first. */
function chosen(): number[] {
  if (report) return report.runs;
  const runs = numbers(value("runs"));
  const baseline = Number(value("baseline"));
  return runs.includes(baseline) ? [baseline, ...runs.filter((run) => run !== baseline)] : runs;
}

function question(runs: readonly number[]): string | null {
  const [baseline, ...candidates] = runs;
  if (baseline === undefined || !candidates.length) return null;
  if (report) return address("/api/compare", { baseline, candidates });
  const at = value("step");
  const side = (run: number) => (at ? `${run}@${at}` : String(run));
  return address("/api/compare", {
    baseline: side(baseline),
    candidates: candidates.map(side),
    task: value("task"),
    metric: value("metric"),
    slices: value("slices"),
    common: value("common"),
  });
}

/** Adds a run to those of the page, or takes one away. */
function Chooser({ runs }: { runs: readonly number[] }) {
  const list = useRunsList();
  const styles = stylesOf(runs, theme.value);
  const drop = (run: number) => put({ runs: runs.filter((one) => one !== run).join(",") || null });
  const nameOf = (run: number) => list?.runs.find((one) => one.id === run)?.name ?? `#${run}`;
  return (
    <div class="chooser">
      {runs.map((run, place) => (
        <span class={`chosen ${place ? "" : "baseline"}`} key={run}>
          <Swatch style={styles.get(run)!} />
          <a href={href(`/run/${run}`)}><Name text={nameOf(run)} most={30} /></a>
          {place === 0 ? (
            <span class="quiet">{t("compare.baseline")}</span>
          ) : !report && (
            <button type="button" class="link" onClick={() => put({ baseline: String(run) })}>
              {t("compare.makebaseline")}
            </button>
          )}
          {!report && <button type="button" aria-label={t("compare.drop")} onClick={() => drop(run)}>✕</button>}
        </span>
      ))}
      {!report && (
        <select value="" aria-label={t("compare.add")} onChange={(event) => put({ runs: [...runs, Number(event.currentTarget.value)].join(",") })}>
          <option value="">+ {t("compare.add")}</option>
          {list?.runs.filter((one) => !runs.includes(one.id)).map((one) => (
            <option key={one.id} value={one.id}>{one.name.slice(0, 60)} (#{one.id})</option>
          ))}
        </select>
      )}
    </div>
  );
}

function Toggle({ name, text }: { name: string; text: string }) {
  return (
    <label>
      <input type="checkbox" checked={value(name) === "1"} onChange={(event) => put({ [name]: event.currentTarget.checked ? "1" : null })} /> {text}
    </label>
  );
}

function Options({ answer }: { answer: CompareAnswer }) {
  const tasks = [...new Set(answer.differences.map((one) => one.task))];
  return (
    <div class="filters">
      <Choose label={t("compare.checkpoint")} name="step" now={value("step", "last")} options={STEPS.map((step) => [step, t(`compare.${step}`)])} />
      {(tasks.length > 1 || value("task")) && <Choose label={t("items.task")} name="task" now={value("task")} options={[["", t("project.all")], ...tasks.map((task) => [task, task] as const)]} />}
      <Choose label={t("compare.metric")} name="metric" now={value("metric")} options={metricOptions(answer.metrics)} />
      <Toggle name="slices" text={t("compare.slices")} />
      <Toggle name="common" text={t("compare.common")} />
    </div>
  );
}

function Config({ answer }: { answer: CompareAnswer }) {
  const all = value("config") === "all";
  const { keys, runs } = answer.config;
  const rows = all ? keys : keys.filter((one) => one.differs);
  const names = new Map([answer.baseline, ...answer.candidates].map((side) => [side.run, side.name]));
  if (!keys.length) return null;
  return (
    <section>
      <h2>
        {t("compare.config")}{" "}
        <button type="button" class="link" onClick={() => put({ config: all ? null : "all" })}>
          {all ? t("compare.config.differing") : t("compare.config.all", { n: keys.length })}
        </button>
      </h2>
      {rows.length ? (
        <div class="scroll">
          <table class="sheet">
            <thead>
              <tr>
                <th />
                {runs.map((run) => (
                  <th key={run} class="number"><Name text={names.get(run) ?? `#${run}`} most={24} /></th>
                ))}
              </tr>
            </thead>
            <tbody>
              {rows.map((row) => (
                <tr key={row.key}>
                  <th scope="row"><Name text={row.key} most={40} /></th>
                  {row.values.map((one, i) => (
                    <td key={runs[i]} class={`number ${row.differs ? "differs" : ""}`}><Name text={plain(one)} most={40} /></td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      ) : (
        <p class="quiet">{t("compare.config.same", { n: keys.length })}</p>
      )}
    </section>
  );
}

function Refused({ answer }: { answer: CompareAnswer }) {
  const names = new Map(answer.candidates.map((side) => [side.label, side.name.slice(0, 60)]));
  const messages = [...new Set(answer.refused.map((one) => one.message))];
  const refusedWith = (message: string) => answer.refused.filter((one) => one.message === message).map((one) => names.get(one.candidate) ?? one.candidate);
  return (
    <>
      {messages.map((message) => (
        <p class="error" key={message}>
          {t("compare.refused", { run: refusedWith(message).join(", ") })} <Seen text={message} />
        </p>
      ))}
      {answer.left_out.map((text) => (
        <p class="note" key={text}>
          {t("compare.leftout")} <Seen text={text} />
        </p>
      ))}
    </>
  );
}

/** The page of comparisons. */
export function ComparePage() {
  const runs = chosen();
  const id = runs.join(",");
  const where = question(runs);
  const { value: answer, error } = useAnswer<CompareAnswer>(where, watching(new Set(runs), ["evaluations"]));
  const styles = useMemo(() => stylesOf(runs, theme.value), [id, theme.value]);
  return (
    <main class="compare">
      <Chooser runs={runs} />
      {!where && <Empty what="compare" />}
      {error && <Failure text={error} />}
      {where && answer && (
        <>
          {!report && <Options answer={answer} />}
          <Forest answer={answer} />
          <Refused answer={answer} />
          <CompareCurves answer={answer} styles={styles} />
          <Config answer={answer} />
        </>
      )}
      {where && !answer && !error && <Empty what="loading" />}
      {!report && <Groups alone={!where} />}
      {!report && runs.length > 1 && <Scaling runs={runs} />}
    </main>
  );
}
