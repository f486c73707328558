"""What is logged: checked, and as columns."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from midflight.errors import ConfigError, is_text
from midflight.records import MAX_STEP
from midflight.store.base import Block

MAX_KEY = 500
"""Characters in the name of a series at most."""

Row = tuple[int, float, dict[str, float]]
"""Step, seconds since the epoch, and values by the name of their series."""


def blocks(rows: Sequence[Row]) -> list[Block]:
    """Rows by the set of keys that they hold, as columns."""
    import numpy as np

    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[2]), []).append(row)
    pieces = list(groups.items())
    if sum(map(len, groups)) > len(set().union(*groups)):  # a key in several sets: its values keep their order
        pieces = [(keys, list(members)) for keys, members in itertools.groupby(rows, lambda row: tuple(row[2]))]
    found = []
    for keys, members in pieces:
        if keys:
            n, k = len(members), len(keys)
            values = np.fromiter((v for row in members for v in row[2].values()), np.float64, n * k)
            steps = np.fromiter((row[0] for row in members), np.int64, n)
            walls = np.fromiter((row[1] for row in members), np.float64, n)
            found.append(Block(keys, steps, walls, values.reshape(n, k).T))
    return found


def number(key: str, value: Any) -> float:
    """A plain float from whatever stands for one number."""
    if isinstance(value, bool | int | float):
        return float(value)
    try:
        if hasattr(value, "item"):  # NumPy scalars, and arrays and tensors of one element
            return float(value.item())
    except (TypeError, ValueError, RuntimeError):
        pass
    raise ConfigError(f"log: {key}", got=value, allowed="a number, or a tensor of one element")


def step_number(step: Any) -> int:
    """A step as it is stored."""
    value = step if isinstance(step, int) else number("step", step)
    if not math.isfinite(value) or value != int(value) or not 0 <= value <= MAX_STEP:
        raise ConfigError("log: step", got=step, allowed=f"a whole number from 0 to {MAX_STEP}")
    return int(value)


def series_name(key: Any) -> str:
    """The name of a series, if it can be stored."""
    if not isinstance(key, str) or not key or len(key) > MAX_KEY or not is_text(key):
        raise ConfigError("log: name of a series", got=key, allowed=f"1 to {MAX_KEY} characters of valid Unicode")
    return key
