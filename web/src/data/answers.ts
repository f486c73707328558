// What the server answers, by the names that pages use; the types are made from its OpenAPI document by `npm run types`.

import type { Change, Difference, FindingShape, RunShape } from "../../generated/answers";

export type {
  AnswerShape as Answer,
  BoundedText,
  Change,
  CompareAnswer,
  Counts,
  Decision,
  DiagnosisShape as Diagnosis,
  Difference,
  EstimateShape as Estimate,
  EvaluationShape as Evaluation,
  EvaluationsAnswer,
  FindingShape as Finding,
  FindingsAnswer,
  FlipPoint,
  GatesAnswer,
  GroupsAnswer,
  ItemAnswer,
  ItemsAnswer,
  Marker,
  Num,
  ProjectsAnswer,
  RunAnswer,
  RunShape as Run,
  RunsAnswer,
  ScalingAnswer,
  SeriesAnswer,
  SideShape as Side,
  Subject,
  TaskColumn,
  TaskCurve as RunTask,
} from "../../generated/answers";

export type Changed = Change["runs"][number]["changed"][number];
export type Conclusion = Difference["finding"];
export type RunState = RunShape["state"];
export type Severity = FindingShape["severity"];
