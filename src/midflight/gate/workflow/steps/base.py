"""What a step is: a strict config that takes effect, and can say after a crash whether it did."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias

from pydantic import Field, field_validator

from midflight.config import Config
from midflight.errors import StepError
from midflight.records import Outcome, Verdict

When: TypeAlias = Literal["pass", "fail", "inconclusive", "always"]

Note: TypeAlias = Callable[[Mapping[str, Any]], None]
"""Writes down, durably, what a step is about to do."""


@dataclass(frozen=True)
class StepContext:
    """What a step is told; also what the function of a `python` step gets.

    Attributes:
        workflow: Name of the workflow.
        execution: Id of the execution: the same after a crash.
        step: Name of the step.
        attempt: 1, and one more for each time that the step was begun.
        folder: Folder of the workflow's file, from which its relative paths start.
        store: URL of the store.
        project: The project.
        run: The run that the checkpoint is of; empty if that is not known.
        checkpoint: The checkpoint; None if there is none.
        weights: SHA-256 over its files.
        verdict: What the gate said; None if it has said nothing yet.
        state: What the step has written down at an attempt that did not come to its end; empty at the first.
    """

    workflow: str
    execution: str
    step: str
    attempt: int
    folder: Path
    store: str
    project: str = ""
    run: str = ""
    checkpoint: Path | None = None
    weights: str = ""
    verdict: Verdict | None = None
    state: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Names this step of this execution, to whoever must not do a thing twice."""
        return f"{self.execution}/{self.step}"

    def path(self, text: str) -> Path:
        """A path of the workflow's file: relative ones start at its folder."""
        return (self.folder / Path(text).expanduser()).absolute()

    def needed_checkpoint(self) -> Path:
        """The checkpoint.

        Raises:
            StepError: If there is none.
        """
        if self.checkpoint is None:
            raise StepError(f"step {self.step!r} needs a checkpoint", hint="name it: --checkpoint DIR")
        return self.checkpoint

    def variables(self) -> dict[str, str]:
        """What a program is told through its environment."""
        return {
            "MIDFLIGHT_WORKFLOW": self.workflow,
            "MIDFLIGHT_EXECUTION": self.execution,
            "MIDFLIGHT_STEP": self.step,
            "MIDFLIGHT_ATTEMPT": str(self.attempt),
            "MIDFLIGHT_STORE": self.store,
            "MIDFLIGHT_PROJECT": self.project,
            "MIDFLIGHT_RUN": self.run,
            "MIDFLIGHT_CHECKPOINT": str(self.checkpoint or ""),
            "MIDFLIGHT_WEIGHTS": self.weights,
            "MIDFLIGHT_OUTCOME": self.verdict.outcome if self.verdict else "",
        }


class Step(Config):
    """Base of all steps. Fields of the subclass are the keys of its ``[[steps]]`` table.

    Attributes:
        kind: What it does.
        name: Unique in the workflow.
        when: Outcomes of the verdict with which it is carried out.
        timeout_s: Seconds that one try may take.
        retries: Tries after the first.
        backoff_s: Seconds before the second try, doubled from try to try.
        on_failure: Whether the workflow stops, and what it did is undone, or goes on.
        idempotent: Whether doing it twice is as good as once, so that it may be begun again after a crash.
        needs_checkpoint: Whether it can do nothing without a checkpoint.
    """

    kind: str
    name: str = Field(min_length=1, max_length=100, pattern=r"^[\w.-]+$")
    when: When | list[Outcome] = "pass"
    timeout_s: float = Field(default=600.0, gt=0, le=30 * 86_400)
    retries: int = Field(default=0, ge=0, le=100)
    backoff_s: float = Field(default=1.0, gt=0, le=3_600)
    on_failure: Literal["stop", "continue"] = "stop"
    idempotent: bool = False

    needs_checkpoint: ClassVar[bool] = False

    @field_validator("when")
    @classmethod
    def _not_never(cls, when: When | list[Outcome]) -> When | list[Outcome]:
        if not when:
            raise ValueError('an empty list is never; name outcomes, or "always"')
        return when

    @property
    def makes_verdict(self) -> bool:
        """Whether its result holds a verdict, by which later steps go."""
        return False

    @property
    def can_undo(self) -> bool:
        """Whether it can be undone."""
        return False

    def applies(self, outcome: Outcome | None) -> bool:
        """Whether it is carried out with a verdict of this outcome; None = there is no verdict yet."""
        wanted = [self.when] if isinstance(self.when, str) else self.when
        return "always" in wanted or outcome in wanted

    @abstractmethod
    def carry_out(self, context: StepContext, note: Note) -> Mapping[str, Any]:
        """Takes effect.

        Args:
            context: What it is about. If it is `idempotent`, it may have taken effect before.
            note: Writes down what is about to be done; it is in `context.state` of the next attempt, if there is one.

        Returns:
            What there is to know about it, plain enough for JSON.

        Raises:
            StepError: If it failed.
        """

    def undo(self, context: StepContext, result: Mapping[str, Any]) -> Mapping[str, Any]:
        """Undoes what it did. After a crash it may be asked again.

        Args:
            context: What it is about.
            result: What `carry_out` gave.

        Raises:
            StepError: If that failed.
        """
        raise StepError(f"a step of kind {self.kind!r} cannot be undone")
