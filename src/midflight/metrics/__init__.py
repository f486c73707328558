"""Stage 5, scores: takes samples, gives a score for each item and metric; between engine and estimate.

A metric is a file in this folder (`base` says what it may be), a registered class of the user's, or a key with a
number: ``pass@8`` is `pass_at`, ``pass^4`` is `pass_hat`. Verifiers that parse a model's text run in worker processes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from midflight import catalog
from midflight.errors import ConfigError, MetricError
from midflight.metrics.base import (
    BaseMetric,
    CostMetric,
    Grade,
    GroupMetric,
    ItemMetric,
    RatioMetric,
    SampleMetric,
    failed_grades,
    failed_scores,
    raised,
)
from midflight.records import Sample, Score

__all__ = [
    "BaseMetric",
    "CostMetric",
    "Grade",
    "GroupMetric",
    "ItemMetric",
    "RatioMetric",
    "SampleMetric",
    "load_metric",
    "load_metrics",
    "score_all",
]

PACKAGE = "midflight.metrics"
ALWAYS = ("tokens_per_second", "peak_memory")
"""Metrics of every evaluation: no number without its cost."""

_NUMBERED = re.compile(r"(\w+)([@^])(\d+)(?::(\w+))?")
_FILES = {"@": "at", "^": "hat"}


def load_metric(key: str, registered: Mapping[str, type[BaseMetric]] = {}) -> BaseMetric:
    """A metric by its key.

    Args:
        key: File name, registered name, or either with a number: ``pass@8``, ``pass@8:exact_match``.
        registered: Classes of the user's.

    Raises:
        UnknownKeyError: If there is no such metric.
    """
    if key in registered:
        metric = _construct(registered[key], key)
    elif match := _NUMBERED.fullmatch(key):
        name, sign, number, grader = match.groups()
        group = _load_numbered(key, f"{name}_{_FILES[sign]}")(int(number))
        if grader:
            found = load_metric(grader, registered)
            if not isinstance(found, SampleMetric):
                raise MetricError(f"{key}: {grader} does not score samples", allowed="e.g. exact_match")
            group.grader = found
        metric = group
    else:
        metric = _construct(_load_plain(key), key)
    metric.key = key
    return metric


def _load_numbered(key: str, file: str) -> type[GroupMetric]:
    if file not in catalog.keys(PACKAGE):
        raise catalog.unknown("metrics", key, _keys())
    return catalog.load(PACKAGE, file, GroupMetric)  # type: ignore[type-abstract]  # it gives a subclass of it


def _load_plain(key: str) -> type[BaseMetric]:
    if key.endswith(("_at", "_hat")) or key not in catalog.keys(PACKAGE):
        raise catalog.unknown("metrics", key, _keys())
    return catalog.load(PACKAGE, key, BaseMetric)


def _keys() -> list[str]:
    return [re.sub(r"_at$", "@k", re.sub(r"_hat$", "^k", key)) for key in catalog.keys(PACKAGE)]


def _construct(kind: type[BaseMetric], key: str) -> BaseMetric:
    try:
        return kind()
    except Exception as error:  # user code; nothing has run yet
        raise MetricError(f"metric {key!r} cannot be made without arguments: {error}") from None


def load_metrics(
    keys: Sequence[str], samples: int = 1, registered: Mapping[str, type[BaseMetric]] = {}
) -> list[BaseMetric]:
    """All metrics of a task, those that speak of groups bound to the first one that grades samples.

    Args:
        keys: Their keys.
        samples: Samples an item, to refuse what they cannot tell.
        registered: Classes of the user's.

    Raises:
        UnknownKeyError: If there is no such metric.
        MetricError: If a metric needs more samples, or a grader beside it.
    """
    metrics = [load_metric(key, registered) for key in keys]
    grader = next((m for m in metrics if isinstance(m, SampleMetric) and _says_correct(m)), None)
    for metric in metrics:
        if not isinstance(metric, GroupMetric):
            continue
        metric.grader = metric.grader or grader
        if metric.grader is None:
            raise MetricError(
                f"{metric.key}: no metric beside it says which samples are correct", hint="name one, e.g. exact_match"
            )
        if metric.min_samples > samples:
            raise MetricError(f"{metric.key} needs {metric.min_samples} samples an item", got=f"samples = {samples}")
    return metrics


def _says_correct(metric: SampleMetric) -> bool:
    return (metric.low, metric.high, metric.higher_is_better) == (0.0, 1.0, True)


_TO_WRITE: dict[type[BaseMetric], tuple[str, ...]] = {
    SampleMetric: ("grade(self, sample)", "grades(self, samples)"),
    GroupMetric: ("score_group(self, grades, samples)", "scores_of(self, graded, items)"),
    RatioMetric: ("terms(self, sample)", "scores(self, items)"),
    ItemMetric: ("scores(self, items)",),
    CostMetric: ("measure(self, cost)",),
    BaseMetric: ("compute(self, predictions, labels)",),
}
"""What a subclass has to write, or one of it; the most special base first."""


def check_class(name: str, kind: Any) -> type[BaseMetric]:
    """The class, if it can be a metric.

    Raises:
        ConfigError: If it cannot.
    """
    if not isinstance(name, str) or not re.fullmatch(r"\w+", name):
        raise ConfigError("name of a metric", got=name, allowed="letters, digits and underscores")
    if not (isinstance(kind, type) and issubclass(kind, BaseMetric)):
        raise ConfigError(f"metric {name!r}", got=kind, allowed="a subclass of midflight.BaseMetric")
    base = next(base for base in _TO_WRITE if issubclass(kind, base))
    methods = [signature.partition("(")[0] for signature in _TO_WRITE[base]]
    if all(getattr(kind, method) is getattr(base, method) for method in methods):
        raise ConfigError(f"metric {name!r} has no {_TO_WRITE[base][0]}", got=kind.__name__)
    return kind


def score_all(metrics: Sequence[BaseMetric], items: Sequence[Sequence[Sample]]) -> dict[str, list[Score]]:
    """Scores of all metrics that score items, by the metric's key; each grader grades once.

    A metric that raises fails alone: its items are errors that say what it raised.

    Args:
        metrics: The metrics.
        items: The samples of each item.
    """
    grades: dict[str, list[list[Grade]]] = {}
    found: dict[str, list[Score]] = {}
    for metric in metrics:
        grader = metric.grader if isinstance(metric, GroupMetric) else metric
        if isinstance(grader, SampleMetric) and isinstance(metric, GroupMetric | SampleMetric):
            if grader.key not in grades:
                grades[grader.key] = _grades(grader, items)
            found[metric.key] = metric.scores_of(grades[grader.key], items)
        elif isinstance(metric, ItemMetric):
            found[metric.key] = _scores(metric, items)
    return found


def _grades(grader: SampleMetric, items: Sequence[Sequence[Sample]]) -> list[list[Grade]]:
    try:
        return grader.grade_items(items)
    except Exception as error:  # user code, or a verifier that is not installed: the other metrics go on
        return failed_grades(items, raised("grades", error))


def _scores(metric: ItemMetric, items: Sequence[Sequence[Sample]]) -> list[Score]:
    try:
        scores = metric.scores(items)
        if len(scores) != len(items):
            raise MetricError(f"scores gave {len(scores)} scores for {len(items)} items")
    except Exception as error:  # user code: the other metrics go on
        return failed_scores(metric.key, items, raised("scores", error))
    return scores
