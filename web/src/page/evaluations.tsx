// Evaluations: what runs and what waits, who works, who is slow, and what all of it cost.

import "../style/evidence.css";
import { useAnswer, watching } from "../data/answer";
import { address, report } from "../data/request";
import type { Evaluation, EvaluationsAnswer } from "../data/answers";
import { href, value } from "../state/place";
import { learn, named, t } from "../state/settings";
import { evaluationsWords } from "../words/evaluations";
import { count, duration, moment, number, percent, size, toNumber } from "../words/numbers";
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

/** Seconds of each rank as bars; the slowest is named. */
function Ranks({ one }: { one: Evaluation }) {
  const ranks = Object.entries(one.cost?.rank_seconds ?? {}).map(([rank, seconds]) => [rank, toNumber(seconds)] as const);
  if (ranks.length < 2) return null;
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

function Row({ one }: { one: Evaluation }) {
  const errors = Object.entries(one.errors);
  return (
    <tr>
      <td><b class={`outcome ${one.status}`}>{named("status", one.status)}</b></td>
      <th scope="row"><a href={href(`/run/${one.run}`)}><Name text={one.run_name} most={30} /></a></th>
      <td><a href={href("/items", { run: String(one.run), task: one.task })}><Name text={one.task} most={30} /></a></td>
      <td class="number">{count(one.step)}</td>
      <td><Value estimate={one.estimate} /></td>
      <td class="number"><Progress one={one} /></td>
      <td class="number">{duration(one.seconds)}</td>
      <td class="number">{percent(one.cost?.train_share)}</td>
      <td class="number">{number(one.cost?.tokens_per_second, 3)}</td>
      <td class="number">{size(one.cost?.peak_memory_bytes)}</td>
      <td><Ranks one={one} /></td>
      <td class="number quiet">{moment(one.started)}</td>
      <td class="error-cell">{errors.map(([text, times]) => <span key={text}><Seen text={text.slice(0, 120)} /> ×{times} </span>)}</td>
    </tr>
  );
}

function Table({ answer }: { answer: EvaluationsAnswer }) {
  const heads = ["run.state", "run.name", "items.task", "run.step", "evaluations.value", "evaluations.items", "run.time", "evaluations.share", "evaluations.rate", "evaluations.memory", "evaluations.ranks", "evaluations.begun"] as const;
  const numeric = new Set<string>(["run.step", "evaluations.items", "run.time", "evaluations.share", "evaluations.rate", "evaluations.memory"]);
  return (
    <div class="card scroll">
      <table class="sheet">
        <thead>
          <tr>
            {heads.map((head) => (
              <th key={head} class={numeric.has(head) ? "number" : ""}>{t(head)}</th>
            ))}
            <th />
          </tr>
        </thead>
        <tbody>{answer.evaluations.map((one) => <Row key={one.id} one={one} />)}</tbody>
      </table>
    </div>
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
        <tbody>
          {answer.by_run.map((row) => (
            <tr key={row.run}>
              <th scope="row"><a href={href(`/run/${row.run}`)}><Name text={row.run_name} most={30} /></a></th>
              <td><svg width="140" height="10" aria-hidden="true"><rect class="cost" width={(toNumber(row.seconds) / most) * 140} height="10" /></svg></td>
              <td class="number">{duration(row.seconds)}</td>
              <td class="number">{percent(row.train_share)}</td>
              <td class="number quiet">{t("evaluations.number", { n: count(row.num_evaluations) })}</td>
              <td class="number quiet">{t("item.tokens", { n: number(row.output_tokens) })}</td>
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
        options={[["", t("project.all")], ...STATUSES.map((status) => [status, named("status", status)] as const)]}
        clears={["offset"]}
      />
      <Pager offset={answer.offset} shown={answer.evaluations.length} total={answer.total} most={PAGE} />
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
