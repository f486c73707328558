"""How an item becomes a report: what travels from task to store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from midflight.records.decided import Decided

State: TypeAlias = Literal["ok", "unparsed", "truncated", "error", "cancelled", "not_run"]
"""How an item ended. The counts of all states sum to the number of items."""

STATES: tuple[State, ...] = ("ok", "unparsed", "truncated", "error", "cancelled", "not_run")

SCORED: frozenset[State] = frozenset({"ok", "unparsed", "truncated"})
"""States in which the model answered, so that a score exists. The others lower the coverage and never count as 0."""

READ_CHARACTERS = 32_000
"""Characters of an output in which an answer is looked for: patterns and parsers may take far more than linear time."""

RequestKind: TypeAlias = Literal["loglikelihood", "generate", "reward"]
"""What is asked of an engine; also the name of the capability that answers it."""

Message: TypeAlias = Mapping[str, str]
"""One turn of a conversation: ``{"role": "user" | "assistant" | "system", "content": text}``."""

Prompt: TypeAlias = str | tuple[Message, ...]
"""Plain text, or messages that the engine renders with the model's chat template."""


MAX_STEP = 1 << 62
"""Largest step that can be stored."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Where training stands: everything that a trigger may count.

    Attributes:
        step: Optimiser steps completed.
        epoch: Epochs completed; fractions are allowed (2.5 = in the middle of the third).
        tokens: Training tokens seen.
    """

    step: int = 0
    epoch: float = 0.0
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Item:
    """One row of validation data.

    Attributes:
        id: Unique within its task; pairs the same item over checkpoints and runs.
        row: The source's columns, as the prompt template sees them.
        target: What is right: a text, the index of the right choice, or None where nothing is.
        slices: Slice name to value, e.g. ``{"subject": "algebra"}``.
        cluster: Items that are not independent (one passage, one prompt family) share it; None = the item itself.
    """

    id: str
    row: Mapping[str, Any]
    target: Any = None
    slices: Mapping[str, str] = field(default_factory=dict)
    cluster: str | None = None


@dataclass(frozen=True, slots=True)
class Sampling:
    """How text is generated.

    Attributes:
        temperature: 0 = greedy.
        top_p: Nucleus mass in (0, 1]; 1 = off.
        top_k: Number of candidate tokens; 0 = off.
        max_tokens: New tokens at most; an answer that reaches it is `truncated`.
        stop: Texts that end the answer; they are not part of it.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    max_tokens: int = 256
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Request:
    """One call of the model.

    Attributes:
        id: Unique within the evaluation: ``item/sample/part``.
        item_id: The item that it belongs to.
        kind: What is asked.
        prompt: The context. For `reward`, the whole conversation.
        continuation: For `loglikelihood`, the text that is scored; with an empty prompt the whole text is scored,
            in windows where it is longer than the context.
        sampling: For `generate`.
        seed: Fixes the random draws of this request alone, whatever else is in its batch.
    """

    id: str
    item_id: str
    kind: RequestKind
    prompt: Prompt
    continuation: str = ""
    sampling: Sampling | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Output:
    """What the engine answered to one request.

    Attributes:
        request_id: The request.
        text: Generated text, stop text removed.
        logprob: Sum of the log-probabilities of the continuation, in nats.
        greedy: True if the continuation is what greedy decoding would give.
        reward: The reward model's scalar.
        entropy: Mean entropy of the next-token distribution (temperature 1) over the generated tokens, in nats.
        num_tokens: Tokens generated or scored.
        num_prompt_tokens: Tokens of the context.
        unscored_bytes: Bytes (UTF-8) of the continuation that have no log-probability: those of a server's first token.
        finish: `stop` = the model ended it, `length` = it was cut at `max_tokens`.
        error: Why there is no answer; None = there is one.
    """

    request_id: str
    text: str = ""
    logprob: float | None = None
    greedy: bool | None = None
    reward: float | None = None
    entropy: float | None = None
    num_tokens: int = 0
    num_prompt_tokens: int = 0
    unscored_bytes: int = 0
    finish: Literal["stop", "length"] = "stop"
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """One attempt at an item: its outputs, and the answer read from them.

    Attributes:
        item: The item.
        index: 0-based number of the attempt.
        outputs: One a turn (generate), one a choice (multiple choice), one (log-likelihood), or chosen and rejected.
        prediction: The answer: a text, the index of the likeliest choice, …; None if none could be read.
        state: How the attempt ended.
        note: Why it is not `ok`.
        choices: Texts of the choices, for multiple choice.
    """

    item: Item
    index: int
    outputs: tuple[Output, ...]
    prediction: Any = None
    state: State = "ok"
    note: str = ""
    choices: tuple[str, ...] = ()

    @property
    def output(self) -> Output:
        """The last output: the final turn of a conversation."""
        return self.outputs[-1]


@dataclass(frozen=True, slots=True)
class Score:
    """What one metric says of one item.

    Attributes:
        item_id: The item.
        metric: The metric's key.
        value: The score, mean over the item's samples; the numerator of a ratio metric. None = not scored.
        weight: The denominator of a ratio metric, else 1.
        state: How the item ended, as this metric sees it.
        note: Why it has no score.
        samples: The score of each sample, where the metric scores samples.
    """

    item_id: str
    metric: str
    value: float | None
    weight: float = 1.0
    state: State = "ok"
    note: str = ""
    samples: tuple[float | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of the items: those for which the task's slice `name` has this value."""

    name: str
    value: str

    def __str__(self) -> str:
        return f"{self.name}={self.value}"


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number that never travels alone.

    Attributes:
        metric: The metric's key.
        slice: ``name=value``, or empty for all items.
        value: The estimate; None if nothing was scored.
        stderr: Its standard error; None where it is not defined (fewer than two clusters).
        ci_low: Lower end of the interval; None where it is not defined.
        ci_high: Upper end of the interval.
        level: Confidence level of the interval.
        n: Items asked for, scored or not.
        clusters: Independent groups among the scored items.
        method: How error and interval were computed; ``none`` = there is no value, ``failed`` = the metric raised.
        counts: Items by state; they sum to `n`.
        unit: Unit of the value, empty for a pure number.
        higher_is_better: Direction; None = neither.
        note: What a reader has to know, e.g. why there is no value.
        part: The slice by name and value; None for all items.
        lowest: Smallest value that the metric can take; None = no bound.
        highest: Largest.
    """

    metric: str
    slice: str
    value: float | None
    stderr: float | None
    ci_low: float | None
    ci_high: float | None
    level: float
    n: int
    clusters: int
    method: str
    counts: Mapping[State, int]
    unit: str = ""
    higher_is_better: bool | None = None
    note: str = ""
    part: Slice | None = None
    lowest: float | None = None
    highest: float | None = None

    @property
    def num_scored(self) -> int:
        """Items that have a score."""
        return sum(count for state, count in self.counts.items() if state in SCORED)

    @property
    def coverage(self) -> float:
        """Share of the items that have a score; 0 for an empty set."""
        return self.num_scored / self.n if self.n else 0.0

    @property
    def partial(self) -> bool:
        """True if an item is missing, so that the value does not speak for the whole set."""
        return self.n == 0 or self.num_scored < self.n


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
