// Mean curves over seeds with t intervals.

import { useMemo } from "preact/hooks";
import { styleAt } from "../chart/palette";
import { measuredLine } from "../chart/picture";
import { useAnswer } from "../data/answer";
import { address } from "../data/request";
import type { GroupsAnswer } from "../data/answers";
import { put, value } from "../state/place";
import { t, theme } from "../state/settings";
import { withInterval } from "../words/numbers";
import { ScaleChoice } from "../part/choices";
import { Choose, metricOptions } from "../part/choose";
import { Failure } from "../part/empty";
import { chartsOf, MeasuredCharts, titleOf } from "../part/measured_charts";
import { Swatch } from "../part/swatch";
import { Name } from "../part/text";

/** A pattern that the server suggests, `(.+)-seed\d+`, as people write one: …-seed#. */
export function spellPattern(pattern: string): string {
  return pattern.replace("(.+)", "…").replace("\\d+", "#").replaceAll("\\", "");
}

function Loaded({ answer }: { answer: GroupsAnswer }) {
  const places = new Map(answer.groups.map((group, place) => [group.name, place]));
  const charts = useMemo(
    () => chartsOf(answer.curves, ({ group, points }) => measuredLine(places.get(group) ?? 0, group, styleAt(places.get(group) ?? 0, theme.value), points)),
    [answer, theme.value],
  );
  return (
    <>
      <div class="scroll">
        <table class="sheet">
          <tbody>
            {answer.groups.map((group, place) => (
              <tr key={group.name}>
                <th scope="row"><Swatch style={styleAt(place, theme.value)} /> <Name text={group.name} /></th>
                <td class="quiet">{t("groups.seeds", { n: group.runs.length })}</td>
                {answer.curves.filter((curve) => curve.group === group.name).map((curve) => {
                  const last = curve.points[curve.points.length - 1];
                  return <td key={titleOf(curve)}>{last && <>{titleOf(curve)} <b class="number">{withInterval(last.value, last.ci_low, last.ci_high)}</b></>}</td>;
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <MeasuredCharts charts={charts} note={t("groups.bands")} />
    </>
  );
}

/** Runs that differ by their seed alone, as one curve with the error between them; `alone` where no comparison stands above. */
export function Groups({ alone }: { alone: boolean }) {
  const pattern = value("pattern");
  const metric = value("metric") === "all" ? "" : value("metric");
  const project = value("project");
  const { value: suggested } = useAnswer<GroupsAnswer>(address("/api/groups", { project }));
  const { value: answer, error } = useAnswer<GroupsAnswer>(pattern ? address("/api/groups", { project, pattern, task: value("task"), metric }) : null);
  if (!pattern && !suggested?.suggested.length) return null;
  return (
    <section>
      <h2>{t("groups.title")}</h2>
      <p class="filters">
        {suggested?.suggested.map((one) => (
          <button type="button" class="zoomed" key={one} aria-pressed={pattern === one} onClick={() => put({ pattern: pattern === one ? null : one })}>
            {spellPattern(one)}
          </button>
        ))}
        <input type="text" size={40} aria-label={t("groups.own")} placeholder={t("groups.own")} value={pattern} onChange={(event) => put({ pattern: event.currentTarget.value || null })} />
        {alone && pattern && answer && (
          <>
            <ScaleChoice />
            {answer.tasks.length > 1 && <Choose label={t("items.task")} name="task" now={value("task")} options={[["", t("project.all")], ...answer.tasks.map((task) => [task, task] as const)]} clears={["metric"]} />}
            <Choose label={t("compare.metric")} name="metric" now={metric} options={metricOptions(answer.metrics, false)} />
          </>
        )}
      </p>
      {error && <Failure text={error} />}
      {pattern && answer && <Loaded answer={answer} />}
    </section>
  );
}
