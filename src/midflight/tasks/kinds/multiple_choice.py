"""Multiple choice by likelihood: each choice is scored as a continuation of the question, the likeliest is chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from midflight.errors import TaskError
from midflight.records import Item, Output, Request, RequestKind, Sample, State
from midflight.tasks._spec import TaskSpec
from midflight.tasks._template import compile_expression, compile_template
from midflight.tasks.kinds.base import Kind, finite


class MultipleChoice(Kind):
    """The prediction is the index of the likeliest choice; the first one where several tie."""

    needs: ClassVar[tuple[str, ...]] = ("choices", "target")

    def __init__(self, spec: TaskSpec) -> None:
        super().__init__(spec)
        assert spec.choices is not None
        assert spec.target is not None
        self._choices = compile_expression(spec.choices, "choices")
        self._target = compile_expression(spec.target, "target")
        self._continuation = compile_template(spec.continuation, "continuation")

    @property
    def capability(self) -> RequestKind:
        """It scores likelihoods."""
        return "loglikelihood"

    def target(self, row: Mapping[str, Any]) -> Any:
        """The index of the right choice."""
        choices = self._choices_of(row)
        found = self._target(row)
        if isinstance(found, str) and found.strip().isdigit():
            found = int(found)
        if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found < len(choices):
            raise TaskError("target: not the index of a choice", got=found, allowed=f"0 to {len(choices) - 1}")
        return found

    def choices(self, item: Item) -> list[str]:
        """The texts of the choices."""
        return self._choices_of(item.row)

    def _choices_of(self, row: Mapping[str, Any]) -> list[str]:
        found = self._choices(row)
        if isinstance(found, str) or not isinstance(found, Sequence) or len(found) < 2:
            raise TaskError("choices: not a list of two or more", got=found)
        return [str(choice) for choice in found]

    def requests(self, item: Item, examples: Sequence[Item], chat: bool, seed: int) -> list[Request]:
        """One a choice."""
        prompt = self.build_prompt(item, examples, chat)
        return [
            Request(f"{item.id}/0/{index}", item.id, "loglikelihood", prompt, self._text(item.row, choice))
            for index, choice in enumerate(self.choices(item))
        ]

    def _text(self, row: Mapping[str, Any], choice: str) -> str:
        return self._continuation({**row, "choice": choice})

    def example_answer(self, item: Item) -> str:
        """The right choice, as it is scored."""
        if self._example:
            return self._example(item.row)
        return self._text(item.row, self.choices(item)[item.target])

    def read(self, outputs: Sequence[Output]) -> tuple[Any, State, str]:
        """The likeliest choice."""
        values = [output.logprob for output in outputs]
        reason = finite(values, "log-probability")
        return (None, "error", reason) if reason else (values.index(max(values)), "ok", "")  # type: ignore[type-var]

    def sample(self, item: Item, index: int, outputs: Sequence[Output | None]) -> Sample:
        """One attempt, with the texts of the choices, whose lengths a metric may need."""
        return replace(super().sample(item, index, outputs), choices=tuple(self.choices(item)))
