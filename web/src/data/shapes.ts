// The records that several answers hold, as JSON has them.

/** A number that JSON may lack: then it is one of three words. */
export type Num = number | "NaN" | "Infinity" | "-Infinity";
export type Plain = string | number | boolean | null;

export interface Estimate {
  metric: string;
  slice: string;
  value: Num | null;
  stderr: Num | null;
  ci_low: Num | null;
  ci_high: Num | null;
  level: number;
  n: number;
  num_scored: number;
  clusters: number;
  method: string;
  counts: Record<string, number>;
  unit: string;
  higher_is_better: boolean | null;
  lowest: number | null;
  highest: number | null;
  partial: boolean;
  note: string;
}

export type Conclusion = "better" | "worse" | "different" | "undecided";

export interface Difference {
  candidate: string;
  task: string;
  metric: string;
  slice: string;
  value: Num | null;
  candidate_value: Num | null;
  baseline_value: Num | null;
  stderr: Num | null;
  ci_low: Num | null;
  ci_high: Num | null;
  level: number;
  p_value: Num | null;
  p_adjusted: Num | null;
  test: string;
  method: string;
  n: number;
  num_better: number | null;
  num_worse: number | null;
  only_candidate: number;
  only_baseline: number;
  correlation: Num | null;
  finding: Conclusion;
  unit: string;
  higher_is_better: boolean | null;
  note: string;
}

export type Severity = "note" | "warn" | "stop";

export interface Finding {
  kind: string;
  severity: Severity;
  onset: number;
  noticed: number;
  metrics: string[];
  text: string;
  evidence: Record<string, Num>;
  meaning: string;
  advice: string;
  confirm: string;
}

export type Counts = Record<Severity, number>;

export interface Diagnosis {
  status: "ready" | "pending" | "off";
  note?: string;
  algorithm: string | null;
  findings: Finding[];
  judged: string[];
  lacking: string[];
  num_records: number | null;
  counts: Counts | null;
}

export type RunState = "running" | "finished" | "failed" | "interrupted" | "lost";

export interface Latest {
  task: string;
  label: string;
  metric: string;
  step: number;
  evaluation: string;
  estimate: Estimate;
}

export interface Run {
  id: number;
  project: string;
  name: string;
  state: RunState;
  created: number;
  heartbeat: number;
  finished: number | null;
  seconds: number;
  attempts: number;
  tags: string[];
  config: Record<string, Plain>;
  git: Record<string, string>;
  lost_points: number;
  last_step: number | null;
  num_series: number;
  num_points: number;
  num_evaluations: number;
  num_unfinished: number;
  train_share: number | null;
  evaluation_seconds: number;
  spark: { kind: "evaluation" | "series"; key: string; steps: number[]; values: (Num | null)[] } | null;
  latest: Latest[];
  findings: Counts | null;
}
