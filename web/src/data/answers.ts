// What the server answers to each question; /openapi.json has the same.

import type { Decision, Diagnosis, Difference, Estimate, Num, Plain, Run, RunState, Subject } from "./shapes";

export interface ProjectsAnswer {
  version: string;
  store: string;
  allow_write: boolean;
  login: boolean;
  now: number;
  since: string;
  projects: { name: string; num_runs: number; num_running: number; last_activity: number | null }[];
}

export interface TaskColumn {
  task: string;
  label: string;
  metric: string;
  unit: string;
  higher_is_better: boolean | null;
}

export interface RunsAnswer {
  total: number;
  offset: number;
  runs: Run[];
  /** All runs that match, in the order of the rows; more than the rows. */
  ids?: number[];
  since: string;
  columns: {
    axes?: { epoch: string | null; tokens: string | null };
    config: string[];
    tasks: TaskColumn[];
    tags: string[];
    series: { key: string; num_runs: number; num_points: number }[];
  };
}

export interface EvaluationPoint {
  step: number;
  epoch: number | null;
  tokens: number | null;
  at: number;
  evaluation: string;
  weights: string;
  seconds: number;
  status: string;
  estimate: Estimate;
}

export interface Trend {
  value: Num | null;
  ci_low: Num | null;
  ci_high: Num | null;
  level: number;
  improving: string;
  first_step: number;
  last_step: number;
  n: number;
  per_steps: number;
  method: string;
}

export interface Flips {
  learned: number;
  forgotten: number;
  n: number;
  learned_items: string[];
  forgotten_items: string[];
}

export interface FlipPoint {
  step: number;
  solved: number;
  learned: number;
  forgotten: number;
  ever: number;
  n: number;
}

export interface RunTask {
  task: string;
  label: string;
  metric: string;
  unit: string;
  higher_is_better: boolean | null;
  lowest: number | null;
  highest: number | null;
  level: number;
  points: EvaluationPoint[];
  num_points: number;
  now: number | null;
  best: { step: number; measured: Num; value: Num; ci_low: Num | null; ci_high: Num | null; share: number; method: string } | null;
  reference: { run: number; run_name: string; step: number; evaluation: string; estimate: Estimate } | null;
  difference: Difference | null;
  difference_note: string;
  trend: Trend | null;
  trend_note: string;
  noise: { value: Num; n: number; method: string } | null;
  flips: Flips | null;
  flips_note: string;
  flip_curve: FlipPoint[];
  metrics: { metric: string; estimate: Estimate }[];
  slices: { slice: string; estimate: Estimate }[];
}

export interface Marker {
  kind: "evaluation" | "missing" | "checkpoint" | "best" | "promoted" | "resume";
  step: number;
  text: string;
}

export interface RunAnswer {
  run: Run;
  environment: Record<string, Plain>;
  config: Record<string, unknown>;
  since: string;
  reference: string;
  references: { id: string; label: string; step: number | null }[];
  tasks: RunTask[];
  series: { key: string; step: number; at: number; value: Num | null; num_points: number; group: string }[];
  axes: { epoch: string | null; tokens: string | null };
  diagnosis: Diagnosis;
  markers: Marker[];
  unfinished: { task: string; step: number; status: string; num_answered: number; num_items: number }[];
  missing: { task: string; step: number; reason: string }[];
  cost: {
    seconds: number;
    train_share: number | null;
    prompt_tokens: number;
    output_tokens: number;
    peak_memory_bytes: number | null;
  };
}

export interface SeriesAnswer {
  low: number | null;
  high: number | null;
  width: number;
  exact: boolean;
  num_buckets: number;
  steps: string;
  series: {
    run: number;
    key: string;
    at: number;
    bands: boolean;
    num_points: number;
    non_finite: [number, number, string][];
  }[];
  envelopes: { key: string; at: number }[];
  walls?: { run: number; at: number }[];
  data: string;
  left_out: string[];
  since: string;
}

export interface Side {
  label: string;
  run: number;
  name: string;
  step: number;
}

export interface CompareAnswer {
  baseline: Side;
  candidates: Side[];
  metrics: string[];
  differences: Difference[];
  overall: {
    candidate: string;
    value: Num | null;
    stderr: Num | null;
    ci_low: Num | null;
    ci_high: Num | null;
    level: number;
    p_value: Num | null;
    tasks: string[];
    left_out: string[];
  }[];
  left_out: string[];
  refused: { candidate: string; message: string }[];
  curves: { run: number; task: string; label: string; metric: string; points: { step: number; estimate: Estimate }[] }[];
  config: { keys: { key: string; values: Plain[]; differs: boolean }[]; runs: number[] };
}

export interface GroupPoint {
  step: number;
  value: Num | null;
  ci_low: Num | null;
  ci_high: Num | null;
  level: number;
  n: number;
  values: Record<string, Num | null>;
  missing: string[];
}

export interface GroupsAnswer {
  groups: { name: string; runs: { id: number; name: string; seed: string }[] }[];
  tasks: string[];
  metrics: string[];
  curves: { group: string; task: string; metric: string; slice: string; label: string; unit: string; points: GroupPoint[] }[];
  suggested: string[];
}

export interface ScalingAnswer {
  work: string;
  unit: string;
  timings: { run: string; count: number; seconds: number; rate: number | null; speedup: number | null; efficiency: number | null; note: string }[];
  law: { serial: number; ci_low: number | null; ci_high: number | null; level: number; scatter: number | null; n: number; note: string } | null;
  /** What the law says, at counts evenly spread on a log axis. */
  curve: { count: number; seconds: number; ci_low: number | null; ci_high: number | null; speedup: number; is_extrapolated: boolean }[];
}

export interface ItemRow {
  id: string;
  title: string;
  slices: Record<string, string>;
  first: boolean | null;
  now: boolean | null;
  flips: number;
}

export interface ItemsAnswer {
  run: number;
  task: string;
  label: string;
  metric: string;
  metrics: string[];
  lowest: number | null;
  highest: number | null;
  higher_is_better: boolean | null;
  binary: boolean;
  checkpoints: { step: number; evaluation: string; weights: string; estimate: Estimate | null }[];
  num_checkpoints?: number;
  reference: number | null;
  total: number;
  offset: number;
  items: ItemRow[];
  values: string;
  states: string;
  counts: Record<string, number>;
  flip_curve: FlipPoint[];
  note: string;
}

export interface BoundedText {
  text: string;
  length: number;
}

export interface Answer {
  run: number;
  name: string;
  step: number;
  evaluation: string;
  state: string;
  note: string;
  scores: { metric: string; value: Num | null; state: string; note: string; samples: (Num | null)[] }[];
  outputs: {
    request: string;
    sample: number;
    part: number;
    text: BoundedText;
    num_prompt_tokens: number | null;
    num_tokens: number | null;
    finish_reason: string | null;
    logprob: Num | null;
    seconds: number | null;
    error: string | null;
  }[];
}

export interface ItemAnswer {
  task: string;
  item: {
    id: string;
    row: Record<string, BoundedText>;
    target: BoundedText | null;
    slices: Record<string, string>;
    cluster: string | null;
  };
  history: { run: number; name: string; steps: number[]; values: (Num | null)[]; states: string[] }[];
  answers: Answer[];
  previous: string | null;
  next: string | null;
}

export interface FindingsAnswer {
  runs: { run: number; name: string; diagnosis: Diagnosis }[];
  detectors: { kind: string; summary: string }[];
}

export interface GatesAnswer {
  available: boolean;
  verdicts: {
    id: string;
    outcome: string;
    policy: string;
    policy_digest: string;
    created_at: number;
    alpha: number | null;
    look: number | null;
    reasons: string[];
    candidate: Subject;
    baseline: Subject | null;
    decisions: Decision[];
  }[];
  releases: {
    target: string;
    checkpoint: string;
    weights: string;
    workflow: string;
    execution: string;
    verdict: string;
    at: number;
    who: string;
    current: boolean;
  }[];
  executions: {
    id: string;
    workflow: string;
    status: string;
    checkpoint: string;
    weights: string;
    verdict: string;
    created: number;
    reason: string;
    steps: { position: number; name: string; kind: string; status: string; attempts: number; reason: string }[];
  }[];
  audit: { at: number; who: string; workflow: string; checkpoint: string; weights: string; step: string; event: string }[];
  num_verdicts?: number;
  num_executions?: number;
  num_audit?: number;
}

export interface Evaluation {
  id: string;
  run: number;
  run_name: string;
  project: string;
  task: string;
  step: number;
  status: string;
  started: number;
  seconds: number | null;
  num_answered: number;
  num_items: number;
  estimate: Estimate | null;
  cost: {
    seconds: number;
    output_tokens: number;
    train_share: number | null;
    rank_seconds: Record<string, number>;
    straggler: string;
    lost_share: number | null;
    tokens_per_second: number | null;
    peak_memory_bytes: number | null;
  } | null;
  errors: Record<string, number>;
}

export interface EvaluationsAnswer {
  total: number;
  offset: number;
  now: number;
  evaluations: Evaluation[];
  leases: { name: string; number: number; owner: string; beat: number; held: boolean }[];
  missing: { run: number; run_name: string; task: string; step: number; reason: string }[];
  by_run: { run: number; run_name: string; seconds: number; train_share: number | null; num_evaluations: number; output_tokens: number }[];
}

export type Changed = "points" | "evaluations" | "state" | "findings" | "tags" | "new";

export interface Change {
  since: string;
  reset: boolean;
  runs: {
    id: number;
    state: RunState;
    last_step: number | null;
    num_points: number;
    num_evaluations: number;
    heartbeat: number;
    changed: Changed[];
  }[];
}
