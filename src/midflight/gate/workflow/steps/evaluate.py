"""Evaluates the checkpoint on tasks, as `midflight eval` does: the evidence that a gate judges."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from pydantic import Field

from midflight.errors import ConfigError
from midflight.gate.workflow.processes import Finished, run_program
from midflight.gate.workflow.steps.base import Note, Step, StepContext, When
from midflight.records import Outcome
from midflight.triggers.checkpoints import step_of

BAD_INPUT = 2


class EvaluateStep(Step):
    """`midflight eval`; what the store has already is not evaluated again.

    Attributes:
        tasks: Task names, or task files.
        run: Run that the results belong to; None = the run of the checkpoint, or the name of the folder that it is in.
        arguments: More arguments of `midflight eval`.
    """

    kind: Literal["evaluate"] = "evaluate"
    tasks: list[str] = Field(min_length=1)
    run: str | None = None
    arguments: list[str] = []
    when: When | list[Outcome] = "always"
    timeout_s: float = Field(default=86_400.0, gt=0, le=30 * 86_400)
    idempotent: bool = True

    needs_checkpoint: ClassVar[bool] = True

    def carry_out(self, context: StepContext, note: Note) -> Mapping[str, Any]:
        """Evaluates; an item without a score or a metric without a value is left to the gate's policy."""
        checkpoint = context.needed_checkpoint()
        words = [str(checkpoint), "--run", self.run or context.run or checkpoint.absolute().parent.name]
        words += ["--project", context.project, "--store", context.store, *_step_words(context)]
        for task in self.tasks:
            words += ["--task", str(context.path(task)) if task.endswith(".toml") else task]
        finished = run_midflight("eval", [*words, *self.arguments], context, self.timeout_s)
        if finished.code not in (0, 1):
            raise failure("midflight eval", finished)
        return {"complete": finished.code == 0, "output": finished.output}


def _step_words(context: StepContext) -> list[str]:
    try:
        return ["--step", str(step_of(context.needed_checkpoint()))]
    except ConfigError:
        return []


def run_midflight(command: str, words: Sequence[str], context: StepContext, timeout_s: float) -> Finished:
    """Runs a command of this program in a process of its own."""
    return run_program(
        [sys.executable, "-m", "midflight", command, *words],
        timeout_s=timeout_s,
        environment=context.variables(),
        folder=context.folder,
    )


def failure(what: str, finished: Finished) -> Exception:
    """The error for a command of this program that failed; bad input stays bad."""
    error = finished.failure(what)
    error.permanent = finished.code == BAD_INPUT
    return error
