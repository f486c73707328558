"""Sampling that depends on a request's seed alone: not on its batch, and not on torch's global random stream.

Each request draws its own uniform numbers before generation starts. A step turns one of them into a token through the
cumulative distribution after temperature, top-k and top-p; everything but that token is set to -inf, so that
`generate` in its greedy mode takes it. So the same request gives the same draw whatever it is batched with, and a
training run's random stream is not even read.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import LogitsProcessor, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from midflight.records import Sampling


class SeededSampler(LogitsProcessor):  # type: ignore[misc]
    """Draws the next token of each row from the row's own seed.

    Args:
        seeds: One a row.
        sampling: Temperature above 0, top-p, top-k.
        device: Device of the scores.
    """

    def __init__(self, seeds: list[int], sampling: Sampling, device: Any) -> None:
        self._warpers: list[Any] = [TemperatureLogitsWarper(float(sampling.temperature))]
        if sampling.top_k:
            self._warpers.append(TopKLogitsWarper(sampling.top_k))
        if sampling.top_p < 1:
            self._warpers.append(TopPLogitsWarper(sampling.top_p))
        draws = [
            torch.rand(sampling.max_tokens, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
            for seed in seeds
        ]
        self._draws_BT = torch.stack(draws).to(device=device, dtype=torch.float32)  # B rows, T steps
        # a draw just below 1 is rounded to 1, which would take the last token however improbable
        self._draws_BT.clamp_(max=1 - 2**-24)
        self._step = 0

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Scores of -inf but for the token drawn."""
        for warper in self._warpers:
            scores = warper(input_ids, scores)
        cumulative_BV = scores.softmax(dim=-1).cumsum(dim=-1)
        total_B1 = cumulative_BV[:, -1:]
        wanted_B1 = self._draws_BT[:, self._step, None] * total_B1
        wanted_B1 = torch.minimum(wanted_B1, total_B1.nextafter(torch.zeros_like(total_B1)))  # nor may the product be
        self._step += 1
        # right=True: a draw of exactly 0 must not pick a leading token of probability 0
        token_B1 = torch.searchsorted(cumulative_BV, wanted_B1, right=True).clamp_(max=scores.shape[-1] - 1)
        return torch.full_like(scores, float("-inf")).scatter_(1, token_B1, 0.0)


class EntropyRecorder(LogitsProcessor):  # type: ignore[misc]
    """Records the entropy of the model's own next-token distribution (temperature 1) at each step, in nats.

    It is NaN where there is no distribution: a logit is NaN or +inf, or all are -inf.
    """

    def __init__(self) -> None:
        self._steps: list[torch.Tensor] = []

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Scores, unchanged."""
        self._steps.append(torch.special.entr(scores.float().softmax(dim=-1)).sum(dim=-1))  # entr(0) = 0
        return scores

    def per_step(self) -> torch.Tensor:
        """Entropies (B, T), in nats."""
        return torch.stack(self._steps, dim=1)
