"""The procedural tasks of reasoning-gym, by name: over 100 of them, made on the spot, each with its own verifier."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Literal

from pydantic import Field

from midflight.catalog import unknown
from midflight.errors import TaskError
from midflight.tasks.sources.base import Row, Source
from midflight.workers import worker_pool

LIMIT_S = 300.0
"""Seconds that the rows of one task may take to be made."""


class ReasoningGymSource(Source):
    """Rows that reasoning-gym generates from a seed.

    They are made in a process of their own: some generators depend on Python's hash seed or on the global random
    stream, both of which are fixed there, so that the same task is the same everywhere.

    Attributes:
        name: Name of the generator, e.g. ``chain_sum``.
        size: Rows to generate.
        seed: Fixes them.
        options: Settings of the generator, e.g. ``{max_terms = 3}``.
    """

    kind: Literal["reasoning_gym"] = "reasoning_gym"
    name: str
    size: int = Field(default=100, ge=1)
    seed: int = 42
    options: dict[str, Any] = Field(default_factory=dict)

    def rows(self) -> Iterator[Row]:
        """`question` and `answer` of each puzzle, its `metadata`, and in `puzzle` what its verifier needs."""
        call = (self.name, self.size, self.seed, json.dumps(self.options))
        (result,) = worker_pool().map(f"{__name__}:generate", [call], LIMIT_S, "gym")
        if "error" in result:
            raise TaskError(f"reasoning_gym:{self.name} cannot be made: {result['error']}", got=self.options)
        if "unknown" in result["value"]:
            raise unknown("reasoning_gym tasks", self.name, result["value"]["unknown"])
        puzzle = {"name": self.name, "size": self.size, "seed": self.seed, "options": self.options}
        for index, row in enumerate(result["value"]["rows"]):
            yield Row({**row, "puzzle": {**puzzle, "index": index}}, f"reasoning_gym:{self.name}[{index}]")


def generate(name: str, size: int, seed: int, options: str) -> dict[str, Any]:
    """Rows of a generator, or the names that there are; runs in a worker."""
    from reasoning_gym.factory import DATASETS

    if name not in DATASETS:
        return {"unknown": sorted(DATASETS)}
    dataset = _dataset(name, size, seed, options)
    return {"rows": [_row(_entry(dataset, seed, index)) for index in range(size)]}


def verify(name: str, size: int, seed: int, options: str, index: int, answer: str) -> float:
    """The verdict of reasoning-gym on an answer; runs in a worker."""
    dataset = _dataset(name, size, seed, options)
    return float(dataset.score_answer(answer=answer, entry=_entry(dataset, seed, index)))


@lru_cache(maxsize=8)
def _dataset(name: str, size: int, seed: int, options: str) -> Any:
    import reasoning_gym

    random.seed(seed)
    return reasoning_gym.create_dataset(name, size=size, seed=seed, **json.loads(options))


def _entry(dataset: Any, seed: int, index: int) -> Any:
    """One puzzle, the same each time it is made: a few generators draw from the global random streams."""
    import numpy as np

    random.seed(f"{seed}/{index}")
    np.random.seed(random.getrandbits(32))
    return dataset[index]


def _row(puzzle: Any) -> dict[str, Any]:
    answer = puzzle["answer"]
    return {
        "question": puzzle["question"],
        "answer": "" if answer is None else str(answer),
        "metadata": _plain(puzzle["metadata"]),
    }


def _plain(value: Any) -> Any:
    """A form that JSON knows: sets in a fixed order, numbers of NumPy, anything else as text."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((_plain(item) for item in value), key=repr)
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return _plain(value.tolist()) if hasattr(value, "tolist") else str(value)
