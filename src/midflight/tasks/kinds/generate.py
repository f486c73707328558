"""Generate and grade: n answers to each question, an answer read from each, several turns where the task goes on."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from midflight.errors import TaskError
from midflight.records import READ_CHARACTERS, Item, Output, Prompt, Request, RequestKind, State
from midflight.tasks._spec import TaskSpec
from midflight.tasks._template import compile_expression
from midflight.tasks.kinds.base import Kind, seed_of


class Generate(Kind):
    """Free answers. The prediction is what `answer` finds in the last turn, or the whole text."""

    chat_by_default: ClassVar[bool] = True

    def __init__(self, spec: TaskSpec) -> None:
        super().__init__(spec)
        if not spec.prompt and not spec.messages:
            raise TaskError(f"task {spec.name!r} of kind 'generate' needs `prompt` or `messages`")
        self._target = compile_expression(spec.target, "target") if spec.target else None
        try:
            self._answer = re.compile(spec.answer) if spec.answer is not None else None
        except re.error as error:
            raise TaskError(f"answer: not a valid regular expression: {error}", got=spec.answer) from None

    @property
    def capability(self) -> RequestKind:
        """It generates."""
        return "generate"

    def target(self, row: Mapping[str, Any]) -> Any:
        """The right answer; None where only a verifier knows."""
        return self._target(row) if self._target else None

    def requests(self, item: Item, examples: Sequence[Item], chat: bool, seed: int) -> list[Request]:
        """One first turn a sample."""
        prompt = self.build_prompt(item, examples, chat)
        return [self._request(item, prompt, sample, 0, seed) for sample in range(self.spec.samples)]

    def next_turn(self, request: Request, output: Output, feedback: str, item: Item, seed: int) -> Request:
        """The request after `request`: its prompt, the answer and the feedback."""
        _, sample, turn = request.id.rsplit("/", 2)
        prompt: Prompt
        if isinstance(request.prompt, str):
            prompt = request.prompt + output.text + feedback
        else:
            answer = {"role": "assistant", "content": output.text}
            prompt = (*request.prompt, answer, {"role": "user", "content": feedback})
        return self._request(item, prompt, int(sample), int(turn) + 1, seed)

    def _request(self, item: Item, prompt: Prompt, sample: int, turn: int, seed: int) -> Request:
        return Request(
            id=f"{item.id}/{sample}/{turn}",
            item_id=item.id,
            kind="generate",
            prompt=prompt,
            sampling=self.spec.sampling.record(),
            seed=seed_of(seed, item.id, sample, turn),
        )

    def read(self, outputs: Sequence[Output]) -> tuple[Any, State, str]:
        """The answer in the last turn. Cut off, empty and unreadable answers are told apart."""
        last = outputs[-1]
        prediction = self._find(last.text)
        if last.finish == "length":
            return prediction, "truncated", "cut at max_tokens"
        if prediction is None:
            return None, "unparsed", "no match of the answer pattern" if last.text.strip() else "empty answer"
        return prediction, "ok", ""

    def _find(self, text: str) -> str | None:
        if self._answer is None:
            return text.strip() or None
        first = self.spec.answer_pick == "first"
        matches = list(self._answer.finditer(text[:READ_CHARACTERS] if first else text[-READ_CHARACTERS:]))
        if not matches:
            return None
        match = matches[0 if first else -1]
        groups = match.groups() or (match.group(0),)
        found = next((group for group in groups if group is not None), "")
        return found.strip() or None
