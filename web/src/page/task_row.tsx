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
import { spanOf, Whisker } from "../part/interval";
import { Verdict } from "../part/state";
import { Name } from "../part/text";

const CURVE_HEIGHT = 158;
const MOST_ITEMS = 6;

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
      <Whisker value={difference.value} low={difference.ci_low} high={difference.ci_high} span={spanOf([difference])} finding={difference.finding} width={130} />
      <p class="number quiet">{shown.low && `${shown.low} – ${shown.high}`}</p>
    </div>
  );
}

function Still({ task }: { task: RunTask }) {
  const { trend, best, noise } = task;
  return (
    <dl class="still">
      <dt>{t("task.still")}</dt>
      {trend?.improving ? (
        <dd title={trend.method}>
          <b class={`improving ${trend.improving === "cannot tell" ? "unsure" : trend.improving}`}>{named("improving", trend.improving)}</b>
        </dd>
      ) : (
        <dd class="quiet">{trend ? t("task.nodirection") : task.trend_note || t("task.fewpoints")}</dd>
      )}
      {trend && (
        <>
          <dt>{t("task.per", { steps: count(task.per_steps) })}</dt>
          <dd class="number">{withInterval(trend.value, trend.ci_low, trend.ci_high, true)}</dd>
        </>
      )}
      {best && (
        <>
          <dt title={best.method}>{t("task.best", { step: count(best.step) })}</dt>
          <dd class="number" title={`${t("task.best.title", { share: percent(best.share) })}\n${best.method}`}>
            {best.value === null ? number(best.measured) : withInterval(best.value, best.ci_low, best.ci_high)}
          </dd>
        </>
      )}
      {noise && (
        <>
          <dt>{t("task.noise")}</dt>
          <dd class="number" title={noise.method}>
            ±{number(noise.value, 2)}
          </dd>
        </>
      )}
    </dl>
  );
}

function Chips({ ids, more, task, run }: { ids: readonly string[]; more: number; task: RunTask; run: Run }) {
  const rest = more - Math.min(ids.length, MOST_ITEMS);
  return (
    <span class="chips">
      {ids.slice(0, MOST_ITEMS).map((id) => (
        <a key={id} href={href("/items", { run: String(run.id), task: task.task, label: task.label, item: id })}>
          <Name text={id} most={14} />
        </a>
      ))}
      {rest > 0 && <span class="quiet">+{count(rest)}</span>}
    </span>
  );
}

/** Learned to the right and forgotten to the left of a line, as long as they are many. */
function FlipBar({ learned, forgotten }: { learned: number; forgotten: number }) {
  const most = Math.max(learned, forgotten, 1);
  return (
    <svg class="flipbar" viewBox="0 0 200 12" preserveAspectRatio="none" aria-hidden="true">
      <rect class="forgotten" x={100 - (forgotten / most) * 98} y="1" width={(forgotten / most) * 98} height="10" />
      <rect class="learned" x="100" y="1" width={(learned / most) * 98} height="10" />
      <line x1="100" x2="100" y1="0" y2="12" />
    </svg>
  );
}

function Changed({ task, run }: { task: RunTask; run: Run }) {
  const { flips } = task;
  const where = (filter: string) => href("/items", { run: String(run.id), task: task.task, label: task.label, filter });
  if (!flips) return <div class="changed quiet">{task.flips_note || t("flips.none")}</div>;
  return (
    <div class="changed">
      <p class="ends">
        <a href={where("forgotten")}>
          <b class="number">▼ {count(flips.forgotten)}</b> {t("flips.forgotten")}
        </a>
        <a href={where("learned")}>
          {t("flips.learned")} <b class="number">▲ {count(flips.learned)}</b>
        </a>
      </p>
      <FlipBar learned={flips.learned} forgotten={flips.forgotten} />
      <p class="quiet">{t("flips.of", { n: count(flips.n), same: count(flips.n - flips.learned - flips.forgotten) })}</p>
      {flips.forgotten > 0 && <p>▼ <Chips ids={flips.forgotten_items} more={flips.forgotten} task={task} run={run} /></p>}
      {flips.learned > 0 && <p>▲ <Chips ids={flips.learned_items} more={flips.learned} task={task} run={run} /></p>}
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
