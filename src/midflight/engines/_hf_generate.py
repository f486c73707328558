"""Generation of one batch, with nothing but what the task asks for: the model's own sampling defaults do not enter."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from transformers import GenerationConfig, LogitsProcessorList, StoppingCriteria, StoppingCriteriaList

from midflight.engines._hf_sampling import EntropyRecorder, SeededSampler
from midflight.errors import shorten
from midflight.records import Output, Request, Sampling


@dataclass(frozen=True, slots=True)
class Prompted:
    """A request and the tokens of its prompt."""

    request: Request
    tokens: tuple[int, ...]


def generate(model: Any, tokenizer: Any, batch: Sequence[Prompted], sampling: Sampling) -> list[Output]:
    """Answers to a batch of prompts."""
    ends = end_tokens(model, tokenizer)
    pad = next((p for p in (tokenizer.pad_token_id, tokenizer.eos_token_id, *ends) if p is not None), 0)
    longest = max(len(prompted.tokens) for prompted in batch)
    input_BT = torch.tensor([[*[pad] * (longest - len(p.tokens)), *p.tokens] for p in batch], device=model.device)
    mask_BT = torch.tensor([[0] * (longest - len(p.tokens)) + [1] * len(p.tokens) for p in batch], device=model.device)
    entropy = EntropyRecorder()
    processors = LogitsProcessorList([entropy])
    if sampling.temperature > 0:
        processors.append(SeededSampler([p.request.seed for p in batch], sampling, model.device))
    config = GenerationConfig(
        max_new_tokens=sampling.max_tokens,
        do_sample=False,
        num_beams=1,
        use_cache=True,
        pad_token_id=pad,
        eos_token_id=sorted(ends) or None,
    )
    stopping = [StopTexts(tokenizer, sampling.stop, longest)] if sampling.stop else []
    with _neutral_defaults(model):
        sequences = model.generate(
            input_ids=input_BT,
            attention_mask=mask_BT,
            generation_config=config,
            logits_processor=processors,
            stopping_criteria=StoppingCriteriaList(stopping),
            synced_gpus=False,  # of a model in shards, ranks are kept in step from outside
        )
    new_BT = sequences[:, longest:].tolist()
    entropy_BT = entropy.per_step().tolist()
    return [
        _output(prompted, new, per_step, ends, tokenizer, sampling)
        for prompted, new, per_step in zip(batch, new_BT, entropy_BT, strict=True)
    ]


def end_tokens(model: Any, tokenizer: Any) -> set[int]:
    """Every token that ends an answer: of the tokenizer, and of the generation config (chat models have two)."""
    found: set[int] = set()
    for value in (tokenizer.eos_token_id, getattr(model.generation_config, "eos_token_id", None)):
        if value is not None:
            found.update([value] if isinstance(value, int) else value)
    return found


@contextmanager
def _neutral_defaults(model: Any) -> Iterator[None]:
    """A model's generation config fills what a request leaves open (a repetition penalty, say); here nothing may."""
    # of each module that has one: adapters around a model pass theirs on to it
    own = [(vars(m), m.generation_config) for m in model.modules() if "generation_config" in vars(m)]
    for attributes, _ in own:
        attributes["generation_config"] = GenerationConfig()
    try:
        yield
    finally:
        for attributes, config in own:
            attributes["generation_config"] = config


class StopTexts(StoppingCriteria):  # type: ignore[misc]
    """Ends a row as soon as its answer holds a stop text; special tokens count, the prompt does not.

    Args:
        tokenizer: Its tokenizer.
        stop: The texts.
        num_prompt: Tokens before the answer.
    """

    def __init__(self, tokenizer: Any, stop: Sequence[str], num_prompt: int) -> None:
        self._tokenizer, self._stop, self._num_prompt = tokenizer, stop, num_prompt
        # a stop text that has just been completed ends in the last token, and no token is shorter than a byte
        self._reach = 1 + max(len(text.encode("utf-8", "surrogatepass")) for text in stop)

    def __call__(self, input_ids: torch.Tensor, scores: Any, **options: Any) -> torch.Tensor:
        """Which rows have ended."""
        tails_BT = input_ids[:, max(self._num_prompt, input_ids.shape[1] - self._reach) :].tolist()
        texts = [self._tokenizer.decode(tail, skip_special_tokens=False) for tail in tails_BT]
        ended = [any(stop in text for stop in self._stop) for text in texts]
        return torch.tensor(ended, device=input_ids.device)


def _output(
    prompted: Prompted, new: list[int], entropy: list[float], ends: set[int], tokenizer: Any, sampling: Sampling
) -> Output:
    count = next((index for index, token in enumerate(new) if token in ends), len(new))
    ended = count < len(new)
    try:
        text, num_tokens = _until_stop(tokenizer, new[:count], sampling.stop)
    except Exception as error:  # a tokenizer is foreign code
        reason = shorten(f"{type(error).__name__}: {error}")
        return Output(prompted.request.id, error=f"the answer's tokens cannot be decoded: {reason}")
    stopped = num_tokens is not None
    num_tokens = count + ended if num_tokens is None else num_tokens
    spent = entropy[:num_tokens]
    if not all(map(math.isfinite, spent)):
        at = next(index for index, value in enumerate(spent) if not math.isfinite(value))
        return Output(prompted.request.id, error=f"the model's logits are NaN or infinite at new token {at + 1}")
    return Output(
        prompted.request.id,
        text=text,
        entropy=sum(spent) / len(spent) if spent else None,
        num_tokens=num_tokens,
        num_prompt_tokens=len(prompted.tokens),
        finish="stop" if ended or stopped else "length",
    )


def _until_stop(tokenizer: Any, tokens: list[int], stop: Sequence[str]) -> tuple[str, int | None]:
    """Text before the first stop text, and the number of tokens up to its end; None if there is none.

    A stop text that consists of special tokens shows only where they are decoded too.
    """

    def shown(count: int) -> str:
        return str(tokenizer.decode(tokens[:count], skip_special_tokens=True))

    def whole(count: int) -> str:
        return str(tokenizer.decode(tokens[:count], skip_special_tokens=False))

    def holds(count: int) -> bool:
        return any(s in text for text in (shown(count), whole(count)) for s in stop)

    if not stop or not holds(len(tokens)):
        return shown(len(tokens)), None
    # a row that met its stop text early was padded while others went on: the first prefix that holds it is the end
    num_tokens = bisect_left(range(len(tokens)), True, key=holds)
    text = shown(num_tokens)
    cut = min((at for at in map(text.find, stop) if at >= 0), default=None)
    if cut is not None:
        return text[:cut], num_tokens
    text = whole(num_tokens)
    cut = min(at for at in map(text.find, stop) if at >= 0)
    before = bisect_right(range(num_tokens), cut, key=lambda n: len(whole(n))) - 1  # tokens that end before it
    return shown(before) + text[len(whole(before)) : cut], num_tokens
