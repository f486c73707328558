"""What is drawn of an opened run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from midflight.panel.answers.run import Answer
from midflight.store import Store

MOST_SERIES = 24
BUCKETS = 160
"""More than a chart has columns of dots."""

Values = npt.NDArray[np.floating]


@dataclass(frozen=True, slots=True)
class Drawn:
    """A curve as it is drawn.

    Attributes:
        title: What it is.
        steps: First step of each bucket, or each checkpoint (B).
        mean: Mean of each bucket, or the value at a checkpoint (B).
        low: Smallest value, or the lower end of the interval (B).
        high: Largest value, or the upper end (B).
        last: Its newest value.
        num_non_finite: Values that are not finite.
    """

    title: str
    steps: Values
    mean: Values
    low: Values
    high: Values
    last: float | None
    num_non_finite: int = 0


def drawn_of(store: Store, answer: Answer) -> tuple[Drawn, ...]:
    """The tasks of a run over its checkpoints, then its training series."""
    return (*_tasks(answer), *_series(store, answer))


def _tasks(answer: Answer) -> list[Drawn]:
    found = []
    for task in answer["tasks"]:
        steps = np.array([point["step"] for point in task["points"]], float)
        ends = [(e["value"], e["ci_low"], e["ci_high"]) for e in (point["estimate"] for point in task["points"])]
        values = np.array([[np.nan if end is None else end for end in each] for each in ends], float)
        values[:, 1:] = np.where(np.isnan(values[:, 1:]), values[:, :1], values[:, 1:])  # no interval: the value alone
        title = " ".join(filter(None, (task["task"], task["label"], task["metric"])))
        mean, low, high = values.T
        found.append(Drawn(title, steps, mean, low, high, ends[-1][0]))
    return found


def _series(store: Store, answer: Answer) -> list[Drawn]:
    heads = {head["key"]: head for head in answer["series"][:MOST_SERIES]}
    curves = store.read_overviews([answer["run"]["id"]], list(heads), buckets=BUCKETS)
    rows = {key: row for row, (_, key) in enumerate(curves.series)}
    found = []
    for key, head in heads.items():
        if key not in rows:
            continue
        mean, low, high = (array[rows[key]].astype(float) for array in (curves.mean, curves.low, curves.high))
        count = sum(one.count for one in curves.non_finite if one.row == rows[key])
        found.append(Drawn(key, curves.steps.astype(float), mean, low, high, head["value"], count))
    return found
