"""What a comparison of two sets of weights says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from midflight.records.verdict import Subject

Conclusion: TypeAlias = Literal["better", "worse", "different", "undecided"]
"""What a difference is, given its p-value; `different` where the metric has no direction."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Candidate − baseline on one metric of one task.

    Attributes:
        candidate: Label of the candidate.
        task: The task.
        metric: The metric's key.
        slice: ``name=value``, or empty for all items.
        value: The difference; None if a side has no value.
        candidate_value: The candidate's value, over the pairs where items are paired.
        baseline_value: The baseline's.
        stderr: Standard error of the difference.
        ci_low: Lower end of its interval.
        ci_high: Upper end.
        level: Level of the interval.
        p_value: Two-sided, of no difference, for this row alone.
        p_adjusted: The same over all rows that were compared (Holm 1979).
        test: The test that the p-value is from.
        method: How error and interval were computed; ``unpaired`` where items could not be paired.
        n: Pairs of items, or the smaller side's items where nothing is paired.
        num_better: Items on which the candidate scores better, by the metric's direction.
        num_worse: Items on which it scores worse.
        only_candidate: Items with a score on the candidate's side alone.
        only_baseline: Items with a score on the baseline's side alone.
        correlation: Of the two sides' scores.
        finding: What it comes to at 1 − level, p-values adjusted.
        unit: Unit of the value.
        higher_is_better: Direction; None = neither.
        note: What a reader has to know.
    """

    candidate: str
    task: str
    metric: str
    slice: str = ""
    value: float | None = None
    candidate_value: float | None = None
    baseline_value: float | None = None
    stderr: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    level: float = 0.95
    p_value: float | None = None
    p_adjusted: float | None = None
    test: str = ""
    method: str = ""
    n: int = 0
    num_better: int | None = None
    num_worse: int | None = None
    only_candidate: int = 0
    only_baseline: int = 0
    correlation: float | None = None
    finding: Conclusion = "undecided"
    unit: str = ""
    higher_is_better: bool | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class OverallIndex:
    """Mean over tasks of the differences on their first metric, each scaled by the metric's range, up = better.

    Attributes:
        candidate: Label of the candidate.
        value: The mean.
        stderr: √Σ se² ÷ number of tasks; tasks are taken as independent.
        ci_low: Lower end of the interval, normal.
        ci_high: Upper end.
        level: Its level.
        p_value: Two-sided, of no difference.
        tasks: Tasks in it.
        left_out: Tasks that are not, and why.
    """

    candidate: str
    value: float
    stderr: float
    ci_low: float
    ci_high: float
    level: float
    p_value: float
    tasks: Sequence[str]
    left_out: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    """Candidates against a baseline.

    Attributes:
        baseline: What the others are held against.
        candidates: The others.
        differences: One a candidate, task, metric and slice.
        overall: One a candidate, where two tasks or more can be averaged.
        left_out: Tasks that were not compared, and why.
    """

    baseline: Subject
    candidates: Sequence[Subject]
    differences: Sequence[Difference]
    overall: Sequence[OverallIndex] = ()
    left_out: Sequence[str] = ()
