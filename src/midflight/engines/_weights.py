"""A digest of a model's weights: two models have the same one if every bit of every tensor is the same."""

from __future__ import annotations

import hashlib
from typing import Any

import torch

_CHUNK = 1 << 22  # 64-bit words at once: 32 MiB


def weights_digest(module: Any) -> str:
    """SHA-256 over name, shape, type and content of all parameters and persistent buffers, as 16 hex digits.

    Content enters as two sums of its 64-bit words, one of them weighted by position, in wrap-around integers: exact on
    any device, one pass over memory, and nothing but two numbers a tensor leaves the device.
    """
    state = module.state_dict()
    names = sorted(state)
    sums = [_sums(state[name].detach()) for name in names]
    values = torch.stack([s.cpu() for s in sums]).tolist() if sums else []
    digest = hashlib.sha256()
    for name, pair in zip(names, values, strict=True):
        tensor = state[name]
        digest.update(f"{name}\t{tuple(tensor.shape)}\t{tensor.dtype}\t{pair}\n".encode())
    return digest.hexdigest()[:16]


def _sums(tensor: torch.Tensor) -> torch.Tensor:
    raw = tensor.contiguous().view(-1).view(torch.uint8)
    if raw.storage_offset() % 8:
        raw = raw.clone()  # a slice of a flat buffer may not lie on a word's border
    whole = raw.numel() // 8 * 8
    tail = raw[whole:].to(torch.int64)
    plain = tail.sum()
    placed = (tail * torch.arange(1, tail.numel() + 1, device=raw.device)).sum()
    words = raw[:whole].view(torch.int64) if whole else raw[:0].to(torch.int64)
    positions = torch.arange(1, min(_CHUNK, max(1, words.numel())) + 1, device=raw.device) * 2 + 1
    for index, start in enumerate(range(0, words.numel(), _CHUNK)):
        chunk = words[start : start + _CHUNK]
        plain = plain + chunk.sum()
        placed = placed + (chunk * positions[: chunk.numel()]).sum() * (2 * index + 1)
    return torch.stack([plain, placed])
