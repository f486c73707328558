// The table of runs: the legend of what is drawn below it.

import "../style/runs.css";
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Style } from "../chart/palette";
import type { RunsAnswer, TaskColumn } from "../data/answers";
import type { Run } from "../data/answers";
import { report } from "../data/request";
import { href, put, value } from "../state/place";
import { t } from "../state/settings";
import { oneLine } from "../words/hostile";
import { count, duration, percent, plain } from "../words/numbers";
import { Direction, FindingCounts, StateMark } from "../part/state";
import { Sparkline } from "../part/sparkline";
import { Swatch } from "../part/swatch";
import { Name } from "../part/text";
import { Value } from "../part/value";

const ROW = 29;
const SPARE = 10;
const MOST_CONFIG = 4;
const MOST_TASKS = 4;

export interface RunsTableProps {
  runs: readonly Run[];
  columns: RunsAnswer["columns"];
  styles: Map<number, Style>;
  hidden: ReadonlySet<number>;
  at: number | null;
  onToggle: (run: number) => void;
  onFocus: (run: number | null) => void;
}

interface Column {
  id: string;
  title: ComponentChildren;
  /** Name by which the server sorts; empty where it cannot. */
  sort: string;
  number?: boolean;
  cell: (run: Run) => ComponentChildren;
}

function latestOf(run: Run, column: TaskColumn) {
  return run.latest.find((one) => one.task === column.task && one.label === column.label && one.metric === column.metric)?.estimate ?? null;
}

/** How far a run is, of how many steps. */
function Steps({ run }: { run: Run }) {
  return (
    <>
      {count(run.last_step)}
      {run.planned_steps !== null && <span class="quiet"> / {count(run.planned_steps)}</span>}
    </>
  );
}

function Time({ run }: { run: Run }) {
  return (
    <>
      {duration(run.seconds)}
      {run.state === "running" && run.seconds_left !== null && <span class="quiet"> · {t("run.left", { time: duration(run.seconds_left) })}</span>}
    </>
  );
}

/** What the small curves are of, where all are of the same. */
function sparkTitle(runs: readonly Run[]): ComponentChildren {
  const [key, ...others] = new Set(runs.flatMap((run) => run.spark?.key ?? []));
  if (key === undefined || others.length) return t("run.spark");
  return (
    <>
      {t("run.spark.of")} <Name text={key} most={20} />
    </>
  );
}

function columnsOf(runs: readonly Run[], columns: RunsAnswer["columns"], styles: Map<number, Style>): Column[] {
  const tasks = columns.tasks.slice(0, MOST_TASKS).map(
    (task): Column => ({
      id: `task.${task.task}.${task.label}.${task.metric}`,
      title: (
        <>
          <Name text={task.task} most={22} /> <span class="quiet"><Name text={task.metric} most={18} /></span> <Direction higherIsBetter={task.higher_is_better} />
        </>
      ),
      sort: `task.${task.task}`,
      cell: (run) => <Value estimate={latestOf(run, task)} />,
    }),
  );
  const config = columns.config.slice(0, MOST_CONFIG).map(
    (key): Column => ({ id: `config.${key}`, title: <Name text={key} most={18} />, sort: `config.${key}`, number: true, cell: (run) => <Name text={plain(run.config[key])} most={20} /> }),
  );
  return [
    { id: "state", title: t("run.state"), sort: "state", cell: (run) => <StateMark state={run.state} early={run.ended_early} /> },
    { id: "step", title: t("run.step"), sort: "last_step", number: true, cell: (run) => <Steps run={run} /> },
    { id: "spark", title: sparkTitle(runs), sort: "", cell: (run) => run.spark && <Sparkline values={run.spark.values} colour={styles.get(run.id)?.colour ?? "gray"} title={run.spark.key} /> },
    ...tasks,
    { id: "findings", title: t("run.findings"), sort: "", cell: (run) => <a class="bare" href={href("/findings", { runs: String(run.id) })}>{run.num_series ? <FindingCounts counts={run.findings} /> : "–"}</a> },
    { id: "cost", title: t("run.cost"), sort: "train_share", number: true, cell: (run) => percent(run.train_share) },
    { id: "time", title: t("run.time"), sort: "seconds", number: true, cell: (run) => <Time run={run} /> },
    ...config,
    { id: "tags", title: t("run.tags"), sort: "", cell: (run) => run.tags.map((tag) => <a class="tag" key={tag} href={href("/", { tag })}><Name text={tag} most={20} /></a>) },
  ];
}

function Heading({ column }: { column: Column }) {
  const [sort, order] = [value("sort", "created"), value("order", "desc")];
  const active = column.sort !== "" && column.sort === sort;
  const turn = () => put({ sort: column.sort, order: active && order === "desc" ? "asc" : null });
  return (
    <th class={column.number ? "number" : ""} aria-sort={active ? (order === "asc" ? "ascending" : "descending") : undefined}>
      {column.sort && !report ? (
        <button type="button" onClick={turn}>
          {column.title}
          <i aria-hidden="true">{active ? (order === "asc" ? "↑" : "↓") : ""}</i>
        </button>
      ) : (
        column.title
      )}
    </th>
  );
}

/** Which rows of a scrolled box are in sight. */
function useWindow(total: number, at: number) {
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(400);
  useEffect(() => {
    const host = box.current!;
    const observer = new ResizeObserver(() => setHeight(host.clientHeight));
    observer.observe(host);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    const host = box.current!;
    if (at < 0) return;
    if (at * ROW < host.scrollTop) host.scrollTop = at * ROW;
    else if ((at + 2) * ROW > host.scrollTop + host.clientHeight) host.scrollTop = (at + 2) * ROW - host.clientHeight;
  }, [at]);
  const first = Math.max(0, Math.floor(top / ROW) - SPARE);
  const last = Math.min(total, Math.ceil((top + height) / ROW) + SPARE);
  return { box, first, last, onScroll: () => setTop(box.current!.scrollTop) };
}

interface RowProps {
  run: Run;
  columns: readonly Column[];
  style: Style | undefined;
  hidden: boolean;
  at: boolean;
  onToggle: () => void;
  onFocus: (run: number | null) => void;
}

function Row({ run, columns, style, hidden, at, onToggle, onFocus }: RowProps) {
  return (
    <tr class={`${hidden ? "hidden" : ""} ${at ? "at" : ""}`} onMouseEnter={() => onFocus(run.id)} onMouseLeave={() => onFocus(null)} data-run={run.id}>
      <th scope="row">
        <button type="button" class="toggle" aria-pressed={!hidden} title={t("run.toggle")} onClick={onToggle}>
          {style && <Swatch style={style} />}
        </button>
        <a href={href(`/run/${run.id}`)}>
          <Name text={run.name} most={36} />
        </a>
        {run.damage && (
          <span class="warn" title={oneLine(run.damage, 400)}>
            {" "}
            {t("run.damaged")}
          </span>
        )}
      </th>
      {columns.map((column) => (
        <td key={column.id} class={column.number ? "number" : ""}>
          {column.cell(run)}
        </td>
      ))}
    </tr>
  );
}

/** All runs that match. */
export function RunsTable({ runs, columns: known, styles, hidden, at, onToggle, onFocus }: RunsTableProps) {
  const columns = columnsOf(runs, known, styles);
  const { box, first, last, onScroll } = useWindow(runs.length, runs.findIndex((run) => run.id === at));
  return (
    <div class="runs" ref={box} onScroll={onScroll}>
      <table>
        <thead>
          <tr>
            <Heading column={{ id: "name", title: t("run.name"), sort: "name", cell: () => null }} />
            {columns.map((column) => (
              <Heading key={column.id} column={column} />
            ))}
          </tr>
        </thead>
        <tbody>
          {first > 0 && <tr style={{ height: `${first * ROW}px` }} />}
          {runs.slice(first, last).map((run) => (
            <Row
              key={run.id}
              run={run}
              columns={columns}
              style={styles.get(run.id)}
              hidden={hidden.has(run.id)}
              at={run.id === at}
              onToggle={() => onToggle(run.id)}
              onFocus={onFocus}
            />
          ))}
          {last < runs.length && <tr style={{ height: `${(runs.length - last) * ROW}px` }} />}
        </tbody>
      </table>
    </div>
  );
}
