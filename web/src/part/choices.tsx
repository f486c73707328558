// A choice of few, side by side; it stands in the URL.

import type { ComponentChildren } from "preact";
import { put, value } from "../state/place";
import { t } from "../state/settings";

export interface ChoicesProps {
  label: string;
  name: string;
  now: string;
  /** Values with what is written on them; an empty value is what holds where the URL says nothing. */
  options: readonly (readonly [value: string, content: ComponentChildren])[];
  /** Other values of the URL that a new choice makes void. */
  clears?: readonly string[];
}

/** Buttons to choose one of. */
export function Choices({ label, name, now, options, clears = [] }: ChoicesProps) {
  return (
    <span class="choice" role="group" aria-label={label}>
      {options.map(([value, content]) => (
        <button type="button" key={value} aria-pressed={now === value} onClick={() => put({ ...Object.fromEntries(clears.map((one) => [one, null])), [name]: value || null })}>
          {content}
        </button>
      ))}
    </span>
  );
}

/** Whether charts have a linear or a logarithmic y axis. */
export function ScaleChoice() {
  return <Choices label={t("chart.scale")} name="log" now={value("log") === "1" ? "1" : ""} options={[["", t("scale.linear")], ["1", t("scale.log")]]} />;
}
