// How much faster more ranks are: measured times to a goal, and the share that does not split.

import { useAnswer } from "../data/answer";
import { address } from "../data/request";
import type { ScalingAnswer } from "../data/answers";
import { put, value } from "../state/place";
import { t } from "../state/settings";
import { inPercent, number, percent, withInterval } from "../words/numbers";
import { Failure } from "../part/empty";
import { Name, Seen } from "../part/text";
import { ScalingPlots, seconds } from "./scaling_plot";

/** What the law says of the share that does not split. */
function Law({ law }: { law: ScalingAnswer["law"] }) {
  if (!law) return <p class="quiet">{t("scaling.nolaw")}</p>;
  const facts = [
    t("scaling.law", { share: withInterval(law.serial, law.ci_low, law.ci_high) }),
    law.scatter !== null && t("scaling.scatter", { share: percent(law.scatter) }),
    law.note,
  ];
  return (
    <>
      <p>{facts.filter(Boolean).join(" · ")}</p>
      <p class="note">{t("scaling.legend", { level: inPercent(law.level) })}</p>
    </>
  );
}

function Timings({ answer }: { answer: ScalingAnswer }) {
  return (
    <>
      <p class="quiet"><Seen text={answer.work} /></p>
      <ScalingPlots answer={answer} />
      <Law law={answer.law} />
      <table class="sheet">
        <thead>
          <tr>
            <th>{t("run.name")}</th>
            <th class="number"><Name text={answer.unit} /></th>
            <th class="number">{t("run.time")}</th>
            <th class="number">{t("scaling.rate")}</th>
            <th class="number">{t("scaling.speedup")}</th>
            <th class="number">{t("scaling.efficiency")}</th>
            <th />
          </tr>
        </thead>
        <tbody>
          {answer.timings.map((row) => (
            <tr key={row.run}>
              <th scope="row"><Name text={row.run} /></th>
              <td class="number">{number(row.count)}</td>
              <td class="number">{seconds(row.seconds)}</td>
              <td class="number">{number(row.rate)}</td>
              <td class="number">{number(row.speedup, 3)}</td>
              <td class="number">{percent(row.efficiency)}</td>
              <td class="quiet"><Seen text={row.note} /></td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}

/** Asked for only when one opens it. */
export function Scaling({ runs }: { runs: readonly number[] }) {
  const open = value("scaling") === "1";
  const where = open ? address("/api/scaling", { runs, by: value("by"), goal: value("goal") }) : null;
  const { value: answer, error } = useAnswer<ScalingAnswer>(where);
  return (
    <section>
      <h2>
        <button type="button" class="link" aria-expanded={open} onClick={() => put({ scaling: open ? null : "1" })}>
          {open ? "▾" : "▸"} {t("scaling.title")}
        </button>
      </h2>
      {open && (
        <p class="filters">
          <input type="text" placeholder={t("scaling.by")} aria-label={t("scaling.by")} value={value("by")} onChange={(event) => put({ by: event.currentTarget.value || null })} />
          <input type="text" placeholder={t("scaling.goal")} aria-label={t("scaling.goal")} value={value("goal")} onChange={(event) => put({ goal: event.currentTarget.value || null })} />
        </p>
      )}
      {open && error && <Failure text={error} />}
      {open && answer && <Timings answer={answer} />}
    </section>
  );
}
