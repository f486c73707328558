"""What `midflight power` goes by: how scores of a task differ between two models, as stored or as given."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from midflight.errors import ConfigError, MidflightError, StoreError, UnknownKeyError, shorten
from midflight.estimate.power import Spread, spread_of_one, spread_of_pairs, variance
from midflight.records import EvalReport, Score
from midflight.store import RunInfo, Store


@dataclass(frozen=True, slots=True)
class Ground:
    """What is known of a task: from the store, or from what was given.

    Attributes:
        metric: The metric.
        source: Where the variance is from, and what was passed over.
        items: Items that the task has; None if it cannot be loaded.
        spread: How differences of two models vary from item to item.
        sizes: Sizes of these differences, item by item.
        width: Largest score − smallest score; None if the metric has no two bounds.
    """

    metric: str
    source: str
    items: int | None
    spread: Spread
    sizes: Sequence[float]
    width: float | None


def from_shares(task: str | None, metric: str | None, accuracy: float, correlation: float | None) -> Ground:
    """Right and wrong answers, none of which is stored yet; of a task that can be loaded also its number of items."""
    if correlation is None:
        raise ConfigError(
            "--accuracy without --correlation", hint="e.g. --correlation 0.5; checkpoints of one run often have more"
        )
    if metric is not None and not _may_be_share(metric):
        raise ConfigError("--metric", got=metric, allowed="beside --accuracy, one by which an item is right or wrong")
    spread = spread_of_one(accuracy * (1 - accuracy), correlation)
    source = f"accuracy {accuracy:g} and correlation {correlation:zg}, as given"
    items, first, why = _of_task(task)
    sizes = _all_or_nothing(spread.total, items, 1.0) if items is not None else []
    return Ground(metric or first or "accuracy", source + why, items, spread, sizes, 1.0)


def _of_task(task: str | None) -> tuple[int | None, str, str]:
    """How many items a task has and its first metric; if it cannot be loaded neither, and why."""
    from midflight.cli._options import load_tasks

    if task is None:
        return None, "", ""
    try:
        (loaded,) = load_tasks([task], None, 0)
    except MidflightError as error:
        return None, "", f"; what its items can show is not known: {shorten(error.message)}"
    return len(loaded.items), loaded.spec.metrics[0], ""


def _all_or_nothing(variance: float, items: int, width: float | None) -> list[float]:
    """Sizes of differences of that variance, each of which is 0 or as large as can be."""
    largest = width or 1.0
    differing = min(items, round(variance / largest**2 * items))
    return [largest] * differing + [0.0] * (items - differing)


def from_store(store: Store, task: str, metric: str | None, baseline: str | None, correlation: float | None) -> Ground:
    """A task of which the store has one evaluation, or two on the same items."""
    run, pair, passed = _chosen(store, task, metric, baseline)
    key = metric or pair[0].judging[0].metric
    scores = [{score.item_id: score for score in _scored(store, report, key)} for report in pair]
    ids = sorted(scores[0].keys() & scores[-1].keys())
    values = [[_value(found[id]) for id in ids] for found in scores]
    estimate = pair[0].estimate(key)
    size, width = estimate.n, _width(key)
    if estimate.lowest is not None and estimate.highest is not None:
        width = estimate.highest - estimate.lowest
    where = f"{run.project}/{run.name} {' and '.join(f'step {report.progress.step}' for report in pair)}"
    told = f"; passed over: {_told(passed)}" if passed else ""
    if len(pair) == 1:
        if correlation is None:
            raise ConfigError(
                f"{shorten(task)!r} has one evaluation only that can be used: {shorten(where + told, 400)}",
                hint="give --correlation with what it is to be compared with, e.g. 0.5, or another --baseline",
            )
        spread = spread_of_one(variance(values[0]), correlation)
        sizes = _all_or_nothing(spread.total, size, width)
        return Ground(key, f"{where}, correlation as given{told}", size, spread, sizes, width)
    items = store.items(pair[0].task_fingerprint)
    names = [items[id].cluster or f"\0{id}" for id in ids] if any(items[id].cluster for id in ids) else None
    spread = spread_of_pairs(values[0], values[1], _samples(ids, scores), names)
    return Ground(key, where + told, size, spread, [abs(a - b) for a, b in zip(*values, strict=True)], width)


def _told(passed: Sequence[str]) -> str:
    return ", ".join(passed[:3]) + (f" and {len(passed) - 3} more" if len(passed) > 3 else "")


def _chosen(
    store: Store, task: str, metric: str | None, baseline: str | None
) -> tuple[RunInfo, list[EvalReport], list[str]]:
    """Two evaluations of a task in one run that can be compared, or the only one; and what was passed over, and why.

    Without a baseline the newest run that has two. A model that gives all items the same score says nothing of how
    others differ, nor do two whose scores are all the same.
    """
    from midflight.analyse.evidence import reports_of

    passed: list[str] = []
    if baseline is not None:
        run, reports = reports_of(store, baseline)
        found = [report for report in reports if report.task == task]
        if not found:
            tasks = ", ".join(sorted({report.task for report in reports}))
            raise ConfigError(f"{shorten(baseline)!r} has no evaluation of {shorten(task)!r}", hint=f"it has {tasks}")
        first = found[-1]
        if not _varies(store, run, first, metric, passed):
            raise ConfigError("--baseline", got=baseline, allowed="one whose scores differ", hint=passed[0])
        return run, [first, *_partner(store, run, first, metric, passed)], passed
    single: tuple[RunInfo, list[EvalReport]] | None = None
    for run in store.runs():
        tried = set()  # versions of the task: what equals the newest evaluation of one is not tried again
        for last in _readable(store, run, task, passed):
            if last.task_fingerprint not in tried and _varies(store, run, last, metric, passed):
                tried.add(last.task_fingerprint)
                others = _partner(store, run, last, metric, passed)
                if others:
                    return run, [*others, last], passed
                single = single or (run, [last])
    if single is None:
        raise ConfigError(
            f"no evaluation of {shorten(task)!r} in {store.url}" + (" that can be used" if passed else ""),
            hint="evaluate it first, or give --accuracy and --correlation" + (f"; {_told(passed)}" if passed else ""),
        )
    return *single, passed


def _readable(store: Store, run: RunInfo, task: str, passed: list[str]) -> list[EvalReport]:
    """Evaluations of a task in a run, the newest first; none of a run that is damaged."""
    try:
        return store.reports(run.id, task)[::-1]
    except StoreError as error:
        passed.append(error.message)
        return []


def _varies(store: Store, run: RunInfo, report: EvalReport, metric: str | None, passed: list[str]) -> bool:
    """Whether the scores of an evaluation are not all the same; if they are, it is passed over."""
    key = metric or report.judging[0].metric
    values = {score.value for score in _scored(store, report, key)}
    if len(values) == 1:
        told = f"{run.project}/{run.name} step {report.progress.step} (all scores are {values.pop():zg})"
        if told not in passed:
            passed.append(told)
    return len(values) > 1


def _partner(store: Store, run: RunInfo, one: EvalReport, metric: str | None, passed: list[str]) -> list[EvalReport]:
    """The newest other evaluation of a run that can be compared with one and differs from it in an item; or none."""
    key = metric or one.judging[0].metric
    own = {score.item_id: score.value for score in _scored(store, one, key)}
    for other in reversed(store.reports(run.id, one.task)):
        is_other = (other.weights, other.progress.step) != (one.weights, one.progress.step)
        if not is_other or not _comparable(one, other) or not _varies(store, run, other, key, passed):
            continue
        theirs = {score.item_id: score.value for score in _scored(store, other, key)}
        if any(theirs[id] != own[id] for id in own.keys() & theirs.keys()):
            return [other]
        passed.append(
            f"{run.project}/{run.name} step {other.progress.step} (the same scores as step {one.progress.step})"
        )
    return []


def _comparable(one: EvalReport, other: EvalReport) -> bool:
    return one.task_fingerprint == other.task_fingerprint


def _scored(store: Store, report: EvalReport, metric: str) -> list[Score]:
    """The scores of a metric that is a mean of scores."""
    found = [score for score in store.scores(report.id, metric) if score.value is not None]
    if not found:
        names = ", ".join(dict.fromkeys(e.metric for e in report.estimates if store.scores(report.id, e.metric)))
        raise ConfigError("--metric", got=metric, allowed=f"one that scores items: {shorten(names) or 'there is none'}")
    if any(score.weight != 1 for score in found) or not all(math.isfinite(_value(score)) for score in found):
        raise ConfigError("--metric", got=metric, allowed="a mean of finite scores, not a ratio")
    return found


def _value(score: Score) -> float:
    assert score.value is not None
    return score.value


def _samples(
    ids: Sequence[str], scores: Sequence[dict[str, Score]]
) -> list[tuple[tuple[float, ...], tuple[float, ...]]] | None:
    """Scores of the samples of each item in both evaluations; None if one has fewer than two."""
    found = []
    for id in ids:
        pair = tuple(tuple(value for value in of[id].samples if value is not None) for of in scores)
        if min(map(len, pair)) < 2:
            return None
        found.append((pair[0], pair[1]))
    return found


def _width(metric: str) -> float | None:
    """Range of a metric's scores; None if it has no two bounds, or is not one that comes with Midflight."""
    low, high = _bounds(metric) or (None, None)
    return None if low is None or high is None else high - low


def _may_be_share(metric: str) -> bool:
    """Whether scores of a metric may be 0 and 1; nobody knows it of a user's own."""
    return _bounds(metric) in (None, (0.0, 1.0))


def _bounds(metric: str) -> tuple[float | None, float | None] | None:
    from midflight.metrics import load_metric

    try:
        found = load_metric(metric)
    except UnknownKeyError:
        return None
    return found.low, found.high
