// A choice that stands in the URL.

import "../style/choose.css";
import { put } from "../state/place";
import { t } from "../state/settings";

export interface ChooseProps {
  label: string;
  name: string;
  now: string;
  options: readonly (readonly [value: string, text: string])[];
  /** Other values of the URL that a new choice makes void. */
  clears?: readonly string[];
}

/** The metrics to choose from: each task's first, one, or all where that can be shown. */
export function metricOptions(metrics: readonly string[], all = true): ChooseProps["options"] {
  return [["", t("compare.leading")], ...metrics.map((metric) => [metric, metric.slice(0, 60)] as const), ...(all ? [["all", t("project.all")] as const] : [])];
}

/** A list to choose one of. */
export function Choose({ label, name, now, options, clears = [] }: ChooseProps) {
  const known = options.some(([value]) => value === now);
  return (
    <label class="choose">
      {label}
      <select value={now} onChange={(event) => put({ ...Object.fromEntries(clears.map((one) => [one, null])), [name]: event.currentTarget.value })}>
        {!known && <option value={now}>{now}</option>}
        {options.map(([value, text]) => (
          <option key={value} value={value}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}
