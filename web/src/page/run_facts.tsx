// Facts about a run: all metrics and slices, its configuration, where it ran, what was not evaluated.

import "../style/evidence.css";
import type { ComponentChildren } from "preact";
import type { RunAnswer } from "../data/answers";
import { href } from "../state/place";
import { t } from "../state/settings";
import { plain, size } from "../words/numbers";
import { Value } from "../part/value";
import { Name, Seen } from "../part/text";

function Pairs({ pairs }: { pairs: readonly (readonly [string, ComponentChildren])[] }) {
  return (
    <dl class="pairs">
      {pairs.map(([name, value]) => (
        <div key={name}>
          <dt>
            <Name text={name} most={48} />
          </dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** All metrics and slices of the newest evaluations. */
export function Metrics({ answer }: { answer: RunAnswer }) {
  return (
    <div class="columns">
      {answer.tasks.map((task) => (
        <table key={`${task.task}/${task.label}`}>
          <caption>
            <Name text={task.task} />
          </caption>
          <tbody>
            {task.metrics.map(({ metric, estimate }) => (
              <tr key={metric}>
                <th scope="row">
                  <a href={href(`/run/${answer.run.id}`, { metric })}>
                    <Name text={metric} />
                  </a>
                </th>
                <td>
                  <Value estimate={estimate} long />
                </td>
              </tr>
            ))}
            {task.slices.map(({ slice, estimate }) => (
              <tr key={slice}>
                <th scope="row" class="slice">
                  <Name text={slice} />
                </th>
                <td>
                  <Value estimate={estimate} long />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      ))}
    </div>
  );
}

function texts(values: Record<string, unknown>) {
  return Object.entries(values).map(([name, value]) => [name, <Seen text={plain(value)} />] as const);
}

/** The configuration. */
export function Config({ answer }: { answer: RunAnswer }) {
  return <Pairs pairs={texts(answer.config)} />;
}

/** Machine, software and commit. */
export function Environment({ answer }: { answer: RunAnswer }) {
  return <Pairs pairs={[...texts(answer.environment), ...texts(answer.run.git), [t("details.memory"), size(answer.cost.peak_memory_bytes)]]} />;
}

/** Evaluations that did not take place, and why. */
export function Missing({ answer }: { answer: RunAnswer }) {
  return <Pairs pairs={answer.missing.map((one) => [`${one.task} @ ${one.step}`, <Seen text={one.reason} />] as const)} />;
}
