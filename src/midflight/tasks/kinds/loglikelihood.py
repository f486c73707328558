"""The likelihood of a text: what perplexity and bits per byte are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from midflight.errors import TaskError
from midflight.records import Item, Output, Request, RequestKind, State
from midflight.tasks._spec import TaskSpec
from midflight.tasks._template import compile_template
from midflight.tasks.kinds.base import Kind, finite


class LogLikelihood(Kind):
    """The prediction is the text's log-probability; the target is the text whose words and bytes are counted."""

    needs: ClassVar[tuple[str, ...]] = ("text",)

    def __init__(self, spec: TaskSpec) -> None:
        super().__init__(spec)
        assert spec.text is not None
        self._text = compile_template(spec.text, "text")
        self._counted = compile_template(spec.counted, "counted") if spec.counted else self._text

    @property
    def capability(self) -> RequestKind:
        """It scores likelihoods."""
        return "loglikelihood"

    def target(self, row: Mapping[str, Any]) -> Any:
        """The text whose words and bytes are counted."""
        counted = self._counted(row)
        if not counted.strip():
            raise TaskError("text: empty")
        return counted

    def requests(self, item: Item, examples: Sequence[Item], chat: bool, seed: int) -> list[Request]:
        """One: the text, behind the prompt where there is one."""
        prompt = self.build_prompt(item, examples, chat)
        return [Request(f"{item.id}/0/0", item.id, "loglikelihood", prompt, self._text(item.row))]

    def example_answer(self, item: Item) -> str:
        """The text itself."""
        return self._example(item.row) if self._example else self._text(item.row)

    def read(self, outputs: Sequence[Output]) -> tuple[Any, State, str]:
        """The log-probability."""
        reason = finite([outputs[0].logprob], "log-probability")
        return (None, "error", reason) if reason else (outputs[0].logprob, "ok", "")
