"""Stage 6, value ± error: takes the scores of all items, gives an estimate for each metric and slice; goes to store.

Missing is never zero: an item without a score lowers the coverage, a set without a score has no value, and fewer than
two independent items have no standard error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from midflight.errors import MetricError
from midflight.estimate.bootstrap import bootstrap_interval
from midflight.estimate.intervals import Interval, mean_interval, ratio_interval, wilson
from midflight.metrics.base import BaseMetric, CostMetric, ItemMetric, RatioMetric
from midflight.records import SCORED, STATES, Cost, Estimate, Item, Sample, Score, State

__all__ = ["Interval", "bootstrap_interval", "estimate_all", "mean_interval", "ratio_interval", "wilson"]


def estimate_all(
    metrics: Sequence[BaseMetric],
    items: Sequence[Sequence[Sample]],
    scores: Mapping[str, Sequence[Score]],
    cost: Cost,
    *,
    level: float = 0.95,
    seed: int = 0,
    skip: Mapping[str, str] | None = None,
) -> list[Estimate]:
    """An estimate of each metric over all items, and over each slice.

    Args:
        metrics: The metrics.
        items: The samples of each item, whether scored or not.
        scores: Scores by the metric's key, in the order of `items`; for metrics that score items.
        cost: What the evaluation took.
        level: Confidence level.
        seed: Seed of the bootstrap.
        skip: Keys of metrics that the engine cannot feed, and why.
    """
    found = []
    for metric in metrics:
        for slice_name, indices in _slices(items).items():
            if slice_name and isinstance(metric, CostMetric):
                continue
            chosen = [items[index] for index in indices]
            if skip and metric.key in skip:
                found.append(
                    _nothing(metric, slice_name, dict.fromkeys(("not_run",), len(chosen)), level, skip[metric.key])
                )
            elif isinstance(metric, ItemMetric):
                found.append(_of_scores(metric, slice_name, [scores[metric.key][i] for i in indices], chosen, level))
            elif isinstance(metric, CostMetric):
                found.append(_of_cost(metric, chosen, cost, level))
            else:
                found.append(_of_set(metric, slice_name, chosen, level, seed))
    return found


def _slices(items: Sequence[Sequence[Sample]]) -> dict[str, list[int]]:
    """Indices of the items in each slice; the empty name holds all."""
    slices: dict[str, list[int]] = {"": list(range(len(items)))}
    for index, samples in enumerate(items):
        for name, value in samples[0].item.slices.items():
            slices.setdefault(f"{name}={value}", []).append(index)
    return dict(sorted(slices.items()))


def _of_scores(
    metric: ItemMetric, slice_name: str, scores: Sequence[Score], items: Sequence[Sequence[Sample]], level: float
) -> Estimate:
    counts = _counts([score.state for score in scores])
    pairs = sorted(
        ((score, samples[0].item) for score, samples in zip(scores, items, strict=True) if score.value is not None),
        key=lambda pair: pair[1].id,
    )
    if not pairs:
        return _nothing(metric, slice_name, counts, level, "no item has a score" if scores else "no items")
    values = [score.value for score, _ in pairs if score.value is not None]
    clusters = _clusters([item for _, item in pairs])
    interval: Interval | None
    if isinstance(metric, RatioMetric):
        weights = [score.weight for score, _ in pairs]
        interval = ratio_interval(
            values, weights, clusters, level=level, transform=metric.transform, slope=metric.slope
        )
    else:
        interval = mean_interval(values, clusters, level=level, low=metric.low, high=metric.high)
    if interval is None:
        return _nothing(metric, slice_name, counts, level, "the denominator is 0")
    return _estimate(metric, slice_name, interval, counts, level)


def _of_cost(metric: CostMetric, items: Sequence[Sequence[Sample]], cost: Cost, level: float) -> Estimate:
    counts = _counts([joint(samples) for samples in items])
    value = metric.measure(cost)
    if value is None:
        return _nothing(metric, "", counts, level, "not measured here")
    return _estimate(metric, "", Interval(value, None, None, None, 1, "measured once"), counts, level)


def _of_set(
    metric: BaseMetric, slice_name: str, items: Sequence[Sequence[Sample]], level: float, seed: int
) -> Estimate:
    counts = _counts([joint(samples) for samples in items])
    scored = sorted((s for s in items if joint(s) in SCORED), key=lambda samples: samples[0].item.id)
    if not scored:
        return _nothing(metric, slice_name, counts, level, "no item has an answer" if items else "no items")
    groups: dict[str, tuple[list[object], list[object]]] = {}
    for samples in scored:
        item = samples[0].item
        predictions, labels = groups.setdefault(item.cluster or f"\0{item.id}", ([], []))
        predictions += ["" if sample.prediction is None else sample.prediction for sample in samples]
        labels += [item.target] * len(samples)
    try:
        interval = bootstrap_interval(metric.compute, list(groups.values()), level=level, seed=seed)
    except MetricError as error:
        return _nothing(metric, slice_name, counts, level, error.message)
    return _estimate(metric, slice_name, interval, counts, level)


def joint(samples: Sequence[Sample]) -> State:
    """How an item ended, from its samples: the first that has no answer says so, else `ok` if one is."""
    from midflight.metrics.base import joint_state

    lost = next((sample.state for sample in samples if sample.state not in SCORED), None)
    return lost or joint_state([sample.state for sample in samples])


def _clusters(items: Sequence[Item]) -> list[str] | None:
    if all(item.cluster is None for item in items):
        return None
    return [item.cluster if item.cluster is not None else f"\0{item.id}" for item in items]


def _counts(states: Sequence[State]) -> dict[State, int]:
    counted = Counter(states)
    return {state: counted[state] for state in STATES if counted[state]}


def _estimate(
    metric: BaseMetric, slice_name: str, interval: Interval, counts: Mapping[State, int], level: float
) -> Estimate:
    return Estimate(
        metric=metric.key,
        slice=slice_name,
        value=interval.value,
        stderr=interval.stderr,
        ci_low=interval.low,
        ci_high=interval.high,
        level=level,
        n=sum(counts.values()),
        clusters=interval.clusters,
        method=interval.method,
        counts=counts,
        unit=metric.unit,
        higher_is_better=metric.higher_is_better,
    )


def _nothing(metric: BaseMetric, slice_name: str, counts: Mapping[State, int], level: float, note: str) -> Estimate:
    return Estimate(
        metric=metric.key,
        slice=slice_name,
        value=None,
        stderr=None,
        ci_low=None,
        ci_high=None,
        level=level,
        n=sum(counts.values()),
        clusters=0,
        method="none",
        counts=counts,
        unit=metric.unit,
        higher_is_better=metric.higher_is_better,
        note=note,
    )
