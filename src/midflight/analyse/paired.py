"""Scores of items, paired over the checkpoints of a curve: checkpoints are measured on the same items."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from midflight.analyse.curves import Curve
from midflight.errors import MidflightError
from midflight.metrics import load_metric
from midflight.metrics.base import RatioMetric
from midflight.records import EvalReport, Item
from midflight.store import Store
from midflight.store.base import Floats


@dataclass(frozen=True, slots=True)
class ItemScores:
    """What each item adds to the value at each checkpoint of a curve: the mean over the items is the value.

    Attributes:
        values: Checkpoints × items, items sorted by id: scores, or, of a ratio, its linearisation (Cochran 1977,
            section 6).
        clusters: Cluster of each item; None = every item is its own.
        num_left_out: Items that lack a score at one of the checkpoints.
    """

    values: Floats
    clusters: list[str] | None
    num_left_out: int

    @property
    def num_items(self) -> int:
        """Items that are scored at every checkpoint."""
        return int(self.values.shape[1])

    @property
    def means(self) -> list[float]:
        """The value at each checkpoint, over these items."""
        return [math.fsum(row) / self.num_items for row in self.values]

    def cluster_sums(self, values: Floats) -> tuple[Floats, Floats]:
        """Sums over the items of each cluster, of a number for each checkpoint and item; and how many items it has."""
        if self.clusters is None:
            return values, np.ones(self.num_items)
        names, index = np.unique(self.clusters, return_inverse=True)
        sums = np.zeros((len(values), len(names)))
        np.add.at(sums.T, index, values.T)
        return sums, np.bincount(index).astype(np.float64)


def item_scores(store: Store, curve: Curve) -> ItemScores | None:
    """Scores of the items that are scored at every checkpoint of a curve.

    None where the value is not made of them: set metrics, unknown metrics of the user's that are no plain mean, runs
    without item scores, or fewer than two clusters of items that all checkpoints have.
    """
    if not curve.reports:
        return None
    items = store.items(curve.reports[0].task_fingerprint)
    ratio, rows = _ratio(curve.metric), []
    for report, value in zip(curve.reports, curve.values, strict=True):
        row = _contributions(_terms(store, report, curve, items), ratio, value)
        if row is None:
            return None
        rows.append(row)
    common = sorted(set.intersection(*map(set, rows)))
    known = [items[item].cluster if item in items else None for item in common]
    clusters = [cluster if cluster is not None else f"\0{id}" for cluster, id in zip(known, common, strict=True)]
    if len(set(clusters)) < 2:
        return None
    return ItemScores(
        values=np.array([[row[item] for item in common] for row in rows]),
        clusters=clusters if any(cluster is not None for cluster in known) else None,
        num_left_out=len(set().union(*rows)) - len(common),
    )


Term: TypeAlias = tuple[str, float, float]
"""Item, score and weight."""


def _terms(store: Store, report: EvalReport, curve: Curve, items: Mapping[str, Item]) -> list[Term]:
    """Scores of the items that have one and are of the curve's slice."""
    found = store.score_columns(report.id, curve.metric)
    return [
        (id, value, weight)
        for id, value, weight in zip(found.items, found.values, found.weights, strict=True)
        if value is not None and math.isfinite(value) and _is_in(curve.slice, items.get(id))
    ]


def _is_in(slice: str, item: Item | None) -> bool:
    """Whether an item is of the slice."""
    return not slice or (item is not None and slice in {f"{name}={value}" for name, value in item.slices.items()})


def _ratio(key: str) -> RatioMetric | None:
    try:
        metric = load_metric(key)
    except MidflightError:  # the user's own: nothing is known of it here
        return None
    return metric if isinstance(metric, RatioMetric) else None


def _contributions(terms: Sequence[Term], metric: RatioMetric | None, value: float) -> dict[str, float] | None:
    """What each item adds to the value, times the number of items; None if the value is not made of the scores."""
    if not terms:
        return None
    n, top, bottom = len(terms), math.fsum(x for _, x, _ in terms), math.fsum(y for *_, y in terms)
    if {weight for *_, weight in terms} == {1.0} and _is_equal(top / n, value):
        return {item: score for item, score, _ in terms}
    if metric is None or not bottom or not _is_equal(metric.transform(top / bottom), value):
        return None
    ratio = top / bottom
    factor = metric.slope(ratio) * n / bottom
    found = {item: value + factor * (x - ratio * y) for item, x, y in terms}
    return found if all(map(math.isfinite, found.values())) else None


def _is_equal(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
