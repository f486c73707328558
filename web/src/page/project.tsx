// The project page: runs as a table, and below it their curves.

import { useMemo, useState } from "preact/hooks";
import { MOST_MARKED, MOST_STYLES, stylesOf } from "../chart/palette";
import { useAnswer, type Watch } from "../data/answer";
import { address, report } from "../data/request";
import type { RunsAnswer } from "../data/answers";
import type { Run } from "../data/answers";
import { useLiveRuns } from "../data/live_runs";
import { go, href, numbers, put, value } from "../state/place";
import { useKeys } from "../state/keys";
import { learn, named, t, theme } from "../state/settings";
import { projectWords } from "../words/project";
import { count, plain } from "../words/numbers";
import { Choices } from "../part/choices";
import { CurveGrid } from "../part/curve_grid";
import { Empty, Failure } from "../part/empty";
import { Name } from "../part/text";
import { RunsTable } from "./runs_table";

learn(projectWords);

const MOST_ROWS = 1000;
/** Rows say by themselves how far their runs are; the table is asked for anew when there is more to say. */
const TABLE_WATCH: Watch = { runs: null, pauses: { evaluations: 1500, state: 1500, findings: 1500, tags: 1500, new: 300, points: 15_000 } };
const MOST_COMPARED = 20;
const MOST_SAME = 5;
const STATES = ["running", "finished", "failed", "interrupted", "lost"] as const;

function question(): string {
  if (report) return address("/api/runs", { runs: report.runs });
  return address("/api/runs", {
    project: value("project"),
    search: value("q"),
    state: value("state"),
    tag: value("tag"),
    sort: value("sort"),
    order: value("order"),
    limit: value("rows"),
  });
}

function Search() {
  return (
    <>
      <input
        data-search
        type="search"
        placeholder={`${t("project.search")}  ( / )`}
        aria-label={t("project.search")}
        value={value("q")}
        onInput={(event) => put({ q: event.currentTarget.value || null })}
      />
      <Choices label={t("run.state")} name="state" now={value("state")} options={[["", t("project.all")], ...STATES.map((state) => [state, named("state", state)] as const)]} />
      {value("tag") && (
        <button type="button" class="zoomed" onClick={() => put({ tag: null })}>
          {value("tag")} ✕
        </button>
      )}
    </>
  );
}

/** How many runs there are, how many rows and how many lines of them. */
function Counted({ answer, numDrawn }: { answer: RunsAnswer; numDrawn: number }) {
  const { runs, total } = answer;
  const words =
    runs.length < total ? t("project.some", { n: count(runs.length), total: count(total) }) : t(total === 1 ? "project.one" : "project.count", { n: count(total) });
  return (
    <>
      <span class="quiet number">
        {words}
        {numDrawn < total && `, ${t("project.drawn", { n: count(numDrawn) })}`}
      </span>
      {runs.length < Math.min(total, MOST_ROWS) && !report && (
        <button type="button" class="link" onClick={() => put({ rows: String(MOST_ROWS) })}>
          {t("project.more", { n: count(Math.min(total, MOST_ROWS)) })}
        </button>
      )}
    </>
  );
}

function Filters({ answer, drawn }: { answer: RunsAnswer; drawn: readonly number[] }) {
  const comparable = drawn.length >= 2 && drawn.length <= MOST_COMPARED;
  return (
    <div class="filters">
      {!report && <Search />}
      <Counted answer={answer} numDrawn={drawn.length} />
      {comparable && (
        <a class="button" href={href("/compare", { runs: [...drawn].sort((a, b) => a - b).join(",") })}>
          {t("project.compare", { n: drawn.length })}
        </a>
      )}
    </div>
  );
}

/** What the configurations of all runs have in common: a column of it would have one value. */
function Same({ answer }: { answer: RunsAnswer }) {
  const pairs = Object.entries(answer.columns.same);
  if (!pairs.length) return null;
  return (
    <p class="note same">
      {t("project.same", { n: count(answer.total) })}
      {pairs.slice(0, MOST_SAME).map(([key, one]) => (
        <span key={key}>
          <Name text={key} most={24} /> <b class="number"><Name text={plain(one)} most={32} /></b>
        </span>
      ))}
      {pairs.length > MOST_SAME && t("project.same.more", { n: pairs.length - MOST_SAME })}
    </p>
  );
}

function useToggles(): [ReadonlySet<number>, (run: number) => void] {
  const text = value("hide");
  const hidden = useMemo(() => new Set(numbers(text)), [text]);
  const toggle = (run: number) => {
    const next = new Set(hidden);
    if (!next.delete(run)) next.add(run);
    put({ hide: [...next].sort((a, b) => a - b).join(",") || null });
  };
  return [hidden, toggle];
}

function useRowKeys(runs: readonly Run[], at: number | null, toggle: (run: number) => void): void {
  const place = runs.findIndex((run) => run.id === at);
  const move = (by: number) => {
    const next = runs[Math.min(Math.max(place + by, 0), runs.length - 1)];
    if (next) put({ at: String(next.id) });
  };
  useKeys({
    j: () => move(1),
    k: () => move(-1),
    x: at === null ? undefined : () => toggle(at),
    Enter: at === null ? undefined : () => go(`/run/${at}`),
  });
}

function Loaded({ given }: { given: RunsAnswer }) {
  const runs = useLiveRuns(given.runs);
  const [hidden, toggle] = useToggles();
  const [hovered, setHovered] = useState<number | null>(null);
  const at = numbers(value("at"))[0] ?? null;
  useRowKeys(runs, at, toggle);
  const { ids } = given;
  const order = ids.join(",");
  const styles = useMemo(() => stylesOf(ids, theme.value), [order, theme.value]);
  const lines = useMemo(() => {
    const names = new Map(runs.map((run) => [run.id, run.name]));
    return ids.filter((id) => !hidden.has(id)).map((id) => ({ id, name: names.get(id) ?? `#${id}`, style: styles.get(id)! }));
  }, [order, hidden, styles]);
  const keys = useMemo(() => given.columns.series.map((one) => one.key), [given]);
  if (!given.total) return <Empty what={value("q") || value("state") || value("tag") ? "match" : "runs"} />;
  const focus = hovered ?? (at !== null && !hidden.has(at) ? at : null);
  const cut = lines.length < given.total ? t("chart.runs", { n: count(lines.length), total: count(given.total) }) : "";
  const legend = ids.length > MOST_STYLES ? t("chart.grey", { n: MOST_MARKED }) : "";
  return (
    <>
      <RunsTable columns={given.columns} runs={runs} styles={styles} hidden={hidden} at={at} onToggle={toggle} onFocus={setHovered} />
      <Same answer={given} />
      <CurveGrid runs={lines} keys={keys} axes={given.columns.axes} focus={focus} cut={cut} legend={legend} />
    </>
  );
}

/** The project page. */
export function ProjectPage() {
  const { value: answer, error } = useAnswer<RunsAnswer>(question(), TABLE_WATCH);
  const [hidden] = useToggles();
  if (!answer) return error ? <Failure text={error} /> : <Empty what="loading" />;
  return (
    <main class="project">
      <Filters answer={answer} drawn={answer.ids.filter((id) => !hidden.has(id))} />
      {error && <Failure text={error} />}
      <Loaded given={answer} />
    </main>
  );
}
