"""What a gate says of a release candidate: one object from which exit code, JSON, JUnit and Markdown are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

Outcome: TypeAlias = Literal["pass", "fail", "inconclusive"]

Tier: TypeAlias = Literal["blocking", "advisory"]
"""Only blocking rules decide; advisory ones are told."""

EXIT_CODES: Mapping[Outcome, int] = {"pass": 0, "fail": 1, "inconclusive": 3}
"""What a command that ends with a verdict returns; 2 is bad input."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What was judged, or what it was judged against.

    Attributes:
        label: As the user named it.
        project: Project of its run; empty if it came from files.
        run: Its run.
        step: Step of the weights; None if the tasks were evaluated at different steps.
        weights: Version of the weights: a digest where the engine could read them.
        evaluations: Ids of the evaluations that the evidence is from, by task.
    """

    label: str
    project: str = ""
    run: str = ""
    step: int | None = None
    weights: str = ""
    evaluations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Decision:
    """What one rule says, and why.

    Attributes:
        rule: The rule's name.
        tier: Whether it decides.
        outcome: `pass` and `fail` are proved; what is not proved either way is `inconclusive`.
        requirement: What the rule asks for, in words: ``gsm8k exact_match: drop of at most 0.01``.
        reason: Why it ended so, in words, with the numbers.
        task: The task; empty if the rule is not about one.
        metric: The metric.
        slice: ``name=value``, or empty for all items.
        value: The candidate's value.
        baseline: The baseline's.
        difference: Candidate − baseline, if the rule compares.
        ci_low: Lower end of the interval of what is judged: value, or difference.
        ci_high: Upper end.
        level: Level of that interval.
        bound: The number that the interval is held against.
        n: Items, or pairs of items, behind it.
        coverage: Share of the items that have a score.
        p_pass: Smallest error rate at which it would pass; None where nothing is tested.
        p_fail: Smallest error rate at which it would fail.
        method: How the interval was computed.
        missing: What it could not be decided without, e.g. ``task`` or ``coverage``; empty if there was evidence.
        blocks: Whether it keeps the verdict from passing.
    """

    rule: str
    tier: Tier
    outcome: Outcome
    requirement: str
    reason: str
    task: str = ""
    metric: str = ""
    slice: str = ""
    value: float | None = None
    baseline: float | None = None
    difference: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    level: float | None = None
    bound: float | None = None
    n: int = 0
    coverage: float | None = None
    p_pass: float | None = None
    p_fail: float | None = None
    method: str = ""
    missing: str = ""
    blocks: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """The gate's word.

    Attributes:
        id: Unique.
        outcome: Pass, fail or inconclusive, by the policy's word on what is inconclusive.
        policy: Name of the policy.
        policy_digest: SHA-256 of what it says.
        candidate: What was judged.
        baseline: What it was judged against; None if no rule compares.
        decisions: One a rule, slice and metric.
        reasons: Why it does not pass; empty if it does.
        alpha: Error rate that was kept over all blocking rules at this look.
        look: How often this policy has looked at checkpoints of this run so far, this look included; 0 = not counted.
        created_at: Seconds since the epoch (UTC).
        software: Versions of what took part.
        environment: Who ran it and where.
        warnings: What is worth a look although it does not decide.
        schema_version: Version of this schema.
    """

    id: str
    outcome: Outcome
    policy: str
    policy_digest: str
    candidate: Subject
    baseline: Subject | None
    decisions: Sequence[Decision]
    reasons: Sequence[str]
    alpha: float
    look: int
    created_at: float
    software: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    warnings: Sequence[str] = field(default_factory=list)
    schema_version: int = 1

    @property
    def exit_code(self) -> int:
        """0 = pass, 1 = fail, 3 = inconclusive."""
        return EXIT_CODES[self.outcome]

    @property
    def worst_first(self) -> list[Decision]:
        """The decisions: first what keeps it from passing, then what else does not pass, as the policy has them."""
        badness = {"fail": 0, "inconclusive": 1, "pass": 2}
        return sorted(self.decisions, key=lambda decision: (not decision.blocks, badness[decision.outcome]))
