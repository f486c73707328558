"""A run as it stands: whether its process still lives, and which of its evaluations have not come to their end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from midflight import environ
from midflight.errors import StoreError, shorten
from midflight.records import EvalReport
from midflight.store import Head, RunInfo, Store, UnfinishedEvaluation


@dataclass(frozen=True, slots=True)
class RunView:
    """What is shown of a run.

    Attributes:
        info: The run.
        state: `running`, `finished`, `failed`, `interrupted`, or `lost`: its process is gone and has said nothing;
            in a list also `damaged`.
        heads: Newest value of each series.
        reports: Finished evaluations.
        unfinished: The others.
        damage: What of the run cannot be read; empty if all can.
    """

    info: RunInfo
    state: str
    heads: Sequence[Head]
    reports: Sequence[EvalReport]
    unfinished: Sequence[UnfinishedEvaluation]
    damage: str = ""

    @property
    def last_step(self) -> int | None:
        """Largest step of a series or an evaluation; None if there is neither."""
        steps = [head.step for head in self.heads] + [report.progress.step for report in self.reports]
        return max(steps, default=None)


def view_run(store: Store, info: RunInfo) -> RunView:
    """A run as it stands in a store.

    Raises:
        StoreError: If an evaluation or a series of it is damaged.
    """
    heads, reports, unfinished = store.heads(info.id), store.reports(info.id), store.unfinished(info.id)
    state: str = info.status
    if state == "running" and not environ.is_alive(store.owner(info.id), info.heartbeat):
        state = "lost"
    if state in ("lost", "interrupted") and reports and not heads and not unfinished:
        state = "finished"  # nothing was trained, and another process has completed what was to be evaluated
    return RunView(info, state, heads, reports, unfinished, info.damage)


def view_listed(store: Store, info: RunInfo) -> RunView:
    """A run in a list: one that is damaged says so in its row, and hides no other."""
    try:
        return view_run(store, info)
    except StoreError as error:
        return RunView(info, "damaged", (), (), (), error.message)


def unfinished_line(evaluation: UnfinishedEvaluation) -> str:
    """One line for an evaluation that has no result."""
    how = {"cancelled": "interrupted", "failed": "failed"}.get(evaluation.status, "not finished")
    done = f"{evaluation.num_answered} of {evaluation.num_items} items answered"
    return f"{shorten(evaluation.task, 60)} at step {evaluation.step}: {how}, {done}"
