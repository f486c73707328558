// One task of a run: where it stands, how far from the reference, whether it still improves, and which items changed.

import { useMemo } from "preact/hooks";
import { CurveCard } from "../chart/curve_card";
import { MarkLegend, type MarkKind } from "../chart/marks";
import { EMPTY, measuredLine, type Picture } from "../chart/picture";
import { styleAt } from "../chart/palette";
import { spelling } from "../chart/axis";
import type { Marker, RunTask } from "../data/answers";
import type { Run } from "../data/answers";
import { href } from "../state/place";
import { named, t, theme } from "../state/settings";
import { count, inPercent, number, parts, percent, pValue, toNumber, withInterval } from "../words/numbers";
import { fittingSteps } from "../words/slope";
import { spanOf, Whisker } from "../part/interval";
import { Verdict } from "../part/state";
import { Name } from "../part/text";

const CURVE_HEIGHT = 158;
const MOST_ITEMS = 6;
const MOST_TITLES = 2;

/** Marks that belong on the curve of measured values: its dots are the evaluations. */
const MARKED: ReadonlySet<string> = new Set<MarkKind>(["checkpoint", "promoted", "resume"]);

/** The checkpoints that were measured, with their intervals. */
function measuredPicture(task: RunTask, run: Run, markers: readonly Marker[]): Picture {
  const points = task.points.map(({ step, estimate }) => ({ ...estimate, step })).filter((point) => point.value !== null);
  const best: Marker[] = task.best && points.length > 1 ? [{ kind: "best", step: task.best.step, text: task.metric }] : [];
  return {
    ...EMPTY,
    ...spelling("step"),
    level: task.reference ? toNumber(task.reference.estimate.value) : null,
    lines: [measuredLine(run.id, run.name, styleAt(0, theme.value), points)],
    markers: [...best, ...markers.filter((marker) => MARKED.has(marker.kind))].map(({ kind, step, text }) => ({ kind, x: step, text })),
  };
}

function Now({ task }: { task: RunTask }) {
  const point = task.now === null ? undefined : task.points[task.now];
  if (!point) return <div class="figure"><span class="big quiet">–</span><p class="quiet">{t("task.novalue")}</p></div>;
  const { estimate } = point;
  const shown = parts(estimate.value, estimate.ci_low, estimate.ci_high);
  return (
    <div class="figure">
      <span class="what">{t("task.now", { step: count(point.step) })}</span>
      <span class="big number">
        {shown.value}
        <small>{estimate.unit}</small>
      </span>
      <p class="number quiet" title={estimate.method}>
        {shown.low ? `${shown.low} – ${shown.high}` : t("value.nointerval")} · n {count(estimate.num_scored)}
      </p>
      {estimate.partial && <p class="partial">{t("value.partial", { scored: estimate.num_scored, n: estimate.n })}</p>}
    </div>
  );
}

function Since({ task }: { task: RunTask }) {
  const { difference } = task;
  if (!difference || difference.value === null) {
    return (
      <div class="figure">
        <span class="what">{t("task.since.none")}</span>
        <p class="quiet">{task.difference_note || t("task.one")}</p>
      </div>
    );
  }
  const shown = parts(difference.value, difference.ci_low, difference.ci_high, true);
  const title = [`p ${pValue(difference.p_value)} (${difference.test})`, difference.method, `n = ${difference.n}`, difference.note].filter(Boolean).join("\n");
  return (
    <div class="figure" title={title}>
      <span class="what">{task.reference ? t("task.since", { step: count(task.reference.step) }) : t("task.since.none")}</span>
      <span class={`big number ${difference.finding}`}>{shown.value}</span> <Verdict finding={difference.finding} />
      <Whisker value={difference.value} low={difference.ci_low} high={difference.ci_high} span={spanOf([difference])} finding={difference.finding} width={130} named />
      <p class="number quiet">{shown.low && `${shown.low} – ${shown.high}`}</p>
    </div>
  );
}

/** Where the last checkpoints do not tell whether it improves: what is known all the same. */
function known({ difference, reference }: RunTask): string {
  if (!difference || !reference || (difference.finding !== "better" && difference.finding !== "worse")) return t("task.slope.flat");
  return t(`task.still.${difference.finding}`, { step: count(reference.step) });
}

function Improving({ task }: { task: RunTask }) {
  const { trend } = task;
  if (!trend?.improving) return <dd class="quiet">{trend ? t("task.nodirection") : task.trend_note || t("task.fewpoints")}</dd>;
  const unsure = trend.improving === "cannot tell";
  return (
    <dd title={trend.method}>
      <b class={`improving ${unsure ? "unsure" : trend.improving}`}>{named("improving", trend.improving)}</b>
      {unsure && <span class="quiet">, {known(task)}</span>}
    </dd>
  );
}

function Pace({ task, trend }: { task: RunTask; trend: NonNullable<RunTask["trend"]> }) {
  const steps = fittingSteps(trend, task.per_steps, task.lowest, task.highest);
  const [value, low, high] = [trend.value, trend.ci_low, trend.ci_high].map((one) => (one === null ? null : (toNumber(one) * steps) / task.per_steps)) as [number, number | null, number | null];
  return (
    <>
      <dt>{t("task.per", { steps: count(steps) })}</dt>
      <dd class="number">{withInterval(value, low, high, true)}</dd>
    </>
  );
}

/** The best checkpoint as it is without the luck of having been picked, and as it was measured where that differs. */
function BestOne({ best }: { best: NonNullable<RunTask["best"]> }) {
  const shown = parts(best.value, best.ci_low, best.ci_high);
  const measured = parts(best.measured, best.ci_low, best.ci_high).value;
  return (
    <>
      <dt title={best.method}>{t("task.best", { step: count(best.step) })}</dt>
      <dd title={`${t("task.best.title", { share: percent(best.share) })}\n${best.method}`}>
        <span class="number">{best.value === null ? number(best.measured) : withInterval(best.value, best.ci_low, best.ci_high)}</span>
        {best.value !== null && measured !== shown.value && <span class="quiet luck">{t("task.best.luck", { measured })}</span>}
      </dd>
    </>
  );
}

function Still({ task }: { task: RunTask }) {
  const { trend, best, noise } = task;
  return (
    <dl class="still">
      <dt>{t("task.still")}</dt>
      <Improving task={task} />
      {trend && <Pace task={task} trend={trend} />}
      {best && <BestOne best={best} />}
      {noise && (
        <>
          <dt>{t("task.noise")}</dt>
          <dd title={noise.method}>
            <span class="number">±{number(noise.value, 2)}</span> <span class="quiet">{t("task.noise.of", { n: noise.n })}</span>
          </dd>
        </>
      )}
    </dl>
  );
}

interface ChangedItemsProps {
  sign: "▼" | "▲";
  ids: readonly string[];
  /** How many there are. */
  total: number;
  task: RunTask;
  run: Run;
  /** Where all of them are. */
  all: string;
}

/** The first of the items that changed, by what they ask; where that is not known, by their ids. */
function ChangedItems({ sign, ids, total, task, run, all }: ChangedItemsProps) {
  const titles = task.flips?.titles ?? {};
  const most = Object.keys(titles).length ? MOST_TITLES : MOST_ITEMS;
  const rest = total - Math.min(ids.length, most);
  const where = (id: string) => href("/items", { run: String(run.id), task: task.task, label: task.label, item: id });
  return (
    <ul class={`items ${titles[ids[0] ?? ""] ? "" : "plain"} ${sign === "▲" ? "learned" : "forgotten"}`}>
      {ids.slice(0, most).map((id) => (
        <li key={id}>
          <i aria-hidden="true">{sign}</i>{" "}
          <a href={where(id)} title={id}>
            <Name text={titles[id] ?? id} most={titles[id] ? 44 : 14} />
          </a>
        </li>
      ))}
      {rest > 0 && <li><a href={all}>+{count(rest)}</a></li>}
    </ul>
  );
}

interface FlipBarProps {
  down: number;
  up: number;
  names: readonly [down: string, up: string];
  hrefs: readonly [down: string, up: string];
}

/** Those that went up to the right and those that went down to the left of a line, as long as they are many. */
function FlipBar({ down, up, names, hrefs }: FlipBarProps) {
  const most = Math.max(up, down, 1);
  return (
    <>
      <p class="ends">
        <a class="bare" href={hrefs[0]}>
          <b class="number forgotten">▼ {count(down)}</b> {names[0]}
        </a>
        <a class="bare" href={hrefs[1]}>
          {names[1]} <b class="number learned">▲ {count(up)}</b>
        </a>
      </p>
      <svg class="flipbar" viewBox="0 0 200 12" preserveAspectRatio="none" aria-hidden="true">
        <rect class="forgotten" x={100 - (down / most) * 98} y="1" width={(down / most) * 98} height="10" />
        <rect class="learned" x="100" y="1" width={(up / most) * 98} height="10" />
        <line x1="100" x2="100" y1="0" y2="12" />
      </svg>
    </>
  );
}

/** Of a metric that knows degrees alone: how many items got better and worse. */
function Degrees({ task, all }: { task: RunTask; all: string }) {
  const { num_better: up, num_worse: down, n } = task.difference ?? { num_better: null, num_worse: null, n: 0 };
  if (up === null || down === null) return <div class="changed quiet">{task.flips_note || t("flips.none")}</div>;
  return (
    <div class="changed">
      <FlipBar down={down} up={up} names={[t("verdict.worse"), t("verdict.better")]} hrefs={[all, all]} />
      <p class="quiet">{t("flips.degrees", { n: count(n), metric: task.metric.slice(0, 40) })}</p>
      <a href={all}>{t("flips.all")} →</a>
    </div>
  );
}

function Changed({ task, run }: { task: RunTask; run: Run }) {
  const { flips } = task;
  const where = (filter: string) => href("/items", { run: String(run.id), task: task.task, label: task.label, filter });
  if (!flips) return <Degrees task={task} all={where("")} />;
  return (
    <div class="changed">
      <FlipBar down={flips.forgotten} up={flips.learned} names={[t("flips.forgotten"), t("flips.learned")]} hrefs={[where("forgotten"), where("learned")]} />
      <p class="quiet">{t("flips.of", { n: count(flips.n), same: count(flips.n - flips.learned - flips.forgotten) })}</p>
      {flips.forgotten > 0 && <ChangedItems sign="▼" ids={flips.forgotten_items} total={flips.forgotten} task={task} run={run} all={where("forgotten")} />}
      {flips.learned > 0 && <ChangedItems sign="▲" ids={flips.learned_items} total={flips.learned} task={task} run={run} all={where("learned")} />}
      <a href={where("")}>{t("flips.all")} →</a>
    </div>
  );
}

/** One task. */
export function TaskRow({ task, run, markers }: { task: RunTask; run: Run; markers: readonly Marker[] }) {
  const picture = useMemo(() => measuredPicture(task, run, markers), [task, markers, theme.value]);
  const cut = task.num_points > task.points.length ? [t("task.cut", { n: count(task.points.length), total: count(task.num_points) })] : [];
  return (
    <article class="task" data-task={task.task}>
      <div class="standing">
        <h3>
          <Name text={task.task} most={40} /> <span class="quiet">{[task.label, task.metric].filter(Boolean).join(" · ")}</span>
          {task.higher_is_better === false && <span class="quiet"> ↓ {t("task.lower")}</span>}
        </h3>
        <div class="figures">
          <Now task={task} />
          <Since task={task} />
        </div>
        <Still task={task} />
      </div>
      <CurveCard
        title={t("task.curve", { level: inPercent(task.level) })}
        picture={picture}
        focus={null}
        height={CURVE_HEIGHT}
        notes={[...(task.reference ? [t("task.line")] : []), ...cut]}
        legend={<MarkLegend kinds={new Set(picture.markers.map((marker) => marker.kind))} />}
      />
      <Changed task={task} run={run} />
    </article>
  );
}
