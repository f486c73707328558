"""The result of one task on one set of weights, with what it cost and how it was asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from midflight.records.decided import Decided
from midflight.records.evaluation import Estimate, Progress


@dataclass(frozen=True, slots=True)
class Settings:
    """How a task was asked, for those who read a report without its task.

    Attributes:
        kind: Kind of the task, e.g. ``generate``.
        samples: Attempts at each item.
        temperature: 0 = greedy; this and the next three are None where nothing is generated.
        top_p: Nucleus mass; 1 = off.
        top_k: Number of candidate tokens; 0 = off.
        max_tokens: New tokens at most.
        num_fewshot: Solved examples before the question.
        limit: Items that were drawn; None = all.
        limit_seed: Seed of that draw.
        source: The table that says where the rows came from; a Python function is its name.
    """

    kind: str = ""
    samples: int = 1
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    max_tokens: int | None = None
    num_fewshot: int = 0
    limit: int | None = None
    limit_seed: int = 0
    source: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cost:
    """What an evaluation took.

    Attributes:
        seconds: Wall time of the evaluation, over all its sittings if it was resumed.
        num_requests: Requests answered.
        prompt_tokens: Tokens read.
        output_tokens: Tokens generated or scored.
        peak_memory_bytes: Highest memory, up to its end, of the accelerator, or of the process where there is none.
        train_share: Seconds that training has stood still for evaluations so far ÷ wall seconds of the run so far; None
            outside a run.
        rank_seconds: Seconds that each rank or worker took for its share, if several shared the work.
    """

    seconds: float = 0.0
    num_requests: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    peak_memory_bytes: int | None = None
    train_share: float | None = None
    rank_seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def straggler(self) -> str:
        """Who took longest, if several shared the work."""
        return max(self.rank_seconds, key=lambda name: self.rank_seconds[name], default="")

    @property
    def lost_share(self) -> float | None:
        """Share of the ranks' time that went by in waiting for the slowest one; None if nobody shared the work."""
        longest = max(self.rank_seconds.values(), default=0.0)
        return 1 - sum(self.rank_seconds.values()) / (len(self.rank_seconds) * longest) if longest > 0 else None

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens read, scored and generated a second."""
        return (self.prompt_tokens + self.output_tokens) / self.seconds if self.seconds > 0 else None


@dataclass(frozen=True, slots=True)
class EvalReport:
    """The result of one task on one set of weights, whole: every number with its error, cost and provenance.

    Attributes:
        id: Unique id of the evaluation.
        task: The task's name.
        task_fingerprint: SHA-256 over `fingerprint_parts`; only equal ones are comparable.
        fingerprint_parts: SHA-256 of items, prompt, grader and sampling, each.
        engine: What produced the outputs.
        weights: Version of the weights: a digest where the engine can read them.
        status: `done`, or `partial` if an item has no score, or `failed` if the engine gave up. An evaluation that its
            sequential rule ended is `done`.
        progress: Where training stood when these weights were made.
        estimates: The numbers.
        cost: What it took.
        seed: Seed of sampling, few-shot draw and bootstrap.
        started_at: Seconds since the epoch (UTC).
        run: The run's name; empty outside a run.
        project: The run's project.
        errors: First reasons for items without a score, with how often each occurred.
        software: Versions of what took part.
        settings: How the task was asked.
        decided: What a sequential rule said; None = there was none, or these weights are its baseline.
        schema_version: Version of this schema.
    """

    id: str
    task: str
    task_fingerprint: str
    fingerprint_parts: Mapping[str, str]
    engine: Mapping[str, Any]
    weights: str
    status: Literal["done", "partial", "failed"]
    progress: Progress
    estimates: Sequence[Estimate]
    cost: Cost
    seed: int
    started_at: float
    run: str = ""
    project: str = ""
    errors: Mapping[str, int] = field(default_factory=dict)
    software: Mapping[str, str] = field(default_factory=dict)
    settings: Settings = Settings()
    decided: Decided | None = None
    schema_version: int = 1

    @property
    def judging(self) -> list[Estimate]:
        """The estimates over all items that judge the model; those of its cost only if there are no others."""
        whole = [estimate for estimate in self.estimates if not estimate.slice]
        judging = [e for e in whole if not e.method.startswith("measured") and e.unit not in ("bytes", "tokens/s")]
        return judging or whole

    def estimate(self, metric: str, slice: str = "") -> Estimate:
        """The estimate of one metric.

        Args:
            metric: The metric's key.
            slice: ``name=value``, or empty for all items.

        Raises:
            KeyError: If the report has none; the message lists what it has.
        """
        for found in self.estimates:
            if (found.metric, found.slice) == (metric, slice):
                return found
        have = sorted({f"{e.metric}[{e.slice}]" if e.slice else e.metric for e in self.estimates})
        raise KeyError(f"{self.task} has no estimate {metric!r} for slice {slice!r}; it has {', '.join(have)}")
