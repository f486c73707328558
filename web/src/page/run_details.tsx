// Everything else about a run, folded: all metrics and slices, its configuration, where it ran.

import type { ComponentChildren } from "preact";
import type { RunAnswer } from "../data/answers";
import { href } from "../state/place";
import { t } from "../state/settings";
import { plain, size } from "../words/numbers";
import { Value } from "../part/interval";
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

function Metrics({ answer }: { answer: RunAnswer }) {
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

/** What is known of a run besides the three answers. */
export function RunDetails({ answer }: { answer: RunAnswer }) {
  const { run, environment } = answer;
  const texts = (values: Record<string, unknown>) => Object.entries(values).map(([name, value]) => [name, <Seen text={plain(value)} />] as const);
  return (
    <section class="details">
      <details>
        <summary>{t("details.metrics")}</summary>
        <Metrics answer={answer} />
      </details>
      <details>
        <summary>{t("details.config", { n: Object.keys(answer.config).length })}</summary>
        <Pairs pairs={texts(answer.config)} />
      </details>
      <details>
        <summary>{t("details.environment")}</summary>
        <Pairs pairs={[...texts(environment), ...texts(run.git), [t("details.memory"), size(answer.cost.peak_memory_bytes)]]} />
      </details>
      {answer.missing.length > 0 && (
        <details>
          <summary>{t("details.missing", { n: answer.missing.length })}</summary>
          <Pairs pairs={answer.missing.map((one) => [`${one.task} @ ${one.step}`, <Seen text={one.reason} />] as const)} />
        </details>
      )}
    </section>
  );
}
