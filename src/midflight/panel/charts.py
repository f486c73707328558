"""Which training series are drawn first, and which of them is an axis."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from typing_extensions import TypedDict

from midflight.analyse.names import CLOCKS, canonical_names

_FIRST = ("loss", "reward")
_LAST = CLOCKS | {"learning_rate"}
"""What says where a training is, and not how it goes."""


class Axes(TypedDict):
    """Series that map steps to epochs and tokens."""

    epoch: str | None
    tokens: str | None


def axes_of(keys: Collection[str]) -> Axes:
    """The series that are axes."""
    named = {canonical: key for key, canonical in canonical_names(keys).items()}
    return {"epoch": named.get("epoch"), "tokens": named.get("tokens")}


def in_order(keys: Sequence[str]) -> list[str]:
    """Series in the order of their charts: loss, reward, the rest by name, and last what only counts.

    >>> in_order(["epoch", "grad_norm", "train/loss", "reward", "lr"])
    ['train/loss', 'reward', 'grad_norm', 'epoch', 'lr']
    """
    named = canonical_names(keys)

    def rank(key: str) -> tuple[int, str]:
        canonical = named.get(key, "")
        place = _FIRST.index(canonical) if canonical in _FIRST else len(_FIRST) + (canonical in _LAST)
        return place, key

    return sorted(keys, key=rank)
