"""Generation of one batch, with nothing but what the task asks for: the model's own sampling defaults do not enter."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from transformers import GenerationConfig, LogitsProcessorList

from midflight.engines._hf_sampling import EntropyRecorder, SeededSampler
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
        stop_strings=list(sampling.stop) or None,
    )
    with _neutral_defaults(model):
        sequences = model.generate(
            input_ids=input_BT,
            attention_mask=mask_BT,
            generation_config=config,
            logits_processor=processors,
            tokenizer=tokenizer if sampling.stop else None,
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
    own, model.generation_config = model.generation_config, GenerationConfig()
    try:
        yield
    finally:
        model.generation_config = own


def _output(
    prompted: Prompted, new: list[int], entropy: list[float], ends: set[int], tokenizer: Any, sampling: Sampling
) -> Output:
    def text_of(count: int) -> str:
        return str(tokenizer.decode(new[:count], skip_special_tokens=True))

    count = next((index for index, token in enumerate(new) if token in ends), len(new))
    ended = count < len(new)
    text, num_tokens = text_of(count), count + ended
    cut = min((at for at in map(text.find, sampling.stop) if at >= 0), default=None)
    if cut is not None:
        # a row that met its stop text early was padded while others went on: the first prefix that holds it is the end
        num_tokens = bisect_left(range(count), True, key=lambda n: any(s in text_of(n) for s in sampling.stop))
        text = text[:cut]
    spent = entropy[:num_tokens]
    return Output(
        prompted.request.id,
        text=text,
        entropy=sum(spent) / len(spent) if spent else None,
        num_tokens=num_tokens,
        num_prompt_tokens=len(prompted.tokens),
        finish="stop" if ended or cut is not None else "length",
    )
