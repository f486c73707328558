"""Stage 6, value ± error: takes the scores of all items, gives an estimate for each metric and slice; goes to store.

Missing is never zero: an item without a score lowers the coverage, a set without a score has no value, and fewer than
two independent items have no standard error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from midflight.errors import MetricError
from midflight.estimate.bootstrap import bootstrap_interval
from midflight.estimate.intervals import Interval, mean_interval, ratio_interval, wilson
from midflight.metrics.base import BaseMetric, CostMetric, ItemMetric, RatioMetric, as_number, joint_state, raised
from midflight.records import SCORED, STATES, Cost, Estimate, Item, Sample, Score, Slice, State

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
        for part, indices in _slices(items).items():
            chosen = [items[index] for index in indices]
            if part is not None and isinstance(metric, CostMetric):
                continue
            if skip and metric.key in skip:
                estimate = _nothing(metric, {"not_run": len(chosen)}, level, skip[metric.key])
            elif isinstance(metric, ItemMetric):
                estimate = _of_scores(metric, [scores[metric.key][i] for i in indices], chosen, level)
            elif isinstance(metric, CostMetric):
                estimate = _of_cost(metric, chosen, cost, level)
            else:
                estimate = _of_set(metric, chosen, level, seed)
            found.append(replace(estimate, slice=str(part or ""), part=part))
    return found


def _slices(items: Sequence[Sequence[Sample]]) -> dict[Slice | None, list[int]]:
    """Indices of the items in each slice, in the order of their names and values; first, as None, all items."""
    slices: dict[Slice, list[int]] = {}
    for index, samples in enumerate(items):
        for name, value in samples[0].item.slices.items():
            slices.setdefault(Slice(name, value), []).append(index)
    ordered = sorted(slices.items(), key=lambda entry: (entry[0].name, entry[0].value))
    return {None: list(range(len(items))), **dict(ordered)}


def _of_scores(
    metric: ItemMetric, scores: Sequence[Score], items: Sequence[Sequence[Sample]], level: float
) -> Estimate:
    counts = _counts([score.state for score in scores])
    pairs = sorted(
        ((score, samples[0].item) for score, samples in zip(scores, items, strict=True) if score.value is not None),
        key=lambda pair: pair[1].id,
    )
    if not pairs:
        reasons = Counter(score.note for score in scores if score.state == "error" and score.note)
        most = f": {reasons.most_common(1)[0][0]}" if reasons else ""
        return _nothing(metric, counts, level, f"no item has a score{most}" if scores else "no items")
    values = [score.value for score, _ in pairs if score.value is not None]
    clusters = _clusters([item for _, item in pairs])
    interval: Interval | None
    try:
        if isinstance(metric, RatioMetric):
            interval = ratio_interval(
                values,
                [score.weight for score, _ in pairs],
                clusters,
                level=level,
                transform=metric.transform,
                slope=metric.slope,
                low=metric.low,
                high=metric.high,
            )
        else:
            interval = mean_interval(values, clusters, level=level, low=metric.low, high=metric.high)
    except Exception as error:  # a user's `transform`, `slope` or bounds: the other metrics go on
        return _failed(metric, counts, level, raised("the estimate", error))
    if interval is None:
        return _nothing(metric, counts, level, "the denominator is 0")
    return _estimate(metric, interval, counts, level)


def _of_cost(metric: CostMetric, items: Sequence[Sequence[Sample]], cost: Cost, level: float) -> Estimate:
    counts = _counts([joint(samples) for samples in items])
    try:
        measured = metric.measure(cost)
        value = None if measured is None else as_number(measured)
    except Exception as error:  # user code: the other metrics go on
        return _failed(metric, counts, level, raised("measure", error))
    if value is None:
        return _nothing(metric, counts, level, "not measured here")
    return _estimate(metric, Interval(value, None, None, None, 1, "measured once"), counts, level)


def _of_set(metric: BaseMetric, items: Sequence[Sequence[Sample]], level: float, seed: int) -> Estimate:
    counts = _counts([joint(samples) for samples in items])
    scored = sorted((s for s in items if joint(s) in SCORED), key=lambda samples: samples[0].item.id)
    if not scored:
        return _nothing(metric, counts, level, "no item has an answer" if items else "no items")
    groups: dict[str, tuple[list[object], list[object]]] = {}
    for samples in scored:
        item = samples[0].item
        predictions, labels = groups.setdefault(_cluster(item), ([], []))
        predictions += ["" if sample.prediction is None else sample.prediction for sample in samples]
        labels += [item.target] * len(samples)
    try:
        interval = bootstrap_interval(metric.compute, list(groups.values()), level=level, seed=seed)
    except MetricError as error:
        return _failed(metric, counts, level, error.message)
    return _estimate(metric, interval, counts, level)


def joint(samples: Sequence[Sample]) -> State:
    """How an item ended, from its samples: the first that has no answer says so, else `ok` if one is."""
    lost = next((sample.state for sample in samples if sample.state not in SCORED), None)
    return lost or joint_state([sample.state for sample in samples])


def _clusters(items: Sequence[Item]) -> list[str] | None:
    if all(item.cluster is None for item in items):
        return None
    return [_cluster(item) for item in items]


def _cluster(item: Item) -> str:
    """The item's cluster; one that has none is its own."""
    return item.cluster if item.cluster is not None else f"\0{item.id}"


def _counts(states: Sequence[State]) -> dict[State, int]:
    counted = Counter(states)
    return {state: counted[state] for state in STATES if counted[state]}


def _estimate(metric: BaseMetric, interval: Interval, counts: Mapping[State, int], level: float) -> Estimate:
    return Estimate(
        metric=metric.key,
        slice="",
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
        lowest=metric.low,
        highest=metric.high,
    )


def _failed(metric: BaseMetric, counts: Mapping[State, int], level: float, reason: str) -> Estimate:
    """The estimate of a metric that raised: what the model answered is an error as far as this metric sees it."""
    lost = {state: count for state, count in counts.items() if state not in SCORED}
    answered = sum(counts.values()) - sum(lost.values())
    seen: dict[State, int] = {**lost, "error": lost.get("error", 0) + answered}
    return replace(_nothing(metric, seen, level, reason), method="failed")


def _nothing(metric: BaseMetric, counts: Mapping[State, int], level: float, note: str) -> Estimate:
    return Estimate(
        metric=metric.key,
        slice="",
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
        lowest=metric.low,
        highest=metric.high,
        note=note,
    )
