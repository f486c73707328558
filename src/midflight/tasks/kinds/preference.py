"""Preference pairs: does a reward model, or the policy's own likelihood, rank the chosen answer above the rejected?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from midflight.errors import ConfigError, TaskError
from midflight.records import Item, Message, Output, Request, RequestKind, State
from midflight.tasks._spec import TaskSpec
from midflight.tasks._template import compile_expression
from midflight.tasks.kinds.base import Kind, finite, normalise_messages


class Preference(Kind):
    """The prediction is the margin: value of the chosen minus value of the rejected answer."""

    needs: ClassVar[tuple[str, ...]] = ("chosen", "rejected")
    chat_by_default: ClassVar[bool] = True

    def __init__(self, spec: TaskSpec) -> None:
        super().__init__(spec)
        if spec.fewshot is not None:
            raise ConfigError(
                f"task {spec.name!r}: a preference pair takes no solved examples", hint="leave out fewshot"
            )
        self._sides = [compile_expression(getattr(spec, side), side) for side in ("chosen", "rejected")]

    @property
    def capability(self) -> RequestKind:
        """What ranks the pair."""
        return "reward" if self.spec.scored_by == "reward" else "loglikelihood"

    def target(self, row: Mapping[str, Any]) -> Any:
        """Nothing: the order of the pair is what is right."""
        for side, read in zip(("chosen", "rejected"), self._sides, strict=True):
            if not normalise_messages(read(row), "assistant"):
                raise TaskError(f"{side}: empty")
        return None

    def requests(self, item: Item, examples: Sequence[Item], chat: bool, seed: int) -> list[Request]:
        """Two: the chosen conversation, then the rejected one."""
        return [self._request(item, index, read(item.row)) for index, read in enumerate(self._sides)]

    def _request(self, item: Item, index: int, answer: Any) -> Request:
        said = normalise_messages(answer, "assistant")
        whole = said if said[0]["role"] != "assistant" else [*self._question(item), *said]
        if self.capability == "reward":
            return Request(f"{item.id}/0/{index}", item.id, "reward", tuple(whole))
        return Request(f"{item.id}/0/{index}", item.id, "loglikelihood", tuple(whole[:-1]), whole[-1]["content"])

    def _question(self, item: Item) -> list[Message]:
        system: list[Message] = [{"role": "system", "content": self._system(item.row)}] if self._system else []
        return system + self._turns(item)

    def read(self, outputs: Sequence[Output]) -> tuple[Any, State, str]:
        """The margin."""
        by_reward = self.capability == "reward"
        values = [output.reward if by_reward else output.logprob for output in outputs]
        reason = finite(values, "reward" if by_reward else "log-probability")
        if reason:
            return None, "error", reason
        if self.spec.scored_by == "loglikelihood_per_token":
            if not all(output.num_tokens for output in outputs):
                return None, "error", "the engine counts no tokens"
            values = [
                value / output.num_tokens for value, output in zip(values, outputs, strict=True) if value is not None
            ]
        margin = values[0] - values[1]  # type: ignore[operator]
        reason = finite([margin], "margin")
        return (None, "error", reason) if reason else (margin, "ok", "")
