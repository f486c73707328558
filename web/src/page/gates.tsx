// Verdicts with the evidence of each rule, and what was promoted when and by which weights.

import "../style/evidence.css";
import { useEffect, useRef } from "preact/hooks";
import { useAnswer, watching } from "../data/answer";
import { address, report } from "../data/request";
import type { GatesAnswer } from "../data/answers";
import type { Decision, Num, Subject } from "../data/answers";
import { href, place, put, value } from "../state/place";
import { learn, named, t } from "../state/settings";
import { gatesWords } from "../words/gates";
import { oneLine } from "../words/hostile";
import { count, moment, number, parts, percent, pValue, toNumber } from "../words/numbers";
import { pathEnd, withMinus } from "../words/sentences";
import { Empty, Failure } from "../part/empty";
import { spanOf, Whisker } from "../part/interval";
import { Name, Seen } from "../part/text";

learn(gatesWords);

const SHORT = 10;
/** Verdicts that are open without a click. */
const MOST_OPEN = 5;
const SIGNS: Record<string, string> = { pass: "✓", done: "✓", fail: "✗", failed: "✗", inconclusive: "?" };

function Outcome({ outcome }: { outcome: string }) {
  return (
    <b class={`outcome ${outcome}`}>
      {SIGNS[outcome] ?? "…"} {named("outcome", outcome)}
    </b>
  );
}

/** A run and its step; a label may say the step itself. */
function Of({ subject }: { subject: Subject }) {
  const saysStep = !subject.run && subject.label.includes("@");
  return (
    <>
      <Name text={subject.run || subject.label} />
      {subject.step !== null && !saysStep && <span class="quiet number"> {t("run.at")} {count(subject.step)}</span>}
    </>
  );
}

function Who({ subject }: { subject: Subject }) {
  return (
    <span>
      <Of subject={subject} />
      {subject.weights && <code title={subject.weights}> {subject.weights.slice(0, SHORT)}</code>}
    </span>
  );
}

/** What a rule judges: a value, a change against the baseline, or their ratio, whose interval and bound are of it. */
function judgedOf(rule: Decision): { value: Num | null; signed: boolean } {
  if (rule.difference === null) return { value: rule.value, signed: false };
  if (rule.reason.startsWith("ratio ") && toNumber(rule.baseline)) return { value: toNumber(rule.value) / toNumber(rule.baseline), signed: false };
  return { value: rule.difference, signed: true };
}

/** What is judged on a scale with zero and the bound it is held against. */
function Evidence({ rule }: { rule: Decision }) {
  const judged = judgedOf(rule).value;
  if (judged === null) return null;
  const span = spanOf([{ value: judged, ci_low: rule.ci_low, ci_high: rule.ci_high }, { value: rule.bound, ci_low: null, ci_high: null }]);
  const finding = rule.outcome === "pass" ? "better" : rule.outcome === "fail" ? "worse" : "undecided";
  return <Whisker value={judged} low={rule.ci_low} high={rule.ci_high} span={span} finding={finding} bound={rule.bound} width={180} />;
}

/** What a rule asks for, without what it is about. */
function requirement(rule: Decision): string {
  return rule.task ? rule.requirement.slice(rule.requirement.indexOf(": ") + 1).trim() : rule.requirement;
}

/** A rule; its reason only where it is more than a sentence around the numbers beside it. */
function DecisionRow({ rule }: { rule: Decision }) {
  const judged = judgedOf(rule);
  const shown = parts(judged.value, rule.ci_low, rule.ci_high, judged.signed);
  const isProven = rule.p_pass !== null && rule.p_fail !== null;
  return (
    <tr title={rule.method}>
      <td><Outcome outcome={rule.outcome} /></td>
      <th scope="row">
        <Name text={rule.task ? `${rule.task} ${rule.metric}` : rule.rule} /> {rule.slice && <Name text={rule.slice} />} {rule.tier !== "blocking" && <span class="tag">{named("tier", rule.tier)}</span>}
        <p class="quiet"><Seen text={withMinus(requirement(rule))} /></p>
        {!isProven && <p><Seen text={withMinus(rule.reason)} /></p>}
      </th>
      <td class="number"><b>{shown.value}</b> <span class="quiet">{shown.low && `[${shown.low}, ${shown.high}]`}</span></td>
      <td><Evidence rule={rule} /></td>
      <td class="number">{number(rule.bound)}</td>
      <td class="number">{count(rule.n)}{toNumber(rule.coverage) < 1 && <span class="partial"> {percent(rule.coverage)}</span>}</td>
      <td class="number">{pValue(rule.p_pass)}</td>
      <td class="number">{pValue(rule.p_fail)}</td>
    </tr>
  );
}

function Verdict({ verdict, isNew }: { verdict: GatesAnswer["verdicts"][number]; isNew: boolean }) {
  const isMeant = value("verdict") === verdict.id;
  const open = isNew || isMeant;
  const host = useRef<HTMLDetailsElement>(null);
  useEffect(() => {
    if (isMeant) host.current!.scrollIntoView({ block: "nearest" });
  }, [isMeant]);
  const untold = verdict.reasons.filter((reason) => !verdict.decisions.some((rule) => rule.reason && reason.endsWith(rule.reason)));
  return (
    <details ref={host} class={`card verdict-card ${isMeant ? "at" : ""}`} open={open} onToggle={(event) => event.currentTarget.open && !open && put({ verdict: verdict.id })}>
      <summary>
        <Outcome outcome={verdict.outcome} /> <Who subject={verdict.candidate} />
        {verdict.baseline && <span class="quiet"> {t("gates.against")} <Who subject={verdict.baseline} /></span>}
        <span class="quiet"> · {t("gates.policy")} <Name text={verdict.policy} /> · {moment(verdict.created_at)}{` · α ${number(verdict.alpha)}`}{verdict.look > 0 && ` · ${t("gates.look", { n: verdict.look })}`}</span>
      </summary>
      {[...untold, ...verdict.warnings].map((text) => (
        <p key={text} class={verdict.warnings.includes(text) ? "partial" : ""}><Seen text={withMinus(text)} /></p>
      ))}
      <div class="scroll">
        <table class="sheet wide">
          <thead>
            <tr>
              <th />
              <th>{t("gates.rule")}</th>
              <th class="number">{t("gates.judged")}</th>
              <th>{t("gates.axis")}</th>
              <th class="number">{t("gates.bound")}</th>
              <th class="number">n</th>
              <th class="number" title={t("gates.ppass.title")}>{t("gates.ppass")}</th>
              <th class="number" title={t("gates.pfail.title")}>{t("gates.pfail")}</th>
            </tr>
          </thead>
          <tbody>{verdict.decisions.map((rule, i) => <DecisionRow key={i} rule={rule} />)}</tbody>
        </table>
      </div>
    </details>
  );
}

/** A path by its end; the pointer tells all of it. */
function Path({ path }: { path: string }) {
  return <bdi title={oneLine(path, 1000)}>{pathEnd(path)}</bdi>;
}

/** Releases: as what, which checkpoint with which weights, since when, by which verdict. */
function Releases({ answer, releases }: { answer: GatesAnswer; releases: GatesAnswer["releases"] }) {
  const heads = ["gates.target", "gates.checkpoint", "gates.weights", "gates.since", "gates.by", "gates.verdict"] as const;
  const verdictOf = (id: string) => answer.verdicts.find((verdict) => verdict.id === id);
  return (
    <div class="card scroll">
      <table class="sheet wide">
        <thead>
          <tr>
            {heads.map((head) => (
              <th key={head}>{t(head)}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {releases.map((one) => {
            const verdict = verdictOf(one.verdict);
            return (
              <tr key={`${one.execution}${one.target}`}>
                <th scope="row" data-head={t("gates.target")}><b><Path path={one.target} /></b></th>
                <td data-head={t("gates.checkpoint")}><Path path={one.checkpoint} /></td>
                <td data-head={t("gates.weights")}><code title={one.weights}>{one.weights.slice(0, SHORT)}</code></td>
                <td data-head={t("gates.since")}><span class="number">{moment(one.at)}</span></td>
                <td data-head={t("gates.by")}><Name text={one.who} most={30} /></td>
                <td data-head={t("gates.verdict")}>{verdict ? <a class="bare" href={href("/gates", { ...place.value.values, verdict: verdict.id })}><Outcome outcome={verdict.outcome} /> <Of subject={verdict.candidate} /></a> : <span class="quiet">{t("gates.unjudged")}</span>}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

/** What is in production now, or that nothing is; and what was before. */
function Production({ answer }: { answer: GatesAnswer }) {
  const [now, before] = [answer.releases.filter((one) => one.current), answer.releases.filter((one) => !one.current)];
  return (
    <section class="released">
      <h2>{t("gates.production")}</h2>
      {now.length ? <Releases answer={answer} releases={now} /> : <p class="card">{t("gates.nothing")}</p>}
      {before.length > 0 && (
        <details>
          <summary>{t("gates.before", { n: count(before.length) })}</summary>
          <Releases answer={answer} releases={before} />
        </details>
      )}
    </section>
  );
}

function Executions({ answer }: { answer: GatesAnswer }) {
  if (!answer.executions.length) return null;
  return (
    <section>
      <h2>{t("gates.executions")}</h2>
      <div class="card scroll">
        <table class="sheet wide">
          <tbody>
            {answer.executions.map((one) => (
              <tr key={one.id}>
                <td><span class="number quiet">{moment(one.created)}</span></td>
                <td><Outcome outcome={one.status} /></td>
                <th scope="row"><Name text={one.workflow} /></th>
                <td><Path path={one.checkpoint} /></td>
                <td><code title={one.weights}>{one.weights.slice(0, SHORT)}</code></td>
                <td>
                  {one.steps.map((step) => (
                    <span class={`step ${step.status}`} key={step.position} title={step.reason}>
                      <Name text={step.name} most={20} /> {named("outcome", step.status)}
                    </span>
                  ))}
                </td>
                <td class="quiet why"><Seen text={withMinus(one.reason)} /></td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function Audit({ answer }: { answer: GatesAnswer }) {
  if (!answer.audit.length) return null;
  return (
    <details>
      <summary>{t("gates.audit", { n: count(answer.num_audit) })}</summary>
      <div class="scroll">
        <table class="sheet wide">
          <tbody>
            {answer.audit.map((one, i) => (
              <tr key={i}>
                <td><span class="number quiet">{moment(one.at)}</span></td>
                <td><Name text={one.who} most={30} /></td>
                <td><Name text={one.workflow} /></td>
                <td><Name text={one.step} /></td>
                <td>{one.event}</td>
                <td><Path path={one.checkpoint} /></td>
                <td><code title={one.weights}>{one.weights.slice(0, SHORT)}</code></td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}

/** The page of gates. */
export function GatesPage() {
  const where = report ? address("/api/gates", { runs: report.runs }) : address("/api/gates", { project: value("project"), run: value("run") });
  const { value: answer, error } = useAnswer<GatesAnswer>(where, watching(null, ["evaluations", "new", "state"]));
  if (!answer) return error ? <Failure text={error} /> : <Empty what="loading" />;
  return (
    <main class="gates">
      {!answer.verdicts.length && <Empty what="gates" />}
      {(answer.verdicts.length > 0 || answer.releases.length > 0) && <Production answer={answer} />}
      {answer.num_verdicts > answer.verdicts.length && (
        <p class="note">{t("gates.newest", { n: answer.verdicts.length, total: answer.num_verdicts })}</p>
      )}
      {answer.verdicts.length > 0 && <h2>{t("gates.verdicts")}</h2>}
      {answer.verdicts.map((verdict, place) => (
        <Verdict key={verdict.id} verdict={verdict} isNew={place < MOST_OPEN} />
      ))}
      <Executions answer={answer} />
      <Audit answer={answer} />
    </main>
  );
}
