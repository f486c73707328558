// The runs one may choose from, newest first, as other pages than the project's need them.

import { useAnswer, watching } from "./answer";
import { address, report } from "./request";
import type { RunsAnswer } from "./answers";
import { value } from "../state/place";

/** Runs of the project, and what they were evaluated on. */
export function useRunsList(): RunsAnswer | null {
  const where = address("/api/runs", report ? { runs: report.runs } : { project: value("project") });
  return useAnswer<RunsAnswer>(where, watching(null, ["new"])).value;
}
