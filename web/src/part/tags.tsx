// A run's tags; where the server lets the page write, they can be changed.

import { useState } from "preact/hooks";
import { useAnswer } from "../data/answer";
import { report } from "../data/request";
import type { ProjectsAnswer } from "../data/answers";
import type { Run } from "../data/answers";
import { t } from "../state/settings";
import { Later } from "./later";
import { Name } from "./text";

const loadEditor = () => import("./tags_editor").then((module) => module.TagsEditor);

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
  if (editing) return <Later load={loadEditor} props={{ run: { ...run, tags }, onDone: done }} />;
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
