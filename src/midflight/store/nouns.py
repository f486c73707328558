"""What a store takes and gives back: runs, points, curves, evaluations, signs of life."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from midflight.records import EvalReport, State

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
RunStatus: TypeAlias = Literal["running", "finished", "failed", "interrupted"]


@dataclass(frozen=True, slots=True)
class RunInfo:
    """A run as the store knows it.

    Attributes:
        id: Number in the store.
        project: The project.
        name: The name; not unique: the newest one is meant.
        status: `running` until its process says otherwise; a killed one stays `running`, see `midflight.show.state`.
        created: Seconds since the epoch (UTC).
        heartbeat: When its process last wrote.
        finished: When it ended; None while it runs.
        attempts: How often it was started: 1, and one more for each resume.
        earlier_seconds: Wall seconds that the attempts before the newest one took, each up to its last sign of life.
        config: What the user gave.
        tags: Labels.
        environment: Machine, process, versions.
        git: Commit, branch, cleanliness.
        lost_points: Points that could not be written because the store stayed unreachable.
        damage: What of its row cannot be read, and is empty or escaped here; empty if all can be.
    """

    id: int
    project: str
    name: str
    status: RunStatus
    created: float
    heartbeat: float
    finished: float | None = None
    attempts: int = 1
    earlier_seconds: float = 0.0
    config: Mapping[str, Any] = field(default_factory=dict)
    tags: Sequence[str] = ()
    environment: Mapping[str, Any] = field(default_factory=dict)
    git: Mapping[str, str] = field(default_factory=dict)
    lost_points: int = 0
    damage: str = ""


@dataclass(frozen=True, slots=True)
class Block:
    """Points of several series that were logged together.

    Attributes:
        keys: Names of the series (K).
        steps: Step of each row (N).
        walls: Seconds since the epoch of each row (N).
        values: Values (K, N); NaN and ±inf are values.
    """

    keys: tuple[str, ...]
    steps: Ints
    walls: Floats
    values: Floats


@dataclass(frozen=True, slots=True)
class Points:
    """A series: superseded points left out, sorted by step, the last value where a step was logged twice.

    Attributes:
        steps: Steps (N), increasing.
        walls: Seconds since the epoch (N).
        values: Values (N).
    """

    steps: Ints
    walls: Floats
    values: Floats


@dataclass(frozen=True, slots=True)
class Head:
    """The newest value of a series."""

    key: str
    step: int
    wall: float
    value: float
    num_points: int


@dataclass(frozen=True, slots=True)
class EvaluationHandle:
    """An evaluation that was begun, now or before a crash.

    Attributes:
        id: Its id.
        done: Its report, if it had come to its end already.
        seconds: Seconds that earlier sittings took.
    """

    id: str
    done: EvalReport | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class UnfinishedEvaluation:
    """An evaluation without a result.

    Attributes:
        task: The task's name.
        step: Step of the weights.
        status: `running` (or killed), `cancelled` by Ctrl-C, or `failed`.
        num_answered: Items with an answer so far.
        num_items: Items of the task.
    """

    task: str
    step: int
    status: str
    num_answered: int
    num_items: int


@dataclass(frozen=True, slots=True)
class ScoreColumns:
    """Scores of a metric as columns, sorted by item id: what a comparison of many items reads.

    Attributes:
        items: Ids (N).
        values: Scores (N); None where there is none.
        weights: Denominators of a ratio metric (N), else 1.
        states: How each item ended (N).
    """

    items: tuple[str, ...] = ()
    values: tuple[float | None, ...] = ()
    weights: tuple[float, ...] = ()
    states: tuple[State, ...] = ()


@dataclass(frozen=True, slots=True)
class NonFinite:
    """Values of a series in a bucket that are no finite number.

    Attributes:
        row: The series.
        bucket: The bucket.
        count: How many.
        kind: ``nan``, ``inf`` or ``-inf``; empty if they are of several kinds, or it is not known.
    """

    row: int
    bucket: int
    count: int
    kind: str


@dataclass(frozen=True, slots=True)
class Overviews:
    """Many series in one row of buckets; a spike of one step is in its bucket's minimum or maximum.

    Attributes:
        steps: First step of each bucket (B); buckets in which nothing was logged are left out.
        width: Steps that a bucket spans; 0 = each is one step, and what is given is the point itself.
        series: Run and key of each series (S).
        num_points: Points of each series within the range (S), superseded ones left out.
        mean: Mean of the finite values (S, B); NaN if the bucket has none.
        low: Smallest finite value (S, B).
        high: Largest (S, B).
        non_finite: Where there are others.
    """

    steps: Ints
    width: int
    series: tuple[tuple[int, str], ...]
    num_points: Ints
    mean: npt.NDArray[np.float32]
    low: npt.NDArray[np.float32]
    high: npt.NDArray[np.float32]
    non_finite: Sequence[NonFinite]


@dataclass(frozen=True, slots=True)
class Pulse:
    """What tells that a run has changed, cheap to read for all runs.

    Attributes:
        run: The run.
        status: As in `RunInfo`.
        heartbeat: When its process last wrote.
        tags: Its labels, as they are stored.
        num_series: Series.
        num_points: Points, superseded ones included.
        last_step: Largest step of the newest points; None if there is no series.
        num_evaluations: Evaluations with a result.
        num_unfinished: The others.
        evaluation_seconds: Seconds that they took.
        num_findings: What the detectors noticed while it ran.
    """

    run: int
    status: RunStatus
    heartbeat: float
    tags: str
    num_series: int = 0
    num_points: int = 0
    last_step: int | None = None
    num_evaluations: int = 0
    num_unfinished: int = 0
    evaluation_seconds: float = 0.0
    num_findings: int = 0


@dataclass(frozen=True, slots=True)
class SeriesCount:
    """A series over many runs: how many have it, and how many points."""

    key: str
    num_runs: int
    num_points: int


@dataclass(frozen=True, slots=True)
class EvaluationRow:
    """An evaluation as a list shows it, superseded or not.

    Attributes:
        id: Its id.
        run: Its run.
        task: The task's name.
        task_fingerprint: Of what was asked.
        step: Step of the weights.
        status: `running` (or killed), `done`, `partial`, `failed` or `cancelled`.
        started: When it began, in seconds since the epoch.
        seconds: Seconds that it took so far.
        report: Its result; None if it has none.
    """

    id: str
    run: int
    task: str
    task_fingerprint: str
    step: int
    status: str
    started: float
    seconds: float
    report: EvalReport | None


@dataclass(frozen=True, slots=True)
class Lease:
    """Who works on something, or last did.

    Attributes:
        name: What it is on.
        number: Number of the lease: one more each time that another takes it.
        owner: Who has, or had, it.
        beat: How often it was renewed; -1 = it was given back.
    """

    name: str
    number: int
    owner: str
    beat: int
