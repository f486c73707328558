"""Log-likelihoods and rewards of one batch.

Shapes: B rows, T positions, P positions at which the head is applied, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from inspect import signature
from itertools import islice
from typing import Any, Protocol

import torch

from midflight.engines._hf_text import Row
from midflight.records import Output, Request

_CHUNK = 512
"""Positions whose logits are turned to float32 at once: bounds the copy to 512 × V numbers."""

_LOGITS = 1 << 28
"""Logits of a batch at most (1 GiB in float32); a batch with more is split."""


@dataclass(frozen=True, slots=True)
class Scored:
    """Log-probability of the targets of one row, in nats."""

    logprob: float
    greedy: bool
    num_tokens: int


class SharedInput(Protocol):
    """Rows with the same input tokens."""

    @property
    def tokens(self) -> tuple[int, ...]:
        """Input tokens."""

    @property
    def rows(self) -> list[Row]:
        """Rows that share them."""


class Conversation(Protocol):
    """A request and its tokens."""

    @property
    def request(self) -> Request:
        """The request."""

    @property
    def tokens(self) -> tuple[int, ...]:
        """Its tokens."""


def scores(model: Any, batch: Sequence[SharedInput]) -> list[list[Scored | None]]:
    """Log-probabilities of the targets of all rows; for each input, in order of its rows."""
    positions = sorted({p for same in batch for row in same.rows for p in _predicting(row)})
    vocabulary = model.config.get_text_config().vocab_size
    if len(batch) > 1 and len(batch) * len(positions) * vocabulary > _LOGITS:
        half = len(batch) // 2
        return scores(model, batch[:half]) + scores(model, batch[half:])
    input_BT = _padded([same.tokens for same in batch], model.device)
    # right padding without a mask: causal attention never looks at what stands behind
    if _keeps_logits(type(model).forward):
        keep_P = torch.tensor(positions, device=model.device)
        logits_BPV = model(input_ids=input_BT, use_cache=False, logits_to_keep=keep_P).logits
    else:
        logits_BTV = model(input_ids=input_BT, use_cache=False).logits
        virtual = logits_BTV.shape[1] - input_BT.shape[1]  # tokens that prompt tuning puts before the input
        logits_BPV = logits_BTV[:, [virtual + position for position in positions]]
    column = {position: index for index, position in enumerate(positions)}
    scored = [
        _score_row(logits_BPV[index], [column[p] for p in _predicting(row)], row.targets)
        for index, same in enumerate(batch)
        for row in same.rows
    ]
    logprobs = iter(torch.cat([row_logprobs for row_logprobs, _ in scored]).tolist())  # one wait for the device
    greedy = iter(torch.stack([row_greedy for _, row_greedy in scored]).tolist())
    return [
        [Scored(math.fsum(islice(logprobs, len(row.targets))), next(greedy), len(row.targets)) for row in same.rows]
        for same in batch
    ]


def _predicting(row: Row) -> range:
    """Positions whose logits predict the targets."""
    return range(len(row.tokens) - len(row.targets), len(row.tokens))


def _score_row(logits_PV: torch.Tensor, columns: list[int], targets: tuple[int, ...]) -> tuple[Any, Any]:
    """Log-probability of each target, and whether greedy decoding would give them all."""
    wanted_P1 = torch.tensor(targets, device=logits_PV.device)[:, None]
    logprobs, greedy = [], []
    for start in range(0, len(columns), _CHUNK):
        chunk_PV = logits_PV[columns[start : start + _CHUNK]].float()
        target_P1 = wanted_P1[start : start + _CHUNK]
        logprobs.append(chunk_PV.gather(1, target_P1).squeeze(1) - chunk_PV.logsumexp(dim=-1))
        greedy.append((chunk_PV.argmax(dim=-1, keepdim=True) == target_P1).all())
    return torch.cat(logprobs), torch.stack(greedy).all()


@lru_cache
def _keeps_logits(forward: Callable[..., Any]) -> bool:
    return "logits_to_keep" in signature(forward).parameters


def _padded(rows: Sequence[tuple[int, ...]], device: Any, value: int = 0) -> torch.Tensor:
    longest = max(len(row) for row in rows)
    return torch.tensor([[*row, *[value] * (longest - len(row))] for row in rows], device=device)


def rewards(model: Any, batch: Sequence[Conversation]) -> list[Output]:
    """The scalar that a sequence-classification model gives each conversation."""
    pad = model.config.get_text_config().pad_token_id
    input_BT = _padded([c.tokens for c in batch], model.device, pad if pad is not None else 0)
    mask_BT = _padded([(1,) * len(c.tokens) for c in batch], model.device)
    values = model(input_ids=input_BT, attention_mask=mask_BT, use_cache=False).logits[:, 0].float().tolist()
    return [
        Output(c.request.id, reward=value, num_prompt_tokens=len(c.tokens))
        for c, value in zip(batch, values, strict=True)
    ]
