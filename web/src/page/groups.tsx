// Mean curves over seeds with t intervals.

import { useMemo } from "preact/hooks";
import { spelling } from "../chart/axis";
import { CurveCard } from "../chart/curve_card";
import { styleAt } from "../chart/palette";
import { EMPTY, type Picture } from "../chart/picture";
import { useAnswer } from "../data/answer";
import { address } from "../data/request";
import type { GroupsAnswer } from "../data/answers";
import { put, value } from "../state/place";
import { t, theme } from "../state/settings";
import { toNumber, withInterval } from "../words/numbers";
import { Failure } from "../part/empty";
import { Swatch } from "../part/swatch";
import { Name } from "../part/text";

type Curve = GroupsAnswer["curves"][number];

function pictureOf(curves: readonly Curve[], places: Map<string, number>): Picture {
  return {
    ...EMPTY,
    ...spelling("step"),
    lines: curves.map((curve) => ({
      run: places.get(curve.group) ?? 0,
      label: curve.group,
      style: styleAt(places.get(curve.group) ?? 0, theme.value),
      xs: curve.points.map((point) => point.step),
      ys: curve.points.map((point) => toNumber(point.value)),
      low: curve.points.map((point) => toNumber(point.ci_low)),
      high: curve.points.map((point) => toNumber(point.ci_high)),
      width: 0,
      odd: [],
      measured: true,
      pale: false,
    })),
  };
}

function noop(): void {}

function Chart({ title, curves, places }: { title: string; curves: readonly Curve[]; places: Map<string, number> }) {
  const picture = useMemo(() => pictureOf(curves, places), [curves, theme.value]);
  return <CurveCard title={title} picture={picture} focus={null} height={190} notes={[t("groups.bands")]} onZoom={noop} onSeen={noop} />;
}

function Loaded({ answer }: { answer: GroupsAnswer }) {
  const places = new Map(answer.groups.map((group, place) => [group.name, place]));
  const byTask = useMemo(() => {
    const found = new Map<string, Curve[]>();
    for (const curve of answer.curves) {
      const title = [curve.task, curve.label, curve.metric, curve.slice].filter(Boolean).join(" · ");
      found.set(title, [...(found.get(title) ?? []), curve]);
    }
    return found;
  }, [answer]);
  return (
    <>
      <table class="sheet">
        <tbody>
          {answer.groups.map((group, place) => (
            <tr key={group.name}>
              <th scope="row"><Swatch style={styleAt(place, theme.value)} /> <Name text={group.name} /></th>
              <td class="quiet">{t("groups.seeds", { n: group.runs.length })}</td>
              {[...byTask].map(([title, curves]) => {
                const points = curves.find((curve) => curve.group === group.name)?.points ?? [];
                const last = points[points.length - 1];
                return <td key={title}>{last && <>{title} <b class="number">{withInterval(last.value, last.ci_low, last.ci_high)}</b></>}</td>;
              })}
            </tr>
          ))}
        </tbody>
      </table>
      <div class="grid wide">
        {[...byTask].map(([title, curves]) => (
          <Chart key={title} title={title} curves={curves} places={places} />
        ))}
      </div>
    </>
  );
}

/** Runs that differ by their seed alone, as one curve with the error between them. */
export function Groups() {
  const pattern = value("pattern");
  const { value: suggested } = useAnswer<GroupsAnswer>(address("/api/groups", { project: value("project") }));
  const { value: answer, error } = useAnswer<GroupsAnswer>(pattern ? address("/api/groups", { project: value("project"), pattern }) : null);
  if (!pattern && !suggested?.suggested.length) return null;
  return (
    <section>
      <h2>{t("groups.title")}</h2>
      <p class="filters">
        {suggested?.suggested.map((one) => (
          <button type="button" class="zoomed" key={one} aria-pressed={pattern === one} onClick={() => put({ pattern: pattern === one ? null : one })}>
            {one}
          </button>
        ))}
        <input type="text" size={24} aria-label={t("groups.pattern")} placeholder={t("groups.pattern")} value={pattern} onChange={(event) => put({ pattern: event.currentTarget.value || null })} />
      </p>
      {error && <Failure text={error} />}
      {pattern && answer && <Loaded answer={answer} />}
    </section>
  );
}
