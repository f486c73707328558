"""What a store keeps and gives back, whatever is behind it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

from midflight.records import (
    Actor,
    AuditEvent,
    EvalReport,
    Execution,
    ExecutionStatus,
    Finding,
    Item,
    Output,
    Progress,
    Score,
    Verdict,
    WorkflowStep,
)
from midflight.store.nouns import (
    Block,
    EvaluationHandle,
    EvaluationRow,
    Floats,
    Head,
    Ints,
    Lease,
    Overviews,
    Points,
    Pulse,
    RunInfo,
    RunStatus,
    ScoreColumns,
    SeriesCount,
    UnfinishedEvaluation,
)

__all__ = [
    "Block",
    "EvaluationHandle",
    "EvaluationRow",
    "Floats",
    "Head",
    "Ints",
    "Lease",
    "Overviews",
    "Points",
    "Pulse",
    "RunInfo",
    "RunStatus",
    "ScoreColumns",
    "SeriesCount",
    "Store",
    "UnfinishedEvaluation",
]


class Store(Protocol):
    """Keeps runs, points, evaluations, outputs, scores and verdicts. Many processes may write and read at once."""

    url: str

    @property
    def location(self) -> str:
        """URL at which other processes find it."""

    def create_run(
        self,
        project: str,
        name: str,
        *,
        owner: str,
        config: Mapping[str, Any] = ...,
        tags: Sequence[str] = ...,
        environment: Mapping[str, Any] = ...,
        git: Mapping[str, str] = ...,
        unless_named: bool = False,
    ) -> RunInfo:
        """Adds a run and its first attempt; with `unless_named`, gives the newest of that name if there is one."""

    def runs(
        self, project: str | None = None, name: str | None = None, ids: Sequence[int] | None = None
    ) -> list[RunInfo]:
        """Runs, newest first; only those of a project, of a name, with these numbers."""

    def run_ids(self) -> set[int]:
        """Numbers of all runs."""

    def owner(self, run: int) -> str:
        """Who writes to a run."""

    def resume_run(self, run: int, *, owner: str, before: str) -> int | None:
        """Begins another attempt at a run; its number. None if the run is no longer the one of owner `before`.

        What an attempt writes supersedes what earlier ones have from there on: series by series, unless `begin_attempt`
        says at which step it goes on.
        """

    def attempts(self, run: int) -> list[tuple[int, float, int | None]]:
        """Attempts at a run: number, when it began, and its first step if it was told where it resumed."""

    def begin_attempt(self, run: int, attempt: int, step: int) -> None:
        """Says that an attempt goes on behind a step: what earlier attempts have after it is superseded."""

    def beat(self, run: int) -> None:
        """Says that the run's process is alive."""

    def finish_run(self, run: int, status: RunStatus, lost_points: int = 0) -> None:
        """Ends a run."""

    def append_points(self, run: int, attempt: int, blocks: Sequence[Block]) -> None:
        """Adds points; all of them or, if it raises, none."""

    def keys(self, run: int) -> list[str]:
        """Names of a run's series, sorted."""

    def heads(self, run: int) -> list[Head]:
        """Newest value of each series."""

    def read_points(self, run: int, key: str, low: int | None = None, high: int | None = None) -> Points:
        """A series, or its steps from `low` to `high` inclusive."""

    def read_overviews(
        self,
        runs: Sequence[int],
        keys: Sequence[str],
        low: int | None = None,
        high: int | None = None,
        buckets: int = 400,
    ) -> Overviews:
        """Series of runs, or their steps from `low` to `high` inclusive, in at most so many buckets that all share."""

    def data_version(self) -> int:
        """A number that differs from what this thread got before if anybody has written since."""

    def pulses(self) -> list[Pulse]:
        """Signs of life of all runs, newest first."""

    def series_counts(self, runs: Sequence[int]) -> list[SeriesCount]:
        """The series of runs, by name."""

    def set_tags(self, run: int, tags: Sequence[str]) -> None:
        """Puts labels in the place of a run's own."""

    def begin_evaluation(
        self,
        run: int,
        attempt: int,
        identity: str,
        task: str,
        task_fingerprint: str,
        progress: Progress,
        weights: str,
        supersede: bool = True,
    ) -> EvaluationHandle:
        """The evaluation of that identity: a new one, or the one that was begun or done before.

        With `supersede` a new one supersedes evaluations of earlier attempts at the run from its step on; without, it
        stands beside the newest attempt.
        """

    def add_items(self, task_fingerprint: str, items: Iterable[Item]) -> None:
        """Keeps items, once a fingerprint."""

    def items(self, task_fingerprint: str) -> dict[str, Item]:
        """Items by id."""

    def item(self, task_fingerprint: str, id: str) -> Item | None:
        """An item of a task; None if there is none."""

    def neighbours(self, task_fingerprint: str, id: str) -> tuple[str | None, str | None]:
        """Ids of the items before and after an item."""

    def item_scores(self, evaluations: Sequence[str], item: str, metrics: Sequence[str]) -> dict[str, list[Score]]:
        """Scores of an item by evaluation, by metric."""

    def item_outputs(self, evaluation: str, item: str) -> list[Output]:
        """What was answered to an item, by sample and part."""

    def output(self, evaluation: str, request: str) -> Output | None:
        """What was answered to a request; None if nothing was."""

    def add_outputs(self, evaluation: str, outputs: Sequence[Output]) -> None:
        """Keeps outputs as they come; durable when it returns."""

    def outputs(self, evaluation: str) -> dict[str, Output]:
        """Outputs by request id."""

    def finish_evaluation(self, report: EvalReport, scores: Mapping[str, Sequence[Score]]) -> None:
        """Keeps report and scores, and ends the evaluation: at once, or not at all."""

    def pause_evaluation(self, evaluation: str, seconds: float, status: Literal["cancelled", "failed"]) -> None:
        """Leaves an evaluation to be resumed."""

    def scores(self, evaluation: str, metric: str) -> list[Score]:
        """Scores of a metric, sorted by item id."""

    def score_columns(self, evaluation: str, metric: str) -> ScoreColumns:
        """Scores of a metric as columns, without notes and samples."""

    def reports(self, run: int, task: str | None = None) -> list[EvalReport]:
        """Finished evaluations of a run that no later attempt superseded, by step.

        Each identity is there: other weights, seeds, engines or versions of a task at one step stand beside each other.
        """

    def evaluations(
        self, runs: Sequence[int], statuses: Sequence[str] = (), limit: int = 200, offset: int = 0
    ) -> tuple[int, list[EvaluationRow]]:
        """How many evaluations runs have, superseded ones included, and some of them, the newest first."""

    def num_items(self, task_fingerprint: str) -> int:
        """Items of a task."""

    def num_answered(self, evaluation: str) -> int:
        """Items of an evaluation that have an answer."""

    def unfinished(self, run: int) -> list[UnfinishedEvaluation]:
        """Evaluations of a run without a result, that no later attempt superseded, by step."""

    def note_missing(self, run: int, attempt: int, task: str, progress: Progress, reason: str) -> None:
        """Says that an evaluation was due and did not take place."""

    def missing(self, run: int) -> list[tuple[str, int, str]]:
        """Evaluations that were due, did not take place and were not made up for: task, step and reason, by step."""

    def add_finding(self, run: int, attempt: int, finding: Finding) -> None:
        """Keeps what was noticed; the newest of its kind in an attempt."""

    def findings(self, run: int) -> list[Finding]:
        """What was noticed in a run, by step; what earlier attempts had beyond a later one's first step is left out."""

    def lease(self, name: str) -> tuple[int, int] | None:
        """Number of the lease on a name and how often it was renewed; None if nobody has one."""

    def take_lease(self, name: str, owner: str, over: tuple[int, int] | None = None) -> int | None:
        """A lease on a name: its number; None if another one has it, and it is not `over`."""

    def renew_lease(self, name: str, number: int) -> bool:
        """Says that the holder is alive; False if the lease is another's by now."""

    def end_lease(self, name: str, number: int) -> None:
        """Gives a lease back."""

    def leases(self) -> list[Lease]:
        """All leases, by name; those that were given back included."""

    def lease_owner(self, name: str) -> str:
        """Who has, or last had, the lease on a name; empty if nobody ever had."""

    def begin_execution(
        self, execution: Execution, sitting: int, by: Actor, evidence: Mapping[str, Any] = ...
    ) -> Execution:
        """The execution of that id: a new one, or the one that was begun before; from now on `sitting` writes to it."""

    def execution(self, id: str) -> Execution | None:
        """An execution with its steps; None if it was never begun."""

    def executions(self, project: str | None = None) -> list[Execution]:
        """Executions with their steps, the newest first."""

    def record_step(
        self,
        execution: str,
        sitting: int,
        step: WorkflowStep,
        event: str,
        by: Actor,
        detail: Mapping[str, Any] = ...,
    ) -> None:
        """Keeps how far a step is, and the event in the audit trail: at once, and durable when it returns."""

    def record_execution(
        self,
        execution: str,
        sitting: int,
        status: ExecutionStatus,
        event: str,
        by: Actor,
        reason: str = ...,
    ) -> None:
        """Keeps how far an execution is, and the event in the audit trail."""

    def audit(self, project: str | None = None, execution: str | None = None) -> list[AuditEvent]:
        """The audit trail, oldest first."""

    def evaluation_seconds(self, run: int, without: str = "") -> float:
        """Seconds that evaluations of a run took so far, one of them left out."""

    def take_look(self, project: str, run: str, policy: str, seen: str) -> int:
        """The how manieth look of a policy at a run it is, from 1; the same thing seen again is the same look.

        Args:
            project: The run's project.
            run: The run's name.
            policy: Digest of the policy.
            seen: What is looked at: the weights.
        """

    def add_verdict(self, verdict: Verdict) -> None:
        """Keeps a verdict."""

    def verdicts(self, project: str | None = None, run: str | None = None) -> list[Verdict]:
        """Verdicts on candidates of a project, or of a run, newest first."""

    def check(self) -> list[str]:
        """What is wrong with what is kept; empty if nothing is."""

    def compact(self) -> tuple[int, int]:
        """Takes no more room than it needs; bytes before and after."""

    def backup(self, target: Path) -> int:
        """Copies it as it is at one moment into a file, while others write; the file's size in bytes."""

    def close(self) -> None:
        """Closes it; it opens again when it is used."""
