// The matrix with the names of its rows and the steps of its columns.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Matrix, opacityOf } from "../chart/matrix";
import type { ItemsAnswer } from "../data/answers";
import { put } from "../state/place";
import { t } from "../state/settings";
import { count, number, toNumber } from "../words/numbers";
import { Name } from "../part/text";

const ROW = 17;
const NARROWEST = 120;
const LABEL_SPACE = 46;
const DIGIT = 7;
/** Shares of the scale that the legend shows. */
const SCALE = [0, 0.25, 0.5, 0.75, 1];

function useWidth() {
  const host = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(NARROWEST);
  useEffect(() => {
    const observer = new ResizeObserver(() => setWidth(Math.max(NARROWEST, host.current!.clientWidth)));
    observer.observe(host.current!);
    return () => observer.disconnect();
  }, []);
  return { host, width };
}

/** Steps above the columns, as many as have room. */
function Steps({ answer, width }: { answer: ItemsAnswer; width: number }) {
  const { checkpoints, reference } = answer;
  const cell = width / checkpoints.length;
  const isWide = (step: number) => count(step).length * DIGIT > cell; // the first one then begins where its column does
  const every = Math.max(1, Math.ceil(LABEL_SPACE / cell));
  return (
    <svg class="steps" width={width} height="19" aria-hidden="true">
      {checkpoints.map((one, i) =>
        i % every === 0 || i === reference ? (
          <text key={i} x={i === 0 && isWide(one.step) ? 0 : (i + 0.5) * cell} y="11" text-anchor={i === 0 && isWide(one.step) ? "start" : "middle"} class={i === reference ? "reference" : ""}>
            {count(one.step)}
          </text>
        ) : null,
      )}
      {reference !== null && <path d={`M${(reference + 0.5) * cell - 3.5} 13.5h7l-3.5 4z`} />}
    </svg>
  );
}

function change(first: boolean | null, now: boolean | null): string {
  if (first === false && now === true) return "▲";
  return first === true && now === false ? "▼" : "";
}

/** What the colours mean: two of them, or a scale where an item can be solved in part. */
function Colours({ answer, lowest, highest }: { answer: ItemsAnswer; lowest: number; highest: number }) {
  if (answer.binary)
    return (
      <>
        <span><i class="cell full" /> {t("items.solved")}</span>
        <span><i class="cell" /> {t("items.unsolved")}</span>
      </>
    );
  return (
    <span class="scale">
      <Name text={answer.metric} most={30} /> {number(lowest)}{" "}
      {SCALE.map((share) => (
        <i class="cell" key={share}><i style={{ opacity: opacityOf(share) }} /></i>
      ))}{" "}
      {number(highest)}
    </span>
  );
}

interface ItemMatrixProps {
  answer: ItemsAnswer;
  values: Float32Array;
  states: Uint8Array;
  /** The row that is open; less than 0 = none. */
  open: number;
  /** Before the legend: how many there are. */
  children: ComponentChildren;
}

/** Rows, columns and cells. */
export function ItemMatrix({ answer, values, states, open, children }: ItemMatrixProps) {
  const { host, width } = useWidth();
  const columns = answer.checkpoints.length;
  const finite = values.filter((one) => Number.isFinite(one));
  const lowest = answer.lowest === null ? finite.reduce((a, b) => Math.min(a, b), 0) : toNumber(answer.lowest);
  const highest = answer.highest === null ? finite.reduce((a, b) => Math.max(a, b), lowest + 1e-12) : toNumber(answer.highest);
  const pick = (row: number) => {
    const item = answer.items[row];
    if (item) put({ item: item.id });
  };
  return (
    <div class="matrix-box">
      <p class="signs quiet">
        {children}
        <Colours answer={answer} lowest={lowest} highest={highest} />
        <span><i class="cell failed" /> {t("items.notok")}</span>
        <span>▲ {t("items.learned")}</span>
        <span>▼ {t("items.forgotten")}</span>
        {answer.reference !== null && <span>▾ {t("items.reference")}</span>}
      </p>
      <div class="matrix-grid">
        <div class="corner quiet">{t("items.step")}</div>
        <Steps answer={answer} width={width} />
        <ol class="item-names">
          {answer.items.map((item, row) => (
            <li key={item.id} class={row === open ? "at" : ""} onClick={() => pick(row)}>
              <span class={change(item.first, item.now) === "▲" ? "up" : "down"}>{change(item.first, item.now)}</span>
              <b><Name text={item.id} most={18} /></b> <span class="quiet"><Name text={item.title} most={90} /></span>
            </li>
          ))}
        </ol>
        <div ref={host} class="matrix-host">
          <Matrix
            rows={answer.items.length}
            columns={columns}
            values={values}
            states={states}
            lowest={lowest}
            highest={highest}
            rowHeight={ROW}
            width={width}
            open={open < 0 ? null : { row: open, column: 0 }}
            reference={answer.reference}
            onPick={pick}
          />
        </div>
      </div>
    </div>
  );
}
