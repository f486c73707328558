"""One sitting of an evaluation: from the first request, or where the last sitting ended, to the report."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal

from midflight.records import EvalReport, Output, Progress, Score
from midflight.run import Run
from midflight.sequential import Looks, is_answer
from midflight.tasks import Task

COMMIT_S = 0.5
"""Seconds of outputs that a crash may cost."""


class Sitting:
    """Keeps what comes in, so that a crash costs half a second of it; without a run, in memory only.

    Args:
        run: Where it is kept.
        identity: What makes the evaluation the same as another.
        task: Its task.
        fingerprint: The task's fingerprint.
        weights: Version of the weights.
        progress: Where training stands.
        looks: What may end it early.

    Attributes:
        id: The evaluation's id.
        done: Its report, if it had come to its end already, with what is asked now.
        known: Outputs by request.
        num_tokens: Tokens of this sitting.
        total: Requests so far, and those that are still to be asked.
    """

    def __init__(
        self,
        run: Run | None,
        identity: str,
        task: Task,
        fingerprint: str,
        weights: str,
        progress: Progress,
        looks: Looks | None = None,
    ) -> None:
        self.run = run if run is not None and run.enabled else None
        self.started_at, self._began = time.time(), time.monotonic()
        self.known: dict[str, Output] = {}
        self.done: EvalReport | None = None
        self.id, self._earlier_s = uuid.uuid4().hex, 0.0
        self.num_tokens = self.total = 0
        self._uncommitted: list[Output] = []
        self._committed_at = self._began
        if self.run is not None:
            handle = self.run.store.begin_evaluation(
                self.run.id,
                self.run.attempt,
                identity,
                task.name,
                fingerprint,
                progress,
                weights,
                supersede=not self.run.attached,
            )
            self.id, self._earlier_s = handle.id, handle.seconds
            self.done = handle.done if handle.done and is_answer(handle.done, looks) else None
            if self.done is None:
                self.run.store.add_items(fingerprint, task.items)
                answered = self.run.store.outputs(self.id)
                self.known = {key: output for key, output in answered.items() if output.error is None}

    @property
    def seconds(self) -> float:
        """Seconds that the evaluation took, over all its sittings."""
        return self._earlier_s + time.monotonic() - self._began

    def add(self, output: Output) -> None:
        """Takes an output; the first for a request counts."""
        if self.known.setdefault(output.request_id, output) is not output:
            return
        self._uncommitted.append(output)
        self.num_tokens += output.num_prompt_tokens + output.num_tokens
        if time.monotonic() - self._committed_at > COMMIT_S:
            self.commit()

    def commit(self) -> None:
        """Makes what came in durable."""
        if self.run is not None and self._uncommitted:
            self.run.store.add_outputs(self.id, self._uncommitted)
        self._uncommitted, self._committed_at = [], time.monotonic()

    def finish(self, report: EvalReport, scores: Mapping[str, Sequence[Score]]) -> None:
        """Keeps the result."""
        if self.run is not None:
            self.run.store.finish_evaluation(report, scores)


@contextmanager
def resumable(sitting: Sitting) -> Iterator[Sitting]:
    """A sitting that can be taken up again, however it ends."""
    try:
        yield sitting
    except BaseException as error:
        if sitting.run is not None:
            sitting.commit()
            status: Literal["cancelled", "failed"] = "cancelled" if isinstance(error, KeyboardInterrupt) else "failed"
            sitting.run.store.pause_evaluation(sitting.id, sitting.seconds, status)
        raise
