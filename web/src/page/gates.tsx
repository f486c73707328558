// Verdicts with the evidence of each rule, and what was promoted when and by which weights.

import "../style/evidence.css";
import { useAnswer, watching } from "../data/answer";
import { address, report } from "../data/request";
import type { GatesAnswer } from "../data/answers";
import type { Decision, Subject } from "../data/answers";
import { href, place, put, value } from "../state/place";
import { learn, named, t } from "../state/settings";
import { gatesWords } from "../words/gates";
import { count, moment, number, parts, percent, pValue, toNumber } from "../words/numbers";
import { Empty, Failure } from "../part/empty";
import { spanOf, Whisker } from "../part/interval";
import { Name, Seen } from "../part/text";

learn(gatesWords);

const SHORT = 10;

function Outcome({ outcome }: { outcome: string }) {
  const sign = outcome === "pass" || outcome === "done" ? "✓" : outcome === "fail" || outcome === "failed" ? "✗" : outcome === "inconclusive" ? "?" : "…";
  return (
    <b class={`outcome ${outcome}`}>
      {sign} {named("outcome", outcome)}
    </b>
  );
}

function Who({ subject }: { subject: Subject }) {
  return (
    <span>
      <Name text={subject.run || subject.label} />
      {subject.step !== null && <span class="quiet number"> @ {count(subject.step)}</span>}
      {subject.weights && <code title={subject.weights}> {subject.weights.slice(0, SHORT)}</code>}
    </span>
  );
}

/** What is judged on a scale with zero and the bound it is held against. */
function Evidence({ rule }: { rule: Decision }) {
  const judged = rule.difference ?? rule.value;
  if (judged === null) return null;
  const span = spanOf([{ value: judged, ci_low: rule.ci_low, ci_high: rule.ci_high }, { value: rule.bound, ci_low: null, ci_high: null }]);
  const finding = rule.outcome === "pass" ? "better" : rule.outcome === "fail" ? "worse" : "undecided";
  return <Whisker value={judged} low={rule.ci_low} high={rule.ci_high} span={span} finding={finding} bound={rule.bound} width={180} />;
}

/** What a rule asks for, without what it is about. */
function requirement(rule: Decision): string {
  return rule.task ? rule.requirement.slice(rule.requirement.indexOf(": ") + 1).trim() : rule.requirement;
}

function DecisionRow({ rule }: { rule: Decision }) {
  const shown = parts(rule.difference ?? rule.value, rule.ci_low, rule.ci_high, rule.difference !== null);
  return (
    <tr title={rule.method}>
      <td><Outcome outcome={rule.outcome} /></td>
      <th scope="row">
        <Name text={rule.task ? `${rule.task} ${rule.metric}` : rule.rule} /> {rule.slice && <Name text={rule.slice} />} {rule.tier !== "blocking" && <span class="tag">{named("tier", rule.tier)}</span>}
        <p class="quiet"><Seen text={requirement(rule)} /></p>
      </th>
      <td class="number"><b>{shown.value}</b> <span class="quiet">{shown.low && `${shown.low} – ${shown.high}`}</span></td>
      <td><Evidence rule={rule} /></td>
      <td class="number">{number(rule.bound)}</td>
      <td class="number">{count(rule.n)}{toNumber(rule.coverage) < 1 && <span class="partial"> {percent(rule.coverage)}</span>}</td>
      <td class="number">{pValue(rule.p_pass)}</td>
      <td class="number">{pValue(rule.p_fail)}</td>
      <td class="quiet why"><Seen text={rule.reason} /></td>
    </tr>
  );
}

function Verdict({ verdict }: { verdict: GatesAnswer["verdicts"][number] }) {
  const open = value("verdict") === verdict.id || (!value("verdict") && verdict.outcome !== "pass");
  return (
    <details class="card verdict-card" open={open} onToggle={(event) => event.currentTarget.open && !open && put({ verdict: verdict.id })}>
      <summary>
        <Outcome outcome={verdict.outcome} /> <Who subject={verdict.candidate} />
        {verdict.baseline && <span class="quiet"> {t("gates.against")} <Who subject={verdict.baseline} /></span>}
        <span class="quiet"> · {t("gates.policy")} <Name text={verdict.policy} /> · {moment(verdict.created_at)}{` · α ${number(verdict.alpha)}`}{verdict.look > 0 && ` · ${t("gates.look", { n: verdict.look })}`}</span>
      </summary>
      {verdict.reasons.map((reason) => (
        <p key={reason}><Seen text={reason} /></p>
      ))}
      <div class="scroll">
        <table class="sheet">
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
              <th>{t("gates.reason")}</th>
            </tr>
          </thead>
          <tbody>{verdict.decisions.map((rule, i) => <DecisionRow key={i} rule={rule} />)}</tbody>
        </table>
      </div>
    </details>
  );
}

/** The end of a path that tells it from others: its last two parts. */
function tail(path: string): string {
  return path.split("/").slice(-2).join("/");
}

/** What was released as what, when, by which weights and on whose word; `now` marks what holds. */
function Releases({ answer }: { answer: GatesAnswer }) {
  if (!answer.releases.length) return null;
  const heads = ["gates.target", "gates.checkpoint", "gates.weights", "gates.when", "gates.by", "gates.verdict"] as const;
  return (
    <section class="released">
      <h2>{t("gates.released")}</h2>
      <div class="card scroll">
        <table class="sheet">
          <thead>
            <tr>
              {heads.map((head) => (
                <th key={head}>{t(head)}</th>
              ))}
            </tr>
          </thead>
          <tbody>
            {answer.releases.map((one) => (
              <tr key={`${one.execution}${one.target}`} class={one.current ? "" : "quiet"}>
                <th scope="row" title={one.target}><Name text={tail(one.target)} /> {one.current && <span class="tag">{t("gates.current")}</span>}</th>
                <td title={one.checkpoint}><Name text={tail(one.checkpoint)} /></td>
                <td><code title={one.weights}>{one.weights.slice(0, SHORT)}</code></td>
                <td class="number">{moment(one.at)}</td>
                <td><Name text={one.who} most={30} /></td>
                <td>{one.verdict && <a href={href("/gates", { ...place.value.values, verdict: one.verdict })}>{named("outcome", answer.verdicts.find((verdict) => verdict.id === one.verdict)?.outcome ?? "")} →</a>}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function Executions({ answer }: { answer: GatesAnswer }) {
  if (!answer.executions.length) return null;
  return (
    <section>
      <h2>{t("gates.executions")}</h2>
      <div class="card scroll">
        <table class="sheet">
          <tbody>
            {answer.executions.map((one) => (
              <tr key={one.id}>
                <td class="number quiet">{moment(one.created)}</td>
                <td><Outcome outcome={one.status} /></td>
                <th scope="row"><Name text={one.workflow} /></th>
                <td title={one.checkpoint}><Name text={tail(one.checkpoint)} /></td>
                <td><code title={one.weights}>{one.weights.slice(0, SHORT)}</code></td>
                <td>
                  {one.steps.map((step) => (
                    <span class={`step ${step.status}`} key={step.position} title={step.reason}>
                      <Name text={step.name} most={20} /> {named("outcome", step.status)}
                    </span>
                  ))}
                </td>
                <td class="quiet why"><Seen text={one.reason} /></td>
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
        <table class="sheet">
          <tbody>
            {answer.audit.map((one, i) => (
              <tr key={i}>
                <td class="number quiet">{moment(one.at)}</td>
                <td><Name text={one.who} most={30} /></td>
                <td><Name text={one.workflow} /></td>
                <td><Name text={one.step} /></td>
                <td>{one.event}</td>
                <td title={one.checkpoint}><Name text={tail(one.checkpoint)} /></td>
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
      <Releases answer={answer} />
      {answer.num_verdicts > answer.verdicts.length && (
        <p class="note">{t("gates.newest", { n: answer.verdicts.length, total: answer.num_verdicts })}</p>
      )}
      {answer.releases.length > 0 && <h2>{t("gates.verdicts")}</h2>}
      {answer.verdicts.map((verdict) => (
        <Verdict key={verdict.id} verdict={verdict} />
      ))}
      <Executions answer={answer} />
      <Audit answer={answer} />
    </main>
  );
}
