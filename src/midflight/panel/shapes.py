"""Shapes that several answers share, as JSON has them; `docs/panel.md` explains them, OpenAPI is made from them."""

from __future__ import annotations

from typing import Any, Literal

from typing_extensions import TypedDict  # pydantic makes schemas of these alone before Python 3.12

from midflight.panel.state import State
from midflight.records import Severity
from midflight.records import State as ItemState

Json = Any
"""What a user or a task has put there."""


class BoundedText(TypedDict):
    """A text that may be cut: it is if `length` is larger than that of `text`."""

    text: str
    length: int


class EstimateShape(TypedDict):
    """`midflight.records.Estimate`."""

    metric: str
    slice: str
    value: float | None
    stderr: float | None
    ci_low: float | None
    ci_high: float | None
    level: float
    n: int
    num_scored: int
    clusters: int
    method: str
    counts: dict[ItemState, int]
    unit: str
    higher_is_better: bool | None
    lowest: float | None
    highest: float | None
    partial: bool
    note: str


class FindingShape(TypedDict):
    """`midflight.records.Finding`."""

    kind: str
    severity: Severity
    onset: int
    noticed: int
    metrics: list[str]
    text: str
    evidence: dict[str, float]
    meaning: str
    advice: str
    confirm: str


class Counts(TypedDict):
    """Findings by severity."""

    stop: int
    warn: int
    note: int


class DiagnosisShape(TypedDict):
    """What the detectors say of a run; `off` says why in `note`."""

    status: Literal["ready", "pending", "off"]
    note: str
    algorithm: str | None
    findings: list[FindingShape]
    judged: list[str]
    lacking: list[str]
    num_records: int | None
    first_step: int | None
    last_step: int | None
    counts: Counts | None


class Spark(TypedDict):
    """A small curve: an evaluation's leading metric, or a training series."""

    kind: Literal["evaluation", "series"]
    key: str
    steps: list[int]
    values: list[float]


class Latest(TypedDict):
    """The newest evaluation of a task."""

    task: str
    label: str
    metric: str
    step: int
    evaluation: str
    estimate: EstimateShape


class RunShape(TypedDict):
    """A row of the table of runs.

    `stopped_by` is the finding after which one ended early, `damage` what of it cannot be read; empty if there is none.
    """

    id: int
    project: str
    name: str
    state: State
    created: float
    heartbeat: float
    finished: float | None
    seconds: float
    attempts: int
    tags: list[str]
    config: dict[str, Json]
    git: dict[str, str]
    damage: str
    lost_points: int
    last_step: int | None
    planned_steps: int | None
    seconds_left: float | None
    ended_early: bool
    stopped_by: str
    num_series: int
    num_points: int
    num_evaluations: int
    num_unfinished: int
    train_share: float | None
    evaluation_seconds: float
    spark: Spark | None
    latest: list[Latest]
    findings: Counts | None


class CostShape(TypedDict):
    """`midflight.records.Cost`."""

    seconds: float
    num_requests: int
    prompt_tokens: int
    output_tokens: int
    peak_memory_bytes: int | None
    train_share: float | None
    rank_seconds: dict[str, float]
    straggler: str
    lost_share: float | None
    tokens_per_second: float | None
