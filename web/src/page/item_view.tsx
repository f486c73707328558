// One item: its prompt and target, and the model's answers side by side over checkpoints and runs.

import { useAnswer } from "../data/answer";
import { address, report, type Parameters } from "../data/request";
import { useRunsList } from "../data/runs_list";
import type { BoundedText, ItemAnswer } from "../data/answers";
import { numbers, put, value } from "../state/place";
import { named, t } from "../state/settings";
import { count, number, toNumber } from "../words/numbers";
import { Empty, Failure } from "../part/empty";
import { LongText } from "../part/long_text";
import { Name, Seen } from "../part/text";
import { opacityOf } from "../chart/matrix";
import { AnswerColumn, shareOf } from "./item_answer";

/** Runs whose answers stand side by side. */
const MOST_SIDES = 10;

interface Subject {
  run: number;
  task: string;
  label: string;
  item: string;
}

function question({ run, task, label, item }: Subject): string {
  if (report) return address("/api/item", { item, runs: report.runs.slice(0, MOST_SIDES), task });
  const others = numbers(value("with")).filter((one) => one !== run);
  return address("/api/item", { item, runs: [run, ...others], task, label, metric: value("metric"), steps: numbers(value("steps")) });
}

/** Puts another run's answers beside these. */
function Beside({ subject }: { subject: Subject }) {
  const list = useRunsList();
  const others = numbers(value("with"));
  const free = list?.runs.filter((run) => run.id !== subject.run && !others.includes(run.id) && run.latest.some((one) => one.task === subject.task)) ?? [];
  if (!free.length && !others.length) return null;
  return (
    <span>
      {free.length > 0 && (
        <select value="" aria-label={t("item.beside")} onChange={(event) => put({ with: [...others, event.currentTarget.value].join(",") })}>
          <option value="">+ {t("item.beside")}</option>
          {free.map((run) => (
            <option key={run.id} value={run.id}>{run.name.slice(0, 60)}</option>
          ))}
        </select>
      )}
      {others.length > 0 && <button type="button" class="link" onClick={() => put({ with: null })}> {t("item.alone")}</button>}
    </span>
  );
}

/** A score over checkpoints as a strip; a click shows the answer at that step. */
function History({ answer }: { answer: ItemAnswer }) {
  const shown = new Set(answer.answers.map((one) => `${one.run}/${one.step}`));
  const toggle = (step: number) => {
    const now = new Set(numbers(value("steps")).length ? numbers(value("steps")) : answer.answers.map((one) => one.step));
    if (!now.delete(step)) now.add(step);
    put({ steps: [...now].sort((a, b) => a - b).join(",") || null });
  };
  return (
    <div class="history">
      {answer.history.map((row) => (
        <p key={row.run}>
          <span class="who"><Name text={row.name} most={24} /></span>
          {row.steps.map((step, i) => {
            const share = shareOf(row.values[i], answer);
            const kind = Number.isNaN(toNumber(row.values[i])) ? "none" : "";
            const state = row.states[i] ?? "";
            return (
              <button
                type="button"
                key={step}
                class={`cell ${kind} ${state && state !== "ok" && state !== "unknown" ? "failed" : ""} ${shown.has(`${row.run}/${step}`) ? "shown" : ""}`}
                title={`${t("run.at")} ${step}: ${number(row.values[i])} ${named("item", state)}`}
                aria-label={`${t("run.at")} ${step}: ${number(row.values[i])}`}
                onClick={() => toggle(step)}
              >
                {!kind && <i style={{ opacity: opacityOf(share) }} />}
              </button>
            );
          })}
          <span class="quiet number"> {row.steps.length > 1 && t("findings.steps", { from: count(row.steps[0]), to: count(row.steps[row.steps.length - 1]) })}</span>
        </p>
      ))}
    </div>
  );
}

const SHORT = 60;

const isJson = (text: string) => /^[[{]/.test(text);

/** A column that is data rather than text. */
function FoldedColumn({ column, given, whole }: { column: string; given: BoundedText; whole: Parameters }) {
  return (
    <details>
      <summary class="quiet"><Name text={column} /></summary>
      <LongText given={given} whole={whole} />
    </details>
  );
}

/** The columns of an item's row: short ones in a line, long ones below each other. */
function ItemRow({ answer, subject }: { answer: ItemAnswer; subject: Subject }) {
  const { item } = answer;
  const whole = (column: string) => ({ run: subject.run, task: subject.task, item: item.id, column });
  const columns = Object.entries(item.row).filter(([, text]) => text.text !== item.id);
  const hasTurns = answer.kind === "generate" && answer.answers.some((one) => one.outputs.some((output) => output.part > 0));
  const isShort = (text: { text: string }) => text.text.length <= SHORT && !text.text.includes("\n");
  const long = columns.filter(([, text]) => !isShort(text));
  const short = columns.filter(([, text]) => isShort(text));
  const show = ([column, text]: [string, BoundedText]) => (
    <div key={column}>
      <dt>{text === item.target ? t("item.target") : <Name text={column} />}</dt>
      <dd><LongText given={text} whole={whole(column)} /></dd>
    </div>
  );
  return (
    <dl class="row">
      {long.slice(0, 1).map(show)}
      {short.length > 0 && (
        <dd class="short">
          {short.map(([column, text]) => (
            <span key={column}><Name text={column} /> = <b><Seen text={text.text} /></b></span>
          ))}
        </dd>
      )}
      {item.target && show(["target", item.target])}
      {long.slice(1).map(([column, text]) => (isJson(text.text) ? <FoldedColumn key={column} column={column} given={text} whole={whole(column)} /> : show([column, text])))}
      {columns.length > 0 && <dd class="quiet short">{t("item.prompt")} {hasTurns && t("item.feedback")}</dd>}
    </dl>
  );
}

function Loaded({ answer, subject }: { answer: ItemAnswer; subject: Subject }) {
  const { item } = answer;
  const turn = (id: string | null) => id !== null && put({ item: id, steps: null });
  return (
    <>
      <header>
        <h2><Name text={item.id} /></h2>
        {Object.entries(item.slices).map(([name, one]) => (
          <span class="tag" key={name}><Name text={`${name}=${one}`} /></span>
        ))}
        <span class="spring" />
        {!report && <Beside subject={subject} />}
        <span class="choice">
          <button type="button" disabled={!answer.previous} onClick={() => turn(answer.previous)}>‹</button>
          <button type="button" disabled={!answer.next} onClick={() => turn(answer.next)}>›</button>
          <button type="button" aria-label={t("item.close")} onClick={() => put({ item: null, steps: null })}>✕</button>
        </span>
      </header>
      <History answer={answer} />
      <ItemRow answer={answer} subject={subject} />
      <div class="answers-side">
        {answer.answers.map((one) => (
          <AnswerColumn key={`${one.run}/${one.step}/${one.evaluation}`} answer={one} whole={answer} alone={answer.history.length < 2} />
        ))}
      </div>
    </>
  );
}

/** One item. */
export function ItemView(subject: Subject) {
  const { value: answer, error, old } = useAnswer<ItemAnswer>(question(subject));
  return (
    <section class="item-view">
      {error && <Failure text={error} />}
      {answer && !old ? <Loaded answer={answer} subject={subject} /> : !error && <Empty what="loading" />}
    </section>
  );
}
