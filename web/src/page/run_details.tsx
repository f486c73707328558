// Everything else about a run, folded; what is in it comes when it is opened.

import { useState } from "preact/hooks";
import type { RunAnswer } from "../data/answers";
import { t } from "../state/settings";
import { Later, type Load } from "../part/later";

type Body = Load<{ answer: RunAnswer }>;

const loadMetrics: Body = () => import("./run_facts").then((module) => module.Metrics);
const loadConfig: Body = () => import("./run_facts").then((module) => module.Config);
const loadEnvironment: Body = () => import("./run_facts").then((module) => module.Environment);
const loadMissing: Body = () => import("./run_facts").then((module) => module.Missing);

function Folded({ title, load, answer }: { title: string; load: Body; answer: RunAnswer }) {
  const [opened, setOpened] = useState(false);
  return (
    <details onToggle={() => setOpened(true)}>
      <summary>{title}</summary>
      {opened && <Later load={load} props={{ answer }} />}
    </details>
  );
}

/** What is known of a run besides the three answers. */
export function RunDetails({ answer }: { answer: RunAnswer }) {
  return (
    <section class="details">
      <Folded title={t("details.metrics")} load={loadMetrics} answer={answer} />
      <Folded title={t("details.config", { n: Object.keys(answer.config).length })} load={loadConfig} answer={answer} />
      <Folded title={t("details.environment")} load={loadEnvironment} answer={answer} />
      {answer.missing.length > 0 && <Folded title={t("details.missing", { n: answer.missing.length })} load={loadMissing} answer={answer} />}
    </section>
  );
}
