"""Preference pairs: does a reward model, or the policy's own likelihood, rank the chosen answer above the rejected?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from midflight.errors import TaskError
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
        self._sides = [compile_expression(getattr(spec, side), side) for side in ("chosen", "rejected")]

    @property
    def capability(self) -> RequestKind:
        """What ranks the pair."""
        return self.spec.scored_by

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
        if self.spec.scored_by == "reward":
            return Request(f"{item.id}/0/{index}", item.id, "reward", tuple(whole))
        return Request(f"{item.id}/0/{index}", item.id, "loglikelihood", tuple(whole[:-1]), whole[-1]["content"])

    def _question(self, item: Item) -> list[Message]:
        system: list[Message] = [{"role": "system", "content": self._system(item.row)}] if self._system else []
        return system + self._turns(item)

    def read(self, outputs: Sequence[Output]) -> tuple[Any, State, str]:
        """The margin."""
        by_reward = self.spec.scored_by == "reward"
        values = [output.reward if by_reward else output.logprob for output in outputs]
        reason = finite(values, "reward" if by_reward else "log-probability")
        if reason:
            return None, "error", reason
        margin = values[0] - values[1]  # type: ignore[operator]
        reason = finite([margin], "margin")
        return (None, "error", reason) if reason else (margin, "ok", "")
