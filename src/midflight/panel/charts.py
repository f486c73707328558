"""Which training series are drawn first, and which of them is an axis."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress

import numpy as np
from typing_extensions import TypedDict

from midflight.analyse.names import CLOCKS, canonical_names
from midflight.errors import StoreError
from midflight.store import Head, Store

_FIRST = ("loss", "reward")
_LAST = CLOCKS | {"learning_rate"}
"""What says where a training is, and not how it goes."""
SAMPLE = 8
"""Runs whose series are looked at: it is only a matter of order."""
_BUCKETS = 10


class Axes(TypedDict):
    """Series that map steps to epochs and tokens."""

    epoch: str | None
    tokens: str | None


def axes_of(keys: Collection[str]) -> Axes:
    """The series that are axes."""
    named = {canonical: key for key, canonical in canonical_names(keys).items()}
    return {"epoch": named.get("epoch"), "tokens": named.get("tokens")}


def in_order(keys: Sequence[str], still: Collection[str] = ()) -> list[str]:
    """Series in the order of their charts: loss, reward, the rest by name, what only counts, what never changes.

    >>> in_order(["epoch", "clip", "grad_norm", "train/loss", "reward", "lr"], still={"clip"})
    ['train/loss', 'reward', 'grad_norm', 'epoch', 'lr', 'clip']
    """
    named = canonical_names(keys)

    def rank(key: str) -> tuple[int, str]:
        canonical = named.get(key, "")
        if key in still:
            return len(_FIRST) + 2, key
        place = _FIRST.index(canonical) if canonical in _FIRST else len(_FIRST) + (canonical in _LAST)
        return place, key

    return sorted(keys, key=rank)


def still_series(store: Store, runs: Sequence[int]) -> set[str]:
    """Series that have one value at all steps of all runs, or one point a run: there is no curve to see.

    The first `SAMPLE` runs speak for the others.
    """
    by_key: dict[str, list[Head]] = {}
    sample = list(runs)[:SAMPLE]
    for run in sample:
        with suppress(StoreError):  # a damaged run speaks for none
            for head in store.heads(run):
                by_key.setdefault(head.key, []).append(head)
    still = {key for key, heads in by_key.items() if all(head.num_points == 1 for head in heads)}
    alike = [key for key, heads in by_key.items() if key not in still and len({head.value for head in heads}) == 1]
    if alike:
        found = store.read_overviews(sample, alike, buckets=_BUCKETS)
        odd = {one.row for one in found.non_finite}
        ranges = zip(found.low, found.high, strict=True)
        moves = {row for row, (low, high) in enumerate(ranges) if row in odd or np.nanmin(low) < np.nanmax(high)}
        still |= set(alike) - {found.series[row][1] for row in moves}
    return still
