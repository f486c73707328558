"""The procedural tasks of reasoning-gym, by name: over 100 of them, made on the spot, each with its own verifier."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field

from midflight.catalog import unknown
from midflight.errors import TaskError, missing_extra
from midflight.tasks.sources.base import Row, Source


class ReasoningGymSource(Source):
    """Rows that reasoning-gym generates from a seed.

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
        puzzle = {"name": self.name, "size": self.size, "seed": self.seed, "options": self.options}
        for index, entry in enumerate(create(self.name, self.size, self.seed, self.options)):
            data = {
                "question": entry["question"],
                "answer": "" if entry["answer"] is None else str(entry["answer"]),
                "metadata": json.loads(json.dumps(entry["metadata"], default=_plain, sort_keys=False)),
                "puzzle": {**puzzle, "index": index},
            }
            yield Row(data, f"reasoning_gym:{self.name}[{index}]")


def create(name: str, size: int, seed: int, options: dict[str, Any]) -> Any:
    """The reasoning-gym dataset of that name.

    Raises:
        UnknownKeyError: If there is none.
        TaskError: If it does not take the options.
        MissingExtraError: If reasoning-gym is not installed.
    """
    try:
        import reasoning_gym
        from reasoning_gym.factory import DATASETS
    except ImportError as error:
        raise missing_extra("a reasoning_gym task", "gym", error) from None
    if name not in DATASETS:
        raise unknown("reasoning_gym tasks", name, sorted(DATASETS))
    try:
        return reasoning_gym.create_dataset(name, size=size, seed=seed, **options)
    except (TypeError, AssertionError, ValueError) as error:
        raise TaskError(f"reasoning_gym:{name} does not take these options: {error}", got=options) from None


def _plain(value: Any) -> Any:
    """JSON for what json does not know: sets in a fixed order, numbers of NumPy, anything else as text."""
    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)
    if hasattr(value, "tolist"):
        return value.tolist()
    return str(value)
