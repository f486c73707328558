"""A digest of a model's weights: two models have the same one if every bit of every tensor is the same."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import torch

from midflight.snapshot import whole

_CHUNK = 1 << 17
"""64-bit words at once: 1 MiB, which a processor's cache holds."""

_PLACE, _FIRST, _SECOND = -0x61C8864680B583EB, -0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15
"""The constants of SplitMix64 (Steele, Lea, Flood 2014), as signed numbers."""


def weights_digest(module: Any) -> str:
    """SHA-256 over name, shape, type and content of all parameters and persistent buffers, as 16 hex digits.

    Content enters as the sum of its 64-bit words, each mixed with its place by SplitMix64, in wrap-around integers: not
    linear, so that no exchange or balance of changes cancels out; exact on any device; and nothing but one number a
    tensor leaves the device. What is no tensor (a module's extra state) is no weight. Of a model in shards one tensor
    after the other is put together, which all ranks have to join.
    """
    state = {name: value.detach() for name, value in _tensors(module)}
    names = sorted(state)
    sums = torch.stack([_mixed(whole(state[name])).cpu() for name in names]).tolist() if names else []
    digest = hashlib.sha256()
    for name, mixed in zip(names, sums, strict=True):
        tensor = state[name]
        digest.update(f"{name}\t{tuple(tensor.shape)}\t{tensor.dtype}\t{mixed}\n".encode())
    return digest.hexdigest()[:16]


def _tensors(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Parameters and persistent buffers as they are: `state_dict` would put those of an FSDP model back in shards."""
    for prefix, inner in module.named_modules(remove_duplicate=False):
        for table, left_out in ((inner._parameters, ()), (inner._buffers, inner._non_persistent_buffers_set)):
            for name, tensor in table.items():
                if tensor is not None and name not in left_out:
                    yield f"{prefix}.{name}" if prefix else name, tensor


def _mixed(tensor: torch.Tensor) -> torch.Tensor:
    raw = tensor.contiguous().view(-1).view(torch.uint8)
    if raw.storage_offset() % 8:
        raw = raw.clone()  # a slice of a flat buffer may not lie on a word's border
    whole = raw.numel() // 8 * 8
    words = raw[:whole].view(torch.int64) if whole else raw[:0].to(torch.int64)
    places = torch.arange(1, min(_CHUNK, max(8, words.numel())) + 1, device=raw.device).mul_(_PLACE)
    total = _mix(raw[whole:].to(torch.int64) + places[: raw.numel() - whole]).sum()
    for start in range(0, words.numel(), _CHUNK):
        chunk = words[start : start + _CHUNK]
        offset = torch.full((), start + 8, device=raw.device).mul_(_PLACE)  # 8: behind the places of the tail
        total = total + _mix(chunk + places[: chunk.numel()] + offset).sum()
    return total


def _mix(words: torch.Tensor) -> torch.Tensor:
    """SplitMix64's finaliser, in place; its shifts are arithmetic here, which is a bijection as well."""
    words.bitwise_xor_(words >> 30).mul_(_FIRST)
    words.bitwise_xor_(words >> 27).mul_(_SECOND)
    return words.bitwise_xor_(words >> 31)
