"""What a task file may say: strict, so that a misspelt key never changes a number in silence."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from midflight.config import Config
from midflight.records import Sampling


class SamplingSpec(Config):
    """How answers are generated; see `midflight.records.Sampling`."""

    temperature: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    top_p: float = Field(default=1.0, gt=0, le=1)
    top_k: int = Field(default=0, ge=0)
    max_tokens: int = Field(default=256, ge=1)
    stop: tuple[str, ...] = Field(default=(), strict=False)

    def record(self) -> Sampling:
        """The record that travels with each request."""
        return Sampling(self.temperature, self.top_p, self.top_k, self.max_tokens, self.stop)


class FewShotSpec(Config):
    """Solved examples before the question.

    Attributes:
        num: How many.
        split: Split of the task's source that they come from.
        source: A source of their own, instead of a split.
        seed: None = the first `num`, the same for every item; a number = drawn anew for each item from this seed.
        answer: Template of an example's answer; None = what the kind of task calls right.
        separator: Between examples, where they are one text.
    """

    num: int = Field(ge=1)
    split: str | None = None
    source: dict[str, Any] | None = None
    seed: int | None = None
    answer: str | None = None
    separator: str = "\n\n"


class TaskSpec(Config):
    """A task, as a TOML file or keyword arguments say it.

    *Templates* are Jinja2 text over the row's columns (``Question: {{ question }}``); *expressions* are Jinja2
    expressions (``answer.split('####')[-1]``).

    Attributes:
        name: Unique name; the file's name where a file says nothing else.
        description: One line for the catalog.
        kind: What is asked of the model, and how its outputs become a prediction: a file in `tasks/kinds`.
        source: Where rows come from: ``kind`` names a file in `tasks/sources`, the other keys are its options.
        limit: Items at most, drawn at random; None = all.
        limit_seed: Fixes which ones.
        id: Expression of a unique id; None = the row's number.
        prompt: Template of the question, or of the context that a continuation follows.
        messages: Expression of a list of messages, instead of `prompt`.
        system: Template of a system message; needs a chat model.
        chat: Whether the prompt is sent as a chat message: ``auto`` = where the model has a chat template (for kinds
            that generate or reward), ``always`` or ``never``.
        target: Expression of what is right: the answer's text, or the index of the right choice.
        choices: Expression of the list of choices (multiple choice).
        continuation: Template of the text whose likelihood is scored, with `choice` for one choice (multiple choice).
        text: Template of the text whose likelihood is measured (log-likelihood).
        counted: Template of the text whose words and bytes are counted, where it differs from `text`.
        chosen: Expression of the better answer: a text, a message, or a list of messages (preference).
        rejected: Expression of the worse one (preference).
        scored_by: What ranks a pair (preference): a reward model, the log-likelihood of the answer, or the same divided
            by the answer's tokens.
        answer: Regular expression that finds the answer in the output: its first group that matched, or all of the
            match where it has none. None = the whole output.
        answer_pick: Which match counts where there are several.
        samples: Attempts at each item.
        sampling: How they are generated.
        fewshot: Solved examples before the question.
        metrics: Keys of metrics.
        slices: Slice name to expression; each value gets an estimate of its own. An item for which it is None is in
            none of them.
        cluster: Expression of what items share that are not independent, such as a passage; None = nothing.
        version: Raise it when the task changes in a way that its fields do not show.
    """

    name: str = Field(min_length=1)
    description: str = ""
    kind: str = "generate"
    source: dict[str, Any]
    limit: int | None = Field(default=None, ge=1)
    limit_seed: int = 0
    id: str | None = None
    prompt: str = ""
    messages: str | None = None
    system: str = ""
    chat: Literal["auto", "always", "never"] = "auto"
    target: str | None = None
    choices: str | None = None
    continuation: str = " {{ choice }}"
    text: str | None = None
    counted: str | None = None
    chosen: str | None = None
    rejected: str | None = None
    scored_by: Literal["reward", "loglikelihood", "loglikelihood_per_token"] = "reward"
    answer: str | None = None
    answer_pick: Literal["first", "last"] = "last"
    samples: int = Field(default=1, ge=1)
    sampling: SamplingSpec = SamplingSpec()
    fewshot: FewShotSpec | None = None
    metrics: tuple[str, ...] = Field(strict=False)
    slices: dict[str, str] = Field(default_factory=dict)
    cluster: str | None = None
    version: str = "1"

    @field_validator("metrics")
    @classmethod
    def _has_metrics(cls, metrics: tuple[str, ...]) -> tuple[str, ...]:
        if not metrics:
            raise ValueError("a task without a metric measures nothing; name at least one (`midflight catalog`)")
        if len(set(metrics)) < len(metrics):
            raise ValueError("a metric is named twice")
        return metrics

    @model_validator(mode="after")
    def _consistent(self) -> TaskSpec:
        if self.prompt and self.messages:
            raise ValueError("give `prompt` or `messages`, not both")
        if self.messages and self.chat == "never":
            raise ValueError("`messages` need chat = 'auto' or 'always'")
        if self.samples > 1 and self.sampling.temperature == 0:
            raise ValueError("several samples of a greedy answer are all the same; set sampling.temperature above 0")
        return self
