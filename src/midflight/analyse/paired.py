"""Scores of items, paired over the checkpoints of a curve: checkpoints are measured on the same items."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from midflight.analyse.curves import Curve
from midflight.errors import MidflightError
from midflight.metrics import load_metric
from midflight.metrics.base import RatioMetric
from midflight.records import Item, Score
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
    rows = []
    for report, value in zip(curve.reports, curve.values, strict=True):
        scores = [score for score in store.scores(report.id, curve.metric) if _is_in(curve.slice, items, score)]
        row = _contributions(curve.metric, scores, value)
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


def _is_in(slice: str, items: Mapping[str, Item], score: Score) -> bool:
    """Whether an item has a score and is of the slice."""
    if score.value is None or not math.isfinite(score.value):
        return False
    if not slice:
        return True
    item = items.get(score.item_id)
    return item is not None and slice in {f"{name}={value}" for name, value in item.slices.items()}


def _contributions(key: str, scores: Sequence[Score], value: float) -> dict[str, float] | None:
    """What each item adds to the value, times the number of items; None if the value is not made of the scores."""
    tops = [score.value for score in scores if score.value is not None]
    bottoms = [score.weight for score in scores]
    if not tops:
        return None
    if set(bottoms) == {1.0} and _is_equal(math.fsum(tops) / len(tops), value):
        return {score.item_id: top for score, top in zip(scores, tops, strict=True)}
    try:
        metric = load_metric(key)
    except MidflightError:  # the user's own: nothing is known of it here
        return None
    bottom = math.fsum(bottoms)
    if not isinstance(metric, RatioMetric) or not bottom:
        return None
    ratio = math.fsum(tops) / bottom
    if not _is_equal(metric.transform(ratio), value):
        return None
    factor = metric.slope(ratio) * len(tops) / bottom
    found = {s.item_id: value + factor * (x - ratio * s.weight) for s, x in zip(scores, tops, strict=True)}
    return found if all(map(math.isfinite, found.values())) else None


def _is_equal(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
