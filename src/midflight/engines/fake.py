"""Scripted answers, delays and failures, for everybody's tests: no model, no network, no clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from midflight.engines.base import BaseEngine
from midflight.errors import EngineDiedError
from midflight.records import Output, Request, RequestKind

Answers = str | Mapping[str, str] | Callable[[Request], str]
Numbers = float | Mapping[str, float] | Callable[[Request], float]


class Fake(BaseEngine):
    """Answers from a script.

    Args:
        answers: Text for every `generate` request: one text, a mapping from item id, or a function of the request.
        logprobs: Log-probability for every `loglikelihood` request, likewise; a mapping is keyed by the continuation.
        rewards: Reward for every `reward` request, likewise; a mapping is keyed by the last message.
        chat: Whether it claims a chat template.
        fail: Ids of items whose requests come back as errors.
        cut: Ids of items whose answers were cut at `max_tokens`.
        die_after: Outputs after which the engine dies; None = never.
        delay_s: Seconds to wait before each output.
        backwards: Whether outputs come in reverse order.
        version: Part of the fingerprint and of the weights' version: change it to be another model.

    >>> from midflight.records import Request
    >>> engine = Fake(answers=lambda request: request.prompt.upper())
    >>> [output.text for output in engine.run([Request("a/0/0", "a", "generate", "hello")])]
    ['HELLO']
    """

    name: ClassVar[str] = "fake"
    provides = frozenset({"entropy"})

    def __init__(
        self,
        answers: Answers | None = "",
        logprobs: Numbers | None = -1.0,
        rewards: Numbers | None = 0.0,
        *,
        chat: bool = False,
        fail: Collection[str] = (),
        cut: Collection[str] = (),
        die_after: int | None = None,
        delay_s: float = 0.0,
        backwards: bool = False,
        version: str = "1",
    ) -> None:
        self.answers, self.logprobs, self.rewards = answers, logprobs, rewards
        self.chat, self.fail, self.cut = chat, frozenset(fail), frozenset(cut)
        self.die_after, self.delay_s, self.backwards, self.version = die_after, delay_s, backwards, version
        self.seen: list[Request] = []
        """Every request it was given, in order; for assertions."""

    @property
    def capabilities(self) -> frozenset[RequestKind]:
        """What it has a script for."""
        scripts: dict[RequestKind, Any] = {
            "generate": self.answers,
            "loglikelihood": self.logprobs,
            "reward": self.rewards,
        }
        return frozenset(kind for kind, script in scripts.items() if script is not None)

    def run(self, requests: Sequence[Request]) -> Iterator[Output]:
        """Answers from the script."""
        ordered = list(reversed(requests)) if self.backwards else list(requests)
        for index, request in enumerate(ordered):
            if self.die_after is not None and index >= self.die_after:
                raise EngineDiedError(f"the fake engine died after {index} outputs, as scripted")
            if self.delay_s:
                time.sleep(self.delay_s)
            self.seen.append(request)
            yield self._answer(request)

    def _answer(self, request: Request) -> Output:
        if request.item_id in self.fail:
            return Output(request.id, error="scripted failure")
        words = len(str(request.prompt).split())
        if request.kind == "generate":
            text = str(_pick(self.answers, request, request.item_id))
            return Output(
                request.id,
                text=text,
                num_tokens=len(text.split()),
                num_prompt_tokens=words,
                entropy=1.0,
                finish="length" if request.item_id in self.cut else "stop",
            )
        if request.kind == "loglikelihood":
            value = float(_pick(self.logprobs, request, request.continuation))
            scored = max(1, len(request.continuation.split()))
            return Output(request.id, logprob=value, greedy=False, num_tokens=scored, num_prompt_tokens=words)
        said = request.prompt if isinstance(request.prompt, str) else request.prompt[-1]["content"]
        return Output(request.id, reward=float(_pick(self.rewards, request, said)), num_prompt_tokens=words)

    def fingerprint(self) -> dict[str, Any]:
        """Its version."""
        return {"engine": self.name, "model": f"fake-{self.version}", "chat": self.chat}

    def weights(self) -> str:
        """Its version."""
        return f"fake-{self.version}"


def _pick(script: Any, request: Request, key: str) -> Any:
    if callable(script):
        return script(request)
    return script[key] if isinstance(script, Mapping) else script
