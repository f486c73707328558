// What a model answered to an item at one checkpoint: attempt by attempt, turn by turn, and how it was graded.

import type { Answer, ItemAnswer, Num } from "../data/answers";
import { named, t } from "../state/settings";
import { count, number, toNumber } from "../words/numbers";
import { LongText } from "../part/long_text";
import { Name, Seen } from "../part/text";

type Output = Answer["outputs"][number];

/** Characters up to which an answer shares its line with what is known of it. */
const ONE_LINE = 24;

/** What scores are worth: the range of the metric that grades, and which end of it is the better one. */
export type Range = Pick<ItemAnswer, "lowest" | "highest" | "higher_is_better">;

/** Where in its range a score lies, 0 to 1; NaN where there is no score or no range. */
export function shareOf(value: Num | null | undefined, { lowest, highest }: Range): number {
  return lowest === null || highest === null ? NaN : (toNumber(value) - toNumber(lowest)) / (toNumber(highest) - toNumber(lowest));
}

/** A sign where a score is wholly right or wholly wrong. */
function signOf(value: Num | null, range: Range) {
  const share = range.higher_is_better === false ? 1 - shareOf(value, range) : shareOf(value, range);
  if (range.higher_is_better === null || !(share === 0 || share === 1)) return null;
  return share ? <b class="better">✓</b> : <b class="worse">✗</b>;
}

/** The name of a part of an attempt; empty where there is but one. */
function partOf(kind: string, part: number, parts: number): string {
  if (kind === "preference") return part ? t("item.rejected") : t("item.chosen");
  if (parts < 2) return "";
  return t(kind === "multiple_choice" ? "item.choice" : "item.turn", { n: part + 1 });
}

/** What is known of an output beside its text; that it ended by itself is not worth a word. */
function Facts({ output }: { output: Output }) {
  const facts = [
    output.num_tokens !== null && t("item.tokens", { n: count(output.num_tokens) }),
    output.finish_reason === "length" && t("item.cut"),
    output.logprob !== null && `log p ${number(output.logprob)}`,
    output.reward !== null && t("item.reward", { value: number(output.reward) }),
  ];
  return <span class="quiet facts">{facts.filter(Boolean).join(" · ")}</span>;
}

function OutputLine({ output, name, evaluation }: { output: Output; name: string; evaluation: string }) {
  const isShort = output.text.text.length <= ONE_LINE && !output.text.text.includes("\n");
  return (
    <div class={`output ${isShort ? "" : "tall"}`}>
      {name && <span class="quiet">{name}</span>}
      {(output.text.text || !(output.logprob !== null || output.reward !== null)) && <LongText given={output.text} whole={{ evaluation, request: output.request }} />}
      {output.error && <p class="error"><Seen text={output.error} /></p>}
      <Facts output={output} />
    </div>
  );
}

/** The outputs of a checkpoint by attempt. */
function Samples({ answer, whole }: { answer: Answer; whole: ItemAnswer }) {
  const { kind } = whole;
  const samples = new Map<number, Output[]>();
  for (const output of answer.outputs) samples.set(output.sample, [...(samples.get(output.sample) ?? []), output]);
  const parts = Math.max(...answer.outputs.map((output) => output.part)) + 1;
  const scores = answer.scores[0]?.samples ?? [];
  return (
    <>
      {[...samples].map(([sample, outputs]) => (
        <div class="sample" key={sample}>
          {samples.size > 1 && (
            <h5>
              {t("item.sample", { n: sample + 1 })} {sample < scores.length && (signOf(scores[sample]!, whole) ?? <span class="number">{number(scores[sample])}</span>)}
            </h5>
          )}
          {outputs.map((output) => (
            <OutputLine key={output.request} output={output} name={partOf(kind, output.part, parts)} evaluation={answer.evaluation} />
          ))}
        </div>
      ))}
      {answer.num_outputs > answer.outputs.length && <p class="quiet">{t("chart.more", { n: count(answer.num_outputs - answer.outputs.length) })}</p>}
    </>
  );
}

/** One checkpoint's answers under its step and the metric that grades. */
export function AnswerColumn({ answer, whole, alone }: { answer: Answer; whole: ItemAnswer; alone: boolean }) {
  const [leading, ...others] = answer.scores;
  return (
    <article class="answer">
      <h4>
        <span class="number">{t("run.at")} {count(answer.step)}</span>
        {!alone && <span class="quiet who"><Name text={answer.name} most={22} /></span>}
      </h4>
      <p>
        {leading ? <><span class="quiet"><Name text={leading.metric} /></span> <span class="grade"><b class="number">{number(leading.value)}</b> {signOf(leading.value, whole)}</span></> : "–"}
        {answer.state !== "ok" && <span class="partial"> {named("item", answer.state)}</span>}
      </p>
      {answer.note && <p class="quiet"><Seen text={answer.note} /></p>}
      <Samples answer={answer} whole={whole} />
      {others.length > 0 && (
        <dl class="scores">
          {others.map((score) => (
            <div key={score.metric}>
              <dt><Name text={score.metric} /></dt>
              <dd class="number">{number(score.value)}</dd>
            </div>
          ))}
        </dl>
      )}
    </article>
  );
}
