// Items × checkpoints: which were learned and forgotten, and what the model said to each.

import "../style/items.css";
import { useMemo } from "preact/hooks";
import { useAnswer, watching } from "../data/answer";
import { bytes, floats } from "../data/base64";
import { address, report } from "../data/request";
import { useRunsList } from "../data/runs_list";
import type { ItemsAnswer, RunsAnswer } from "../data/answers";
import { href, put, value } from "../state/place";
import { useKeys } from "../state/keys";
import { learn, t, type Word } from "../state/settings";
import { itemsWords } from "../words/items";
import { count } from "../words/numbers";
import { Choices } from "../part/choices";
import { Choose } from "../part/choose";
import { Empty, Failure } from "../part/empty";
import { Later } from "../part/later";
import { Pager } from "../part/pager";
import { Name } from "../part/text";
import { ItemMatrix } from "./item_matrix";

learn(itemsWords);

const FILTERS = ["flipped", "learned", "forgotten", "solved", "unsolved", "failed"] as const;
const PAGE = 500;
const loadCurve = () => import("../part/flip_curve").then((module) => module.FlipCurve);
const loadItem = () => import("./item_view").then((module) => module.ItemView);

/** The run and the task whose items are shown: those of the URL, else the newest run that was evaluated. */
function subjectOf(list: RunsAnswer): { run: number; task: string; label: string } | null {
  const wanted = Number(value("run")) || 0;
  const run = wanted ? list.runs.find((one) => one.id === wanted) : list.runs.find((one) => one.latest.length);
  const known = run?.latest.find((one) => one.task === value("task")) ?? run?.latest[0];
  const task = value("task") || known?.task;
  if (!(wanted || run) || !task) return null;
  return { run: wanted || run!.id, task, label: value("label") };
}

function question(subject: { run: number; task: string; label: string }): string {
  const { run, task, label } = subject;
  if (report) return address("/api/items", { run, task });
  return address("/api/items", {
    run,
    task,
    label,
    metric: value("metric"),
    reference: value("reference"),
    filter: value("filter"),
    search: value("q"),
    sort: value("sort"),
    offset: value("offset"),
  });
}

function Subject({ list, subject }: { list: RunsAnswer; subject: { run: number; task: string } }) {
  const run = list.runs.find((one) => one.id === subject.run);
  const tasks = [...new Set((run?.latest ?? []).map((one) => one.task))];
  return (
    <>
      <Choose label={t("items.run")} name="run" now={String(subject.run)} options={list.runs.map((one) => [String(one.id), one.name.slice(0, 60)])} clears={["item", "offset"]} />
      <Choose label={t("items.task")} name="task" now={subject.task} options={tasks.map((task) => [task, task])} clears={["item", "offset", "metric", "label"]} />
      <a href={href(`/run/${subject.run}`)}>{t("items.torun")} →</a>
    </>
  );
}

function Filters({ answer }: { answer: ItemsAnswer }) {
  return (
    <div class="filters">
      <input
        data-search
        type="search"
        placeholder={`${t("items.search")}  ( / )`}
        aria-label={t("items.search")}
        value={value("q")}
        onInput={(event) => put({ q: event.currentTarget.value || null, offset: null })}
      />
      <Choices
        label={t("items.filter")}
        name="filter"
        now={value("filter")}
        options={[["", t("items.all")], ...FILTERS.map((filter) => [filter, <>{t(`items.${filter}`)} <span class="number">{count(answer.counts[filter])}</span></>] as const)]}
        clears={["offset"]}
      />
      <Choose label={t("items.sort")} name="sort" now={value("sort", "id")} options={(["id", "flips", "solved"] as const).map((sort) => [sort, t(`items.by.${sort}` as Word)])} />
    </div>
  );
}

function Loaded({ answer }: { answer: ItemsAnswer }) {
  const values = useMemo(() => floats(answer.values), [answer.values]);
  const states = useMemo(() => bytes(answer.states), [answer.states]);
  const open = value("item");
  const place = answer.items.findIndex((item) => item.id === open);
  const move = (by: number) => {
    const next = answer.items[Math.min(Math.max(place + by, 0), answer.items.length - 1)];
    if (next) put({ item: next.id, steps: null });
  };
  useKeys({ j: () => move(1), k: () => move(-1), Escape: open ? () => put({ item: null, steps: null }) : undefined });
  return (
    <div class={`items-body ${open ? "split" : ""}`}>
      <div>
        {answer.note && <p class="note">{answer.note}</p>}
        {!answer.total && <p class="quiet">{t("empty.match")}</p>}
        {answer.items.length > 0 && (
          <ItemMatrix answer={answer} values={values} states={states} open={place}>
            {answer.items.length < answer.total ? <Pager offset={answer.offset} shown={answer.items.length} total={answer.total} most={PAGE} /> : <span>{t("items.count", { n: count(answer.total) })}</span>}
            {answer.num_checkpoints > answer.checkpoints.length && <span>{t("items.thinned", { n: answer.checkpoints.length, total: answer.num_checkpoints })}</span>}
          </ItemMatrix>
        )}
      </div>
      {open && <Later key={open} load={loadItem} props={{ run: answer.run, task: answer.task, label: answer.label, item: open }} meanwhile={<section class="item-view" />} />}
    </div>
  );
}

/** The page of items. */
export function ItemsPage() {
  const list = useRunsList();
  const subject = list && subjectOf(list);
  const ids = new Set(subject ? [subject.run] : []);
  const { value: answer, error } = useAnswer<ItemsAnswer>(subject ? question(subject) : null, watching(ids, ["evaluations"]));
  if (!list) return <Empty what="loading" />;
  if (!subject) return <Empty what="items" />;
  return (
    <main class="items">
      <div class="subject">
        <Subject list={list} subject={subject} />
        {answer &&
          (report || answer.metrics.length < 2 ? (
            <span class="quiet">
              <Name text={answer.metric} />
            </span>
          ) : (
            <Choose label={t("compare.metric")} name="metric" now={answer.metric} options={answer.metrics.map((metric) => [metric, metric.slice(0, 60)])} clears={["offset", "filter"]} />
          ))}
      </div>
      {error && <Failure text={error} />}
      {answer && answer.flip_curve.length > 1 && !value("item") && <Later load={loadCurve} props={{ points: answer.flip_curve }} meanwhile={<div class="flip-curve" />} />}
      {answer && !report && <Filters answer={answer} />}
      {answer ? <Loaded answer={answer} /> : !error && <Empty what="loading" />}
    </main>
  );
}
