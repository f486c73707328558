"""Answers as JSON, bounded in size; rows of numbers as base64."""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from midflight.panel.shapes import BoundedText, CostShape, EstimateShape
from midflight.records import Cost, Estimate, EvalReport
from midflight.schema import to_json

TEXT = 4000
"""Characters of a text that are sent unless it is asked for whole."""
VALUE = 200
"""Characters of a value of a configuration."""
MOST_KEYS = 100
"""Values of a configuration."""


def encode(value: Any) -> bytes:
    """JSON as short as it gets: records as their fields, numbers that JSON does not know as texts."""
    try:
        return json.dumps(value, default=_fields, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except ValueError:  # NaN or infinity, or half of a surrogate pair
        return to_json(json.loads(json.dumps(value, default=_fields))).encode()


def _fields(record: Any) -> dict[str, Any]:
    if not dataclasses.is_dataclass(record):
        raise TypeError(f"{type(record).__name__} is no value of JSON")
    return {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}


def packed(array: npt.NDArray[Any], kind: str) -> str:
    """An array as base64 of its bytes, little-endian.

    Args:
        array: The numbers, row by row.
        kind: ``f4``, ``f8`` or ``u1``.
    """
    return base64.b64encode(np.ascontiguousarray(array, dtype=f"<{kind}").tobytes()).decode()


def bounded(value: Any, most: int = TEXT) -> BoundedText:
    """A text, or another value's JSON, cut; with its whole length."""
    text = value if isinstance(value, str) else to_json(value)
    return {"text": text[:most], "length": len(text)}


def flat(config: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration as one level of names with dots, so many of them and so long as a table can show.

    >>> flat({"lr": 1e-5, "optim": {"name": "adam", "betas": [0.9, 0.95]}})
    {'lr': 1e-05, 'optim.name': 'adam', 'optim.betas': '[0.9, 0.95]'}
    """
    found: dict[str, Any] = {}
    waiting = [("", config)]
    while waiting and len(found) < MOST_KEYS:
        prefix, level = waiting.pop(0)
        for key, value in level.items():
            name = f"{prefix}{key}"[:VALUE]
            if isinstance(value, Mapping) and value:
                waiting.append((f"{name}.", value))
            elif len(found) < MOST_KEYS:
                found[name] = value if value is None or isinstance(value, bool | int | float) else _short(value)
    return found


def _short(value: Any) -> str:
    return bounded(value, VALUE)["text"]


def evenly(count: int, most: int) -> list[int]:
    """At most so many of `count` places, evenly spread, the first and the last among them.

    >>> evenly(3, 5), evenly(10, 4)
    ([0, 1, 2], [0, 3, 6, 9])
    """
    return sorted(set(np.linspace(0, count - 1, most).round().astype(int).tolist())) if count else []


def estimate(record: Estimate) -> EstimateShape:
    """An estimate."""
    return {
        "metric": record.metric,
        "slice": record.slice,
        "value": record.value,
        "stderr": record.stderr,
        "ci_low": record.ci_low,
        "ci_high": record.ci_high,
        "level": record.level,
        "n": record.n,
        "num_scored": record.num_scored,
        "clusters": record.clusters,
        "method": record.method,
        "counts": {state: count for state, count in record.counts.items() if count},
        "unit": record.unit,
        "higher_is_better": record.higher_is_better,
        "lowest": record.lowest,
        "highest": record.highest,
        "partial": record.partial,
        "note": record.note[:TEXT],
    }


def metrics_of(report: EvalReport) -> list[str]:
    """The metrics by which an evaluation judges, in its own order."""
    return [one.metric for one in report.judging]


def cost(record: Cost) -> CostShape:
    """What an evaluation took."""
    return {
        "seconds": record.seconds,
        "num_requests": record.num_requests,
        "prompt_tokens": record.prompt_tokens,
        "output_tokens": record.output_tokens,
        "peak_memory_bytes": record.peak_memory_bytes,
        "train_share": record.train_share,
        "rank_seconds": dict(list(record.rank_seconds.items())[:1024]),
        "straggler": record.straggler,
        "lost_share": record.lost_share,
        "tokens_per_second": record.tokens_per_second,
    }
