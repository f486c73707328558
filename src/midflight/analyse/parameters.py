"""Configurations as flat parameters, and parameters as columns of a linear model."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from midflight.analyse.learning_curve import JUDGES
from midflight.analyse.names import canonical_name
from midflight.errors import shorten
from midflight.store.base import Floats

Scale: TypeAlias = Literal["log", "linear", "levels"]

WIDE = 10.0
"""Largest ÷ smallest value from which a positive parameter counts by its logarithm."""
NOT_SET = "(not set)"


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a linear model.

    Attributes:
        start: The setting that its effect begins at, as text.
        end: The setting that it ends at.
        values: One a run: the parameter, its logarithm to the base 10, or whether it has the level `end`.
        span: How far `end` is from `start`, in units of the column.
    """

    start: str
    end: str
    values: Floats
    span: float


@dataclass(frozen=True)
class Parameter:
    """A hyper-parameter that varies over runs.

    Attributes:
        name: Its dotted key.
        scale: `log` = numeric, positive, over a factor of 10 or more; `linear` = numeric; `levels` = anything else.
        settings: The setting of each run, as text.
        columns: Its columns.
    """

    name: str
    scale: Scale
    settings: Sequence[str]
    columns: Sequence[Column]


def flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A nested configuration with dotted keys; lists are kept as JSON text.

    >>> flat({"optim": {"lr": 0.1, "betas": [0.9, 0.95]}, "seed": 0})
    {'optim.lr': 0.1, 'optim.betas': '[0.9, 0.95]', 'seed': 0}
    """
    found: dict[str, Any] = {}
    for key, value in config.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            found.update(flat(value, f"{name}."))
        else:
            found[name] = value if isinstance(value, str | int | float | None) else json.dumps(value, default=str)
    return found


def is_seed(name: str) -> bool:
    """Whether a parameter only says which random numbers were drawn.

    >>> [is_seed(name) for name in ("seed", "data.seed", "data_seed", "seed_frac.lr", "reseeding")]
    [True, True, True, False, False]
    """
    return "seed" in re.split(r"[_-]", name.rpartition(".")[2].lower())


def is_result(name: str, flats: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a key of configurations says what came of a run or how far it is, as the state of a trainer does.

    Beside the step that was reached stands in ``max_steps`` what the trainer computed from epochs, data and batch.

    >>> [is_result(name, [{name: 1}]) for name in ("total_flos", "eval_loss", "eval_steps", "max_steps", "num_samples")]
    [True, True, False, False, False]
    >>> is_result("max_steps", [{"max_steps": 300, "global_step": 300}])
    True
    """
    prefix, dot, key = name.rpartition(".")
    if _RESULT.fullmatch(key) is not None:
        return True
    if key == "max_steps":
        return any(name in one and f"{prefix}{dot}global_step" in one for one in flats)
    return canonical_name(key) in JUDGES and all(_is_number(one[name]) for one in flats if name in one)


_RESULT = re.compile(
    r"epoch|(?:global|current)_step|total_flos|num_input_tokens_seen|(?:tokens|samples|steps)_seen|consumed_\w+"
    r"|best_(?:metric|global_step|model_checkpoint|score|loss|accuracy|reward|epoch|step)"
    r"|(?:train_|eval_|total_)?(?:runtime|samples_per_second|steps_per_second|tokens_per_second)"
)
"""Counters, clocks and summaries of HF's TrainerState and of W&B, by the last part of the key."""


def parameters_of(flats: Sequence[Mapping[str, Any]]) -> tuple[list[Parameter], dict[str, str]]:
    """The parameters that vary over runs, by name, and those that vary and are none, with the reason.

    Args:
        flats: The configuration of each run, flat.
    """
    found, left_out = [], {}
    for name in sorted({name for one in flats for name in one}):
        values = [one.get(name, NOT_SET) for one in flats]
        settings = [setting(value) for value in values]
        if len(set(settings)) < 2:
            continue
        if is_seed(name):
            left_out[name] = "a seed: noise, its runs are replicates"
        elif is_result(name, flats):
            left_out[name] = "what came of the run, not what it was set to"
        elif all(map(_is_number, values)):
            found.append(_numeric(name, settings, values))
        elif len(set(settings)) == len(settings):
            left_out[name] = "another value in each run"
        else:
            found.append(Parameter(name, "levels", settings, _levels(settings)))
    return found, left_out


def _numeric(name: str, settings: Sequence[str], values: Sequence[float]) -> Parameter:
    low, high = min(values), max(values)
    wide = low > 0 and high >= WIDE * low
    array = np.array([math.log10(value) if wide else float(value) for value in values])
    span = float(array.max() - array.min())
    return Parameter(name, "log" if wide else "linear", settings, [Column(setting(low), setting(high), array, span)])


def _levels(settings: Sequence[str]) -> list[Column]:
    """Each level against the commonest, the first by name of equally common ones."""
    counts = Counter(settings)
    first, *others = sorted(counts, key=lambda level: (-counts[level], level))
    return [
        Column(first, level, np.array([float(setting == level) for setting in settings]), 1.0)
        for level in sorted(others)
    ]


def _is_number(value: Any) -> bool:
    """Whether a value is a finite number; a boolean is a level."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


def setting(value: Any) -> str:
    """A setting as text, of bounded length."""
    if _is_number(value):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    return shorten(value, 80) if isinstance(value, str) else json.dumps(value)
