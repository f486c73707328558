// Evaluations: what runs and what waits, who works, who is slow, and what all of it cost.

import "../style/evidence.css";
import type { ComponentChildren } from "preact";
import { useAnswer, watching } from "../data/answer";
import { address, report } from "../data/request";
import type { Evaluation, EvaluationsAnswer } from "../data/answers";
import { href, value } from "../state/place";
import { learn, named, t, type Word } from "../state/settings";
import { evaluationsWords } from "../words/evaluations";
import { count, duration, moment, NOTHING, number, percent, size, toNumber } from "../words/numbers";
import { Choices } from "../part/choices";
import { Empty, Failure } from "../part/empty";
import { Value } from "../part/value";
import { Pager } from "../part/pager";
import { Name, Seen } from "../part/text";

learn(evaluationsWords);

const STATUSES = ["running", "done", "partial", "failed", "cancelled"] as const;
const PAGE = 200;

function question(): string {
  if (report) return address("/api/evaluations", { runs: report.runs });
  return address("/api/evaluations", { project: value("project"), run: value("run"), status: value("status"), offset: value("offset") });
}

function Progress({ one }: { one: Evaluation }) {
  if (one.status === "done") return <span class="quiet number">{count(one.num_items)}</span>;
  return (
    <>
      <progress max={one.num_items || 1} value={one.num_answered} />{" "}
      <span class="number">
        {count(one.num_answered)}/{count(one.num_items)}
      </span>
    </>
  );
}

/** Whether several ranks or workers did it together. */
function isShared(one: Evaluation): boolean {
  return Object.keys(one.cost?.rank_seconds ?? {}).length > 1;
}

/** Seconds of each rank as bars; the slowest is named. */
function Ranks({ one }: { one: Evaluation }) {
  if (!isShared(one)) return null;
  const ranks = Object.entries(one.cost?.rank_seconds ?? {}).map(([rank, seconds]) => [rank, toNumber(seconds)] as const);
  const most = Math.max(...ranks.map(([, seconds]) => seconds), 1e-9);
  const title = ranks.map(([rank, seconds]) => `${rank}: ${duration(seconds)}`).join("\n");
  return (
    <span title={title}>
      <svg class="ranks" width={Math.min(ranks.length * 5, 120)} height="14" aria-hidden="true">
        {ranks.map(([rank, seconds], i) => (
          <rect key={rank} x={i * 5} width="4" y={14 - (seconds / most) * 14} height={(seconds / most) * 14} class={rank === one.cost?.straggler ? "slow" : ""} />
        ))}
      </svg>{" "}
      {one.cost?.straggler && (
        <span class="warn">
          {one.cost.straggler} {one.cost.lost_share !== null && t("evaluations.lost", { share: percent(one.cost.lost_share) })}
        </span>
      )}
    </span>
  );
}

interface Column {
  head: Word;
  numeric?: boolean;
  /** Whether an evaluation has something to show here; a column in which none has is left out. */
  has: (one: Evaluation) => boolean;
  cell: (one: Evaluation) => ComponentChildren;
}

const always = () => true;
const COLUMNS: readonly Column[] = [
  { head: "run.state", has: always, cell: (one) => <b class={`outcome ${one.status}`}>{named("status", one.status)}</b> },
  { head: "run.name", has: always, cell: (one) => <a href={href(`/run/${one.run}`)}><Name text={one.run_name} most={30} /></a> },
  { head: "items.task", has: always, cell: (one) => <a href={href("/items", { run: String(one.run), task: one.task })}><Name text={one.task} most={30} /></a> },
  { head: "run.step", numeric: true, has: always, cell: (one) => count(one.step) },
  { head: "compare.metric", has: (one) => one.estimate !== null, cell: (one) => one.estimate && <Name text={one.estimate.metric} most={30} /> },
  { head: "evaluations.value", has: (one) => one.estimate !== null, cell: (one) => <Value estimate={one.estimate} /> },
  { head: "evaluations.items", numeric: true, has: always, cell: (one) => <Progress one={one} /> },
  { head: "run.time", numeric: true, has: always, cell: (one) => duration(one.seconds) },
  { head: "evaluations.share", numeric: true, has: (one) => one.cost?.train_share != null, cell: (one) => percent(one.cost?.train_share) },
  { head: "evaluations.rate", numeric: true, has: (one) => one.cost?.tokens_per_second != null, cell: (one) => number(one.cost?.tokens_per_second, 3) },
  { head: "evaluations.memory", numeric: true, has: (one) => one.cost?.peak_memory_bytes != null, cell: (one) => size(one.cost?.peak_memory_bytes) },
  { head: "evaluations.ranks", has: isShared, cell: (one) => <Ranks one={one} /> },
  { head: "evaluations.begun", numeric: true, has: always, cell: (one) => <span class="quiet">{moment(one.started)}</span> },
  {
    head: "evaluations.errors",
    has: (one) => Object.keys(one.errors).length > 0,
    cell: (one) => Object.entries(one.errors).map(([text, times]) => <span key={text}><Seen text={text.slice(0, 120)} /> ×{times} </span>),
  },
];

function Table({ answer }: { answer: EvaluationsAnswer }) {
  const columns = COLUMNS.filter((column) => answer.evaluations.some(column.has));
  return (
    <div class="card scroll">
      <table class="sheet wide">
        <thead>
          <tr>
            {columns.map(({ head, numeric }) => (
              <th key={head} class={numeric ? "number" : ""}>{t(head)}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {answer.evaluations.map((one) => (
            <tr key={one.id}>
              {columns.map(({ head, numeric, cell }) => (
                <td key={head} class={numeric ? "number" : ""}>{cell(one)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** How many there are, what runs now, what all of it cost, and who was slow. */
function Summary({ answer }: { answer: EvaluationsAnswer }) {
  const total = Object.values(answer.counts).reduce((sum, one) => sum + one, 0);
  const running = answer.counts["running"] ?? 0;
  const shares = answer.by_run.map((row) => toNumber(row.train_share)).filter(Number.isFinite);
  const shared = answer.evaluations.filter(isShared);
  const slow = shared.filter((one) => one.cost?.straggler);
  const lost = slow.map((one) => toNumber(one.cost?.lost_share)).filter(Number.isFinite);
  const facts: [string, string, string][] = [
    [t("evaluations.all"), count(total), STATUSES.filter((status) => answer.counts[status]).map((status) => `${count(answer.counts[status])} ${named("status", status)}`).join(", ")],
    [t("evaluations.now"), running ? count(running) : t("evaluations.idle"), answer.leases.length ? t("evaluations.by", { n: count(answer.leases.length) }) : ""],
    [t("evaluations.took"), duration(answer.seconds), shares.length ? t("evaluations.still", { share: percent(Math.max(...shares)) }) : ""],
    [t("evaluations.stragglers"), shared.length ? count(slow.length) : NOTHING, !shared.length ? t("evaluations.alone") : lost.length ? t("evaluations.lost", { share: percent(Math.max(...lost)) }) : ""],
    ...(answer.missing.length ? [[t("evaluations.missing"), count(answer.missing.length), ""] as [string, string, string]] : []),
  ];
  return (
    <dl class="figures">
      {facts.map(([name, figure, more]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd><b class="number">{figure}</b> <span class="quiet">{more}</span></dd>
        </div>
      ))}
    </dl>
  );
}

function Workers({ answer }: { answer: EvaluationsAnswer }) {
  if (!answer.leases.length) return null;
  return (
    <section>
      <h2>{t("evaluations.workers")}</h2>
      <table class="sheet">
        <tbody>
          {answer.leases.map((lease) => (
            <tr key={lease.name}>
              <th scope="row"><Name text={lease.name} most={60} /></th>
              <td><Name text={lease.owner} most={40} /></td>
              <td class="number quiet">{t("evaluations.turn", { n: lease.number })}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function Costs({ answer }: { answer: EvaluationsAnswer }) {
  if (!answer.by_run.length) return null;
  const most = Math.max(...answer.by_run.map((row) => toNumber(row.seconds)), 1e-9);
  return (
    <section>
      <h2>{t("evaluations.costs")}</h2>
      <table class="sheet costs">
        <thead>
          <tr>
            <th>{t("run.name")}</th>
            <th />
            <th class="number">{t("run.time")}</th>
            <th class="number">{t("evaluations.share")}</th>
            <th class="number">{t("evaluations.all")}</th>
            <th class="number">{t("evaluations.output")}</th>
          </tr>
        </thead>
        <tbody>
          {answer.by_run.map((row) => (
            <tr key={row.run}>
              <th scope="row"><a href={href(`/run/${row.run}`)}><Name text={row.run_name} most={30} /></a></th>
              <td><svg width="140" height="10" aria-hidden="true"><rect class="cost" width={(toNumber(row.seconds) / most) * 140} height="10" /></svg></td>
              <td class="number">{duration(row.seconds)}</td>
              <td class="number">{percent(row.train_share)}</td>
              <td class="number quiet">{count(row.num_evaluations)}</td>
              <td class="number quiet">{number(row.output_tokens)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function Missing({ answer }: { answer: EvaluationsAnswer }) {
  if (!answer.missing.length) return null;
  return (
    <section>
      <h2>{t("details.missing", { n: answer.missing.length })}</h2>
      <table class="sheet">
        <tbody>
          {answer.missing.map((one) => (
            <tr key={`${one.run}${one.task}${one.step}`}>
              <th scope="row"><Name text={one.run_name} most={30} /></th>
              <td><Name text={one.task} /></td>
              <td class="number">{count(one.step)}</td>
              <td><Seen text={one.reason} /></td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function Filters({ answer }: { answer: EvaluationsAnswer }) {
  return (
    <div class="filters">
      <Choices
        label={t("run.state")}
        name="status"
        now={value("status")}
        options={[["", t("project.all")], ...STATUSES.map((status) => [status, <>{named("status", status)} <span class="number">{count(answer.counts[status])}</span></>] as const)]}
        clears={["offset"]}
      />
      {answer.evaluations.length < answer.total && <Pager offset={answer.offset} shown={answer.evaluations.length} total={answer.total} most={PAGE} />}
    </div>
  );
}

/** The page of evaluations. */
export function EvaluationsPage() {
  const { value: answer, error } = useAnswer<EvaluationsAnswer>(question(), watching(null, ["evaluations", "new"]));
  if (!answer) return error ? <Failure text={error} /> : <Empty what="loading" />;
  return (
    <main class="evaluations">
      {error && <Failure text={error} />}
      <Summary answer={answer} />
      {!report && <Filters answer={answer} />}
      {answer.evaluations.length ? <Table answer={answer} /> : <Empty what={value("status") ? "match" : "evaluations"} />}
      <div class="columns">
        <Costs answer={answer} />
        <Workers answer={answer} />
      </div>
      <Missing answer={answer} />
    </main>
  );
}
