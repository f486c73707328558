"""What a kind of task is: how an item becomes requests, and how outputs become an answer."""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from midflight.errors import ConfigError, TaskError
from midflight.records import Item, Message, Output, Prompt, Request, RequestKind, Sample, State
from midflight.tasks._spec import TaskSpec
from midflight.tasks._template import compile_expression, compile_template


class Kind(ABC):
    """Base of all kinds; made once a task, and asked for every item.

    Attributes:
        needs: Fields of the spec without which this kind has nothing to ask or to compare with.
        chat_by_default: Whether `chat = "auto"` means the chat template where the model has one.
    """

    needs: ClassVar[tuple[str, ...]] = ()
    chat_by_default: ClassVar[bool] = False

    def __init__(self, spec: TaskSpec) -> None:
        self.spec = spec
        for field in self.needs:
            if not getattr(spec, field):
                raise TaskError(f"task {spec.name!r} of kind {spec.kind!r} needs `{field}`")
        if spec.samples > 1 and self.capability != "generate":
            raise ConfigError("samples", got=spec.samples, allowed=f"1 for a task of kind {spec.kind!r}")
        self._prompt = compile_template(spec.prompt, "prompt")
        self._messages = compile_expression(spec.messages, "messages") if spec.messages else None
        self._system = compile_template(spec.system, "system") if spec.system else None
        answer = spec.fewshot.answer if spec.fewshot else None
        self._example = compile_template(answer, "fewshot.answer") if answer is not None else None

    @property
    @abstractmethod
    def capability(self) -> RequestKind:
        """What the engine has to be able to do."""

    @abstractmethod
    def target(self, row: Mapping[str, Any]) -> Any:
        """What is right for a row."""

    @abstractmethod
    def requests(self, item: Item, examples: Sequence[Item], chat: bool, seed: int) -> list[Request]:
        """All requests of an item."""

    @abstractmethod
    def read(self, outputs: Sequence[Output]) -> tuple[Any, State, str]:
        """Prediction, state and reason, from the outputs of one attempt; all of them are answers."""

    def sample(self, item: Item, index: int, outputs: Sequence[Output | None]) -> Sample:
        """One attempt, from its outputs in order of their parts; None = not answered."""
        answered = tuple(output for output in outputs if output is not None)
        if not answered or len(answered) < len(outputs):
            return Sample(item, index, answered, None, "not_run", "not answered")
        for output in answered:
            if output.error is not None:
                return Sample(item, index, answered, None, "error", output.error)
        return Sample(item, index, answered, *self.read(answered))

    def example_answer(self, item: Item) -> str:
        """The answer shown in a solved example."""
        return self._example(item.row) if self._example else str(item.target)

    # -- prompts -----------------------------------------------------------------------------------------------------

    def build_prompt(self, item: Item, examples: Sequence[Item], chat: bool) -> Prompt:
        """The prompt of an item behind its solved examples: messages for a chat model, else one text."""
        if self._messages is not None and not chat:
            raise TaskError(f"task {self.spec.name!r} is a conversation and needs a model with a chat template")
        if not chat:
            separator = self.spec.fewshot.separator if self.spec.fewshot else ""
            shown = [self._prompt(e.row) + self.example_answer(e) + separator for e in examples]
            system = self._system(item.row) + "\n\n" if self._system else ""
            return system + "".join(shown) + self._prompt(item.row)
        messages: list[Message] = [{"role": "system", "content": self._system(item.row)}] if self._system else []
        for example in examples:
            messages += self._turns(example)
            messages.append({"role": "assistant", "content": self.example_answer(example).strip()})
        return tuple(messages + self._turns(item))

    def _turns(self, item: Item) -> list[Message]:
        if self._messages is not None:
            return normalise_messages(self._messages(item.row), "user")
        text = self._prompt(item.row)
        return [{"role": "user", "content": text}] if text else []


_ROLES = {"human": "user", "gpt": "assistant", "bot": "assistant", "prompter": "user"}


def normalise_messages(value: Any, role: str) -> list[Message]:
    """Messages from any of the forms that datasets use.

    Args:
        value: A text, one message, or a list of messages; a message has ``role``/``content`` or ``from``/``value``.
        role: Role of a bare text.

    Raises:
        TaskError: If it is none of these.

    >>> normalise_messages([{"from": "human", "value": "Hi"}], "user")
    [{'role': 'user', 'content': 'Hi'}]
    """
    if isinstance(value, str):
        return [{"role": role, "content": value}]
    if isinstance(value, Mapping):
        value = [value]
    if not isinstance(value, Sequence):
        raise TaskError("not a conversation", got=value, allowed="a text, a message or a list of messages")
    found: list[Message] = []
    for message in value:
        if not isinstance(message, Mapping):
            raise TaskError("not a message", got=message, allowed="an object with role and content")
        who, text = message.get("role", message.get("from")), message.get("content", message.get("value"))
        if not isinstance(who, str) or not isinstance(text, str):
            raise TaskError("not a message", got=message, allowed="role and content, or from and value, as texts")
        found.append({"role": _ROLES.get(who, who), "content": text})
    return found


def seed_of(seed: int, *parts: object) -> int:
    """A seed for one request: the same for the same parts on every machine, independent of its neighbours."""
    digest = hashlib.sha256("\x1f".join(map(str, (seed, *parts))).encode()).digest()
    return int.from_bytes(digest[:8], "big") & 0x7FFFFFFFFFFFFFFF


def finite(values: Sequence[float | None], what: str) -> str:
    """Why values are of no use, empty if they are: NaN is no answer, an infinite one is."""
    return f"{what} is NaN" if any(v is None or math.isnan(v) for v in values) else ""
