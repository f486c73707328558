"""What an engine is: it gets all requests of a task at once and yields outputs as they finish, in any order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Self

from midflight.errors import CapabilityError
from midflight.records import EvalReport, Output, Request, RequestKind

if TYPE_CHECKING:
    from midflight.tasks import Task


class BaseEngine(ABC):
    """Base of all engines; one file in this folder each.

    Attributes:
        name: The engine's key.
        chat: True if the model has a chat template, so that prompts may be messages.
        provides: Output fields beyond text and log-probability that it fills, e.g. ``entropy``.
    """

    name: ClassVar[str] = ""
    chat: bool = False
    provides: frozenset[str] = frozenset()

    @property
    @abstractmethod
    def capabilities(self) -> frozenset[RequestKind]:
        """What it can be asked."""

    @abstractmethod
    def run(self, requests: Sequence[Request]) -> Iterator[Output]:
        """Answers all requests, each exactly once, in any order, as they finish.

        What fails for one request is an output with `error`. What fails for all of them raises.

        Raises:
            EngineDiedError: If the engine can no longer answer; what it yielded before is valid.
        """

    @abstractmethod
    def fingerprint(self) -> dict[str, Any]:
        """What produces the numbers, plain enough for JSON: model, numeric type, settings; not the weights."""

    def weights(self) -> str:
        """Version of the weights: a digest of them where they can be read, else empty."""
        return ""

    def modules(self) -> list[Any]:
        """The torch modules that it runs in this process."""
        return []

    def idle(self) -> None:
        """The smallest forward pass of the model; what comes out of it is dropped.

        Where the model is in shards on the ranks of a job (FSDP2), every rank has to join each pass: one that has
        nothing to do joins with this.

        Raises:
            CapabilityError: If the engine has no such pass.
        """
        raise CapabilityError(
            f"the {self.name or type(self).__name__} engine cannot evaluate a model in shards",
            hint="write its method `idle`: a forward pass on one token",
        )

    def timings(self) -> dict[str, float]:
        """Seconds that each of those who shared the work took since the last call; nothing if it was not shared."""
        return {}

    def close(self) -> None:  # noqa: B027 - most engines hold nothing
        """Frees what it holds; it cannot be used afterwards."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def require(self, capability: RequestKind, task: str) -> None:
        """Refuses a task that asks for what this engine cannot do.

        Raises:
            CapabilityError: If it cannot.
        """
        if capability not in self.capabilities:
            can = ", ".join(sorted(self.capabilities)) or "nothing"
            raise CapabilityError(
                f"task {task!r} needs an engine that can answer {capability!r} requests",
                got=f"{self.name} engine that can answer: {can}",
                hint=self.advice(capability),
            )

    def advice(self, capability: RequestKind) -> str:
        """What to do when `capability` is missing."""
        return "use another engine or another task"

    def evaluate_lm(self, task: str | Task, **options: Any) -> EvalReport:
        """Evaluates this language model on a task; see `midflight.pipeline.evaluate_lm`."""
        from midflight.pipeline import evaluate_lm

        return evaluate_lm(self, task, **options)

    def evaluate_rw(self, task: str | Task, **options: Any) -> EvalReport:
        """Evaluates this reward model on preference pairs; see `midflight.pipeline.evaluate_rw`."""
        from midflight.pipeline import evaluate_rw

        return evaluate_rw(self, task, **options)
