// Paired differences as a table with a forest plot: one scale for the rows of a metric, zero where it always is.

import type { CompareAnswer, Side } from "../data/answers";
import type { Difference } from "../data/answers";
import { t } from "../state/settings";
import { rounded, sharedDecimals } from "../words/decimals";
import { count, inPercent, number, parts, pValue } from "../words/numbers";
import { spanOf, Whisker, type Span } from "../part/interval";
import { Verdict } from "../part/state";
import { Name } from "../part/text";

const WIDTH = 300;

/** Rows of a task, metric and slice beside each other, whoever the candidate is; otherwise as they came. */
function inOrder(rows: readonly Difference[]): Difference[] {
  const first = new Map<string, number>();
  const metric = (row: Difference) => `${row.task}\n${row.metric}`;
  const slice = (row: Difference) => `${metric(row)}\n${row.slice}`;
  rows.forEach((row, place) => {
    for (const key of [metric(row), slice(row)]) if (!first.has(key)) first.set(key, place);
  });
  return [...rows].sort((a, b) => first.get(metric(a))! - first.get(metric(b))! || first.get(slice(a))! - first.get(slice(b))!);
}

interface Shared {
  /** The scale of the rows of a metric. */
  span: Span;
  /** Decimals of their values, by the smallest error of a difference. */
  decimals: number | null;
}

function Row({ row, sides, shared: { span, decimals }, repeated }: { row: Difference; sides: Map<string, Side>; shared: Shared; repeated: boolean }) {
  const shown = parts(row.value, row.ci_low, row.ci_high, true);
  const side = sides.get(row.candidate);
  const title = [row.test, row.method, row.correlation !== null && `r = ${number(row.correlation, 2)}`, row.note].filter(Boolean).join("\n");
  const alone = [row.only_baseline && t("compare.onlybaseline", { n: row.only_baseline }), row.only_candidate && t("compare.onlycandidate", { n: row.only_candidate })];
  return (
    <tr title={title} class={row.slice ? "slice" : ""}>
      <th scope="row">
        {!repeated && (
          <>
            <Name text={row.task} most={28} /> <span class="quiet"><Name text={row.metric} most={24} /></span>
          </>
        )}
        {row.slice && <span class="quiet"> <Name text={row.slice} most={30} /></span>}
      </th>
      <td><Name text={side?.name ?? row.candidate} most={24} /> <span class="quiet number">@{side ? count(side.step) : ""}</span></td>
      <td class="number">{rounded(row.baseline_value, decimals)}</td>
      <td class="number">{rounded(row.candidate_value, decimals)}</td>
      <td class="number"><b>{shown.value}</b></td>
      <td class="number quiet">{shown.low && `${shown.low} – ${shown.high}`}</td>
      <td><Whisker value={row.value} low={row.ci_low} high={row.ci_high} span={span} finding={row.finding} width={WIDTH} /></td>
      <td><Verdict finding={row.finding} /></td>
      <td class="number" title={`p ${pValue(row.p_value)}`}>{pValue(row.p_adjusted ?? row.p_value)}</td>
      <td class="number">{row.num_better === null ? "" : `▲${count(row.num_better)} ▼${count(row.num_worse)}`}</td>
      <td class="number">{count(row.n)} <span class="quiet">{alone.filter(Boolean).join(", ")}</span></td>
    </tr>
  );
}

function Overall({ answer, sides }: { answer: CompareAnswer; sides: Map<string, Side> }) {
  if (!answer.overall.length) return null;
  const span = spanOf(answer.overall);
  return (
    <>
      {answer.overall.map((row) => {
        const shown = parts(row.value, row.ci_low, row.ci_high, true);
        const finding = Number(row.ci_low) > 0 ? "better" : Number(row.ci_high) < 0 ? "worse" : "undecided";
        return (
          <tr key={row.candidate} class="overall" title={[row.tasks.join(", "), ...row.left_out].join("\n")}>
            <th scope="row">{t("compare.overall", { n: row.tasks.length })}</th>
            <td><Name text={sides.get(row.candidate)?.name ?? row.candidate} most={24} /></td>
            <td />
            <td />
            <td class="number"><b>{shown.value}</b></td>
            <td class="number quiet">{shown.low && `${shown.low} – ${shown.high}`}</td>
            <td><Whisker value={row.value} low={row.ci_low} high={row.ci_high} span={span} finding={finding} width={WIDTH} /></td>
            <td><Verdict finding={finding} /></td>
            <td class="number">{pValue(row.p_value)}</td>
            <td />
            <td />
          </tr>
        );
      })}
    </>
  );
}

/** The table. */
export function Forest({ answer }: { answer: CompareAnswer }) {
  const sides = new Map(answer.candidates.map((side) => [side.label, side]));
  const shared = new Map<string, Shared>();
  const keyOf = (row: Difference) => `${row.task}\n${row.metric}`;
  const rows = inOrder(answer.differences);
  for (const row of rows) {
    const key = keyOf(row);
    if (shared.has(key)) continue;
    const alike = rows.filter((one) => keyOf(one) === key);
    shared.set(key, { span: spanOf(alike), decimals: sharedDecimals(alike) });
  }
  if (!answer.differences.length) return <p class="quiet">{t("compare.nothing")}</p>;
  const level = answer.differences[0]!.level;
  return (
    <section class="card scroll">
      <table class="forest sheet">
        <thead>
          <tr>
            <th>{t("compare.task")}</th>
            <th>{t("compare.candidate")}</th>
            <th class="number">{answer.baseline.name.slice(0, 24)}</th>
            <th class="number">{t("compare.itsvalue")}</th>
            <th class="number">{t("compare.difference")}</th>
            <th class="number">{t("compare.interval", { level: inPercent(level) })}</th>
            <th class="axis">{t("compare.axis")}</th>
            <th />
            <th class="number" title={t("compare.p.title")}>p</th>
            <th class="number">{t("compare.items")}</th>
            <th class="number">n</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row, i) => {
            const before = rows[i - 1];
            const repeated = before !== undefined && keyOf(before) === keyOf(row);
            return <Row key={`${keyOf(row)}${row.slice}${row.candidate}`} row={row} sides={sides} shared={shared.get(keyOf(row))!} repeated={repeated} />;
          })}
          <Overall answer={answer} sides={sides} />
        </tbody>
      </table>
      <p class="note">{t("compare.note")}</p>
    </section>
  );
}
