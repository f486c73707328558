import { NOT_IN_REPORT } from "../data/request";
import { t, type Word } from "../state/settings";

type What = "loading" | "runs" | "match" | "tasks" | "items" | "gates" | "evaluations" | "compare";

const COMMANDS: Partial<Record<What, string>> = {
  runs: 'import midflight as mf\n\nrun = mf.Run(project="my-project", name="first")\nrun.log(step, loss=loss)',
  gates: "midflight gate --help",
};

/** Why there is nothing, and what to type so that there is something. */
export function Empty({ what }: { what: What }) {
  const word: Word = `empty.${what}`;
  return (
    <div class={`nothing ${what}`} role="status">
      <p>{t(word)}</p>
      {COMMANDS[what] && <pre>{COMMANDS[what]}</pre>}
    </div>
  );
}

/** What went wrong. */
export function Failure({ text }: { text: string }) {
  return (
    <p class="error" role="alert">
      {text === NOT_IN_REPORT ? t("report.absent") : text}
    </p>
  );
}
