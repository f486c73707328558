"""One metric over the steps of several runs, so that they can be held against each other."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from midflight.analyse.learning_curve import LearningCurve, evaluated, smoothed
from midflight.catalog import unknown
from midflight.errors import ConfigError
from midflight.records import EvalReport
from midflight.store import RunInfo, Store

_DOWN = frozenset(("loss", "nll", "ppl", "perplexity", "kl", "error"))
_UP = frozenset(("reward", "rewards", "accuracy", "acc", "score", "margin", "margins", "return"))
"""Words in names of training series that tell their direction."""
_SERIES = ("eval_loss", "reward", "loss")
"""Series that runs are judged by where nothing was evaluated."""


def common_curves(
    store: Store, runs: Mapping[str, RunInfo], metric: str | None = None, higher_is_better: bool | None = None
) -> tuple[dict[str, LearningCurve], dict[str, str]]:
    """The curve of each run, and the runs that have none, with the reason.

    Args:
        store: Where they are.
        runs: Runs by the name that they are shown under.
        metric: ``metric``, ``task/metric`` or the name of a training series; None = the first metric of the task that
            most runs evaluated, else a training series ``eval_loss``, ``reward`` or ``loss``.
        higher_is_better: Direction of a training series; None = what its name tells.

    Raises:
        UnknownKeyError: If no run has the metric; says what there is.
        ConfigError: If several tasks have it, or its direction is not known.
    """
    reports = {name: store.reports(run.id) for name, run in runs.items()}
    task_and_metric = _of_tasks(reports, metric)
    if task_and_metric is not None:
        curves = {name: evaluated(found, *task_and_metric) for name, found in reports.items()}
        if not any(curves.values()):
            raise ConfigError(f"{'/'.join(task_and_metric)}: no run has a value with a direction")
        return _of_one_version(curves)
    keys = {name: set(store.keys(run.id)) for name, run in runs.items()}
    every = sorted(set().union(*keys.values()))
    key = metric if metric is not None else next((one for one in _SERIES if one in every), None)
    if key is None or key not in every:
        evaluations = {f"{r.task}/{e.metric}" for found in reports.values() for r in found for e in r.estimates}
        raise unknown("metrics and series of these runs", metric or "--metric", sorted({*evaluations, *every}))
    direction = _direction(key) if higher_is_better is None else higher_is_better
    if direction is None:
        raise ConfigError(f"direction of {key!r}", got=None, allowed="--higher-is-better or --lower-is-better")
    found, lacking = {}, {}
    for name, run in runs.items():
        points = store.read_points(run.id, key)
        curve = smoothed(key, direction, points.steps, points.values)
        if len(curve):
            found[name] = curve
        else:
            lacking[name] = f"fewer than ten values of {key}"
    return found, lacking


def _of_tasks(reports: Mapping[str, list[EvalReport]], metric: str | None) -> tuple[str, str] | None:
    """Task and metric that are meant; None if no evaluation has such a metric.

    Raises:
        ConfigError: If several tasks have it.
    """
    if metric is None:
        newest = [{report.task: report for report in found} for found in reports.values()]
        having = Counter((r.task, r.judging[0].metric) for tasks in newest for r in tasks.values())
        return min(having, key=lambda pair: (-having[pair], pair), default=None)
    pairs = sorted(
        {
            (r.task, e.metric)
            for found in reports.values()
            for r in found
            for e in r.estimates
            if not e.slice and metric in (e.metric, f"{r.task}/{e.metric}")
        }
    )
    if len(pairs) > 1:
        raise ConfigError("--metric", got=metric, allowed=" or ".join("/".join(pair) for pair in pairs))
    return pairs[0] if pairs else None


def _of_one_version(
    curves: Mapping[str, LearningCurve | None],
) -> tuple[dict[str, LearningCurve], dict[str, str]]:
    """Those that were evaluated on the version of the task that most runs have: others cannot be compared."""
    versions = Counter(curve.version for curve in curves.values() if curve is not None)
    commonest = min(versions, key=lambda version: (-versions[version], version))
    found, lacking = {}, {}
    for name, curve in curves.items():
        if curve is None:
            lacking[name] = "not evaluated"
        elif curve.version != commonest:
            lacking[name] = "evaluated on another version of the task"
        else:
            found[name] = curve
    return found, lacking


def _direction(key: str) -> bool | None:
    """The direction that a name tells; None if it tells none, or two.

    >>> [_direction(key) for key in ("eval_loss", "rewards/format", "lr", "reward_kl", "train/perplexity")]
    [False, True, None, None, False]
    """
    words = set(re.split(r"[^a-z]+", key.lower()))
    up, down = bool(words & _UP), bool(words & _DOWN)
    return up if up != down else None
