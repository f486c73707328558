// What stands at the cursor: the marks, and the value of each line. It comes when one first points at a chart.

import { t } from "../state/settings";
import { oneLine } from "../words/hostile";
import { number } from "../words/numbers";
import { Swatch } from "../part/swatch";
import { Sign, type MarkKind } from "./marks";
import { nearest, placeOf, type Picture } from "./picture";
import type { Cursor } from "./plot";

const MOST_ROWS = 12;
/** Pixels from which a mark is told. */
const MARK_REACH = 6;

/** What stands at the cursor, a line each. */
function MarksAt({ markers }: { markers: readonly { kind: MarkKind; text: string }[] }) {
  return (
    <>
      {markers.map((marker, i) => (
        <p key={i}>
          <Sign kind={marker.kind} /> {t(`marker.${marker.kind}`)} <span class="quiet">{oneLine(marker.text, 90)}</span>
        </p>
      ))}
    </>
  );
}

/** The values at the cursor, largest first; and what stands there. */
export function AtCursor({ picture, cursor }: { picture: Picture; cursor: Cursor }) {
  const markers = picture.markers.filter((marker) => Math.abs(marker.x - cursor.x) <= cursor.pixel * MARK_REACH);
  const rows = picture.lines
    .filter((line) => !line.pale)
    .map((line) => ({ line, i: nearest(line, cursor.x) }))
    .filter(({ i }) => i >= 0)
    .sort((a, b) => b.line.ys[b.i]! - a.line.ys[a.i]!);
  if (picture.lines.length < 2 && !markers.length) return null;
  return (
    <div class="values" aria-hidden="true">
      <MarksAt markers={markers} />
      <table>
        <tbody>
          {rows.slice(0, MOST_ROWS).map(({ line, i }) => (
            <tr key={`${line.run}${line.label}`}>
              <td>
                <Swatch style={line.style} />
              </td>
              <td class="label">{oneLine(line.label, 32)}</td>
              <td class="number">{number(line.ys[i]!)}</td>
              <td class="number quiet">{line.low && line.high && line.high[i]! > line.low[i]! ? `${number(line.low[i]!)} … ${number(line.high[i]!)}` : ""}</td>
              <td class="number quiet">{placeOf(picture, line, i)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length > MOST_ROWS && <p class="quiet">{t("chart.more", { n: rows.length - MOST_ROWS })}</p>}
    </div>
  );
}
