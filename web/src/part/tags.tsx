// A run's tags; where the server lets the page write, they can be changed.

import { useState } from "preact/hooks";
import { useAnswer } from "../data/answer";
import { change, report } from "../data/request";
import type { ProjectsAnswer } from "../data/answers";
import type { Run } from "../data/shapes";
import { t } from "../state/settings";
import { Failure } from "./empty";
import { Name } from "./text";

function split(text: string): string[] {
  return text.split(",").map((tag) => tag.trim()).filter(Boolean);
}

function Editor({ run, onDone }: { run: Run; onDone: (tags: string[]) => void }) {
  const [error, setError] = useState("");
  const save = (text: string) => change<Run>(`/api/runs/${run.id}`, { tags: split(text) }).then((now) => onDone(now.tags), (why: Error) => setError(why.message));
  return (
    <>
      <input
        type="text"
        aria-label={t("run.tags")}
        placeholder="a, b"
        defaultValue={run.tags.join(", ")}
        ref={(element) => element?.focus()}
        onKeyDown={(event) => event.key === "Enter" && void save(event.currentTarget.value)}
        onBlur={() => onDone(run.tags)}
      />
      {error && <Failure text={error} />}
    </>
  );
}

/** The tags. */
export function Tags({ run }: { run: Run }) {
  const [saved, setSaved] = useState<string[] | null>(null);
  const [editing, setEditing] = useState(false);
  const { value: projects } = useAnswer<ProjectsAnswer>("/api/projects");
  const tags = saved ?? run.tags;
  const done = (now: string[]) => {
    setEditing(false);
    setSaved(now);
  };
  if (editing) return <Editor run={{ ...run, tags }} onDone={done} />;
  return (
    <span>
      {tags.map((tag) => (
        <span class="tag" key={tag}>
          <Name text={tag} most={24} />
        </span>
      ))}
      {projects?.allow_write && !report && (
        <button type="button" class="link" onClick={() => setEditing(true)}>
          {t("run.tags.change")}
        </button>
      )}
    </span>
  );
}
