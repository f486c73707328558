"""What a detector noticed in a training run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Severity: TypeAlias = Literal["note", "warn", "stop"]
"""`stop` = fix or end the run; `warn` = look at it; `note` = a line in a report."""

SEVERITIES: tuple[Severity, ...] = ("note", "warn", "stop")


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong with a run, and what it rests on.

    Attributes:
        kind: The detector's key, e.g. ``entropy_collapse``.
        severity: How bad it is.
        onset: First step of the evidence.
        noticed: Step at which there was enough of it to say so.
        metrics: Names of the series, as they were logged.
        text: What was seen, with its numbers.
        evidence: The numbers by name.
        meaning: What it means.
        advice: What to try.
        confirm: What would confirm it.
    """

    kind: str
    severity: Severity
    onset: int
    noticed: int
    metrics: Sequence[str]
    text: str
    evidence: Mapping[str, float] = field(default_factory=dict)
    meaning: str = ""
    advice: str = ""
    confirm: str = ""
