"""How an item becomes a report: what travels from task to store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

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
