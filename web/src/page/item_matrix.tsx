// The matrix with the names of its rows and the steps of its columns.

import { useEffect, useRef, useState } from "preact/hooks";
import { Matrix } from "../chart/matrix";
import type { ItemsAnswer } from "../data/answers";
import { put } from "../state/place";
import { t } from "../state/settings";
import { count, number, toNumber } from "../words/numbers";
import { Name } from "../part/text";

const ROW = 17;
const NARROWEST = 120;
const WIDEST_CELL = 64;
const LABEL_SPACE = 46;

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
  const every = Math.max(1, Math.ceil(LABEL_SPACE / cell));
  return (
    <svg class="steps" width={width} height="16" aria-hidden="true">
      {checkpoints.map((one, i) =>
        i % every === 0 || i === reference ? (
          <text key={i} x={i * cell + cell / 2} y="11" text-anchor={i === 0 ? "start" : "middle"} dx={i === 0 ? -cell / 2 : 0} class={i === reference ? "reference" : ""}>
            {count(one.step)}
          </text>
        ) : null,
      )}
      {reference !== null && <path d={`M${reference * cell + cell / 2 - 3} 13h6l-3 3z`} />}
    </svg>
  );
}

function change(first: boolean | null, now: boolean | null): string {
  if (first === false && now === true) return "▲";
  return first === true && now === false ? "▼" : "";
}

/** Rows, columns and cells. */
export function ItemMatrix({ answer, values, states, open }: { answer: ItemsAnswer; values: Float32Array; states: Uint8Array; open: number }) {
  const { host, width } = useWidth();
  const columns = answer.checkpoints.length;
  const fitted = Math.min(width, columns * WIDEST_CELL);
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
        <span><i class="cell full" /> {answer.binary ? t("items.solved") : number(highest)}</span>
        <span><i class="cell" /> {answer.binary ? t("items.unsolved") : number(lowest)}</span>
        <span><i class="cell failed" /> {t("items.notok")}</span>
        <span>▲ {t("items.learned")}</span>
        <span>▼ {t("items.forgotten")}</span>
        {answer.reference !== null && <span>▾ {t("items.reference")}</span>}
      </p>
      <div class="matrix-grid">
        <div class="corner quiet">{t("items.step")}</div>
        <Steps answer={answer} width={fitted} />
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
            width={fitted}
            open={open < 0 ? null : { row: open, column: 0 }}
            reference={answer.reference}
            onPick={pick}
          />
        </div>
      </div>
    </div>
  );
}
