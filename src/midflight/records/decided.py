"""What a sequential rule made of an evaluation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Decided:
    """What a sequential rule says of an evaluation. It speaks about this set of items with these answers.

    Attributes:
        metric: The metric that it is about.
        claim: ``not_worse`` = candidate − baseline is at least −margin over the whole set, ``better`` = above margin,
            in the metric's good direction.
        margin: In the unit of the metric.
        alpha: Error rate.
        seed: Seed of the order in which items are visited.
        baseline: What it was compared with, for people: ``project/run@step``.
        evaluation: Id of the baseline's evaluation.
        outcome: `pass` and `fail` are decided; `undecided` = the evaluation ended before.
        early: Whether items were not asked because of the decision.
        n: Items that were looked at, in that order, up to the decision.
        size: Items in the set.
        e_value: Evidence for the outcome: decided at 1 ÷ alpha; infinite where it is certain.
        difference: Mean of candidate − baseline over those n items that have both scores; None if none has.
        ci_low: Lower end of the interval of the mean difference over the whole set.
        ci_high: Upper end.
        level: Level of that interval, at which it agrees with the decision: 1 − 2·alpha.
        method: How it was decided.
    """

    metric: str
    claim: Literal["not_worse", "better"]
    margin: float
    alpha: float
    seed: int
    baseline: str
    evaluation: str
    outcome: Literal["pass", "fail", "undecided"]
    early: bool
    n: int
    size: int
    e_value: float
    difference: float | None
    ci_low: float
    ci_high: float
    level: float
    method: str

    @property
    def rule(self) -> str:
        """What was asked, in words."""
        if self.claim == "not_worse":
            return f"{self.metric} not worse than {self.baseline} by more than {self.margin:zg}"
        by = f" by more than {self.margin:zg}" if self.margin else ""
        return f"{self.metric} better than {self.baseline}{by}"
