// How far runs are, as changes say it: rows and headings go on by themselves, so nothing is asked for.

import { useEffect, useMemo, useState } from "preact/hooks";
import { listen } from "./live";
import type { Change, Run } from "./answers";
import { toNumber } from "../words/numbers";

type News = Map<number, Change["runs"][number]>;

function renew(run: Run, news: News): Run {
  const fresh = news.get(run.id);
  if (!fresh || fresh.heartbeat < run.heartbeat) return run;
  const { state, last_step, num_points, num_evaluations, heartbeat } = fresh;
  const seconds = state === "running" ? Math.max(toNumber(run.seconds), toNumber(heartbeat) - toNumber(run.created)) : run.seconds;
  return { ...run, state, last_step, num_points, num_evaluations, heartbeat, seconds };
}

/** The same runs as they are now. */
export function useLiveRuns(given: readonly Run[]): readonly Run[] {
  const [news, setNews] = useState<News>(new Map());
  useEffect(
    () =>
      listen((change) => {
        setNews((old) => {
          const next = new Map(old);
          for (const run of change.runs) next.set(run.id, run);
          return next;
        });
      }),
    [],
  );
  return useMemo(() => (news.size ? given.map((run) => renew(run, news)) : given), [given, news]);
}
