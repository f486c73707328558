// A field in which a run's tags are changed.

import { useRef, useState } from "preact/hooks";
import type { Run } from "../data/answers";
import { change } from "../data/request";
import { t } from "../state/settings";
import { Failure } from "./empty";

function split(text: string): string[] {
  return text.split(",").map((tag) => tag.trim()).filter(Boolean);
}

/** The field; Enter saves, leaving it does not. */
export function TagsEditor({ run, onDone }: { run: Run; onDone: (tags: string[]) => void }) {
  const [error, setError] = useState("");
  const saving = useRef(false);
  const save = (text: string) => {
    saving.current = true;
    change<Run>(`/api/runs/${run.id}`, { tags: split(text) }).then(
      (now) => onDone(now.tags),
      (why: Error) => {
        saving.current = false;
        setError(why.message);
      },
    );
  };
  return (
    <>
      <input
        type="text"
        aria-label={t("run.tags")}
        placeholder="a, b"
        defaultValue={run.tags.join(", ")}
        ref={(element) => element?.focus()}
        onKeyDown={(event) => event.key === "Enter" && save(event.currentTarget.value)}
        onBlur={() => !saving.current && onDone(run.tags)}
      />
      {error && <Failure text={error} />}
    </>
  );
}
