"""One metric over the steps of several runs, so that they can be held against each other."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from midflight.analyse.curves import Curve, curves_of
from midflight.analyse.learning_curve import JUDGES, LearningCurve, evaluated, logged
from midflight.analyse.names import canonical_name, canonical_names
from midflight.catalog import unknown
from midflight.errors import ConfigError
from midflight.records import EvalReport
from midflight.store import RunInfo, Store

_DOWN = frozenset(("loss", "nll", "ppl", "perplexity", "kl", "error"))
_UP = frozenset(("reward", "rewards", "accuracy", "acc", "score", "margin", "margins", "return"))
"""Words in names of training series that tell their direction."""


def common_curves(
    store: Store, runs: Mapping[str, RunInfo], metric: str | None = None, higher_is_better: bool | None = None
) -> tuple[dict[str, LearningCurve], dict[str, str]]:
    """The curve of each run, and the runs that have none, with the reason.

    Args:
        store: Where they are.
        runs: Runs by the names that `run_names` gives them.
        metric: ``metric``, ``task/metric`` or the name of a training series; None = the first metric of the task that
            most runs evaluated, else the first series of `JUDGES`.
        higher_is_better: Direction of a training series; None = what its name tells.

    Raises:
        UnknownKeyError: If no run has the metric; says what there is.
        ConfigError: If several tasks have it, or its direction is not known.
    """
    reports = [report for run in runs.values() for report in store.reports(run.id)]
    pair = _of_tasks(reports, metric) if metric is not None else _commonest(curves_of(store, list(runs.values())))
    if pair is not None:
        return _of_one_kind(curves_of(store, list(runs.values()), *pair), list(runs))
    keys = sorted({key for run in runs.values() for key in store.keys(run.id)})
    canonical = {canonical: key for key, canonical in canonical_names(keys).items()}
    key = metric if metric is not None else next((canonical[name] for name in JUDGES if name in canonical), None)
    if key is None or key not in keys:
        known = sorted({f"{r.task}/{e.metric}" for r in reports for e in r.estimates} | set(keys))
        raise unknown("metrics and series of these runs", metric or "none given", known)
    direction = _direction(key) if higher_is_better is None else higher_is_better
    if direction is None:
        raise ConfigError(
            f"nothing says whether more of {key!r} is better", hint="--higher-is-better or --lower-is-better"
        )
    found, lacking = {}, {}
    for name, run in runs.items():
        points = store.read_points(run.id, key)
        curve = logged(key, direction, points.steps, points.values)
        if len(curve):
            found[name] = curve
        else:
            lacking[name] = f"too few values of {key}: {len(points.steps)}"
    return found, lacking


def _of_tasks(reports: Sequence[EvalReport], metric: str) -> tuple[str, str] | None:
    """Task and metric that are meant; None if no evaluation has such a metric.

    Raises:
        ConfigError: If several tasks have it.
    """
    every = {(r.task, e.metric) for r in reports for e in r.estimates}
    pairs = sorted(pair for pair in every if metric in (pair[1], "/".join(pair)))
    if len(pairs) > 1:
        raise ConfigError("--metric", got=metric, allowed=" or ".join("/".join(pair) for pair in pairs))
    return pairs[0] if pairs else None


def _commonest(curves: Sequence[Curve]) -> tuple[str, str] | None:
    """The first metric of the task that most runs evaluated."""
    having = Counter({(one.run, one.task, one.metric) for one in curves if one.reports})
    runs = Counter((task, metric) for _, task, metric in having)
    return min(runs, key=lambda pair: (-runs[pair], pair), default=None)


def _of_one_kind(curves: Sequence[Curve], runs: Sequence[str]) -> tuple[dict[str, LearningCurve], dict[str, str]]:
    """The curves that were evaluated as most runs were: same items, prompt, grader and engine.

    Raises:
        ConfigError: If none has a value with a direction.
    """
    kinds = Counter(kind for _, kind in {(one.run, one.kind) for one in curves})
    commonest = min(kinds, key=lambda kind: (-kinds[kind], kind))
    found, lacking = {}, {}
    for run in runs:
        own = [one for one in curves if one.run == run]
        alike = sorted((one for one in own if one.kind == commonest), key=lambda one: (-len(one.reports), one.label))
        curve = evaluated(alike[0]) if alike else None
        if curve is not None:
            found[run] = curve
        else:
            other = "evaluated otherwise than the others: task, prompt, grader or engine differ"
            lacking[run] = "not evaluated" if not own else "no value" if alike else other
    if not found:
        raise ConfigError(f"{curves[0].task}/{curves[0].metric}: no run has a value with a direction")
    return found, lacking


def _direction(key: str) -> bool | None:
    """The direction that the name of a series tells; None if it tells none, or two.

    >>> [_direction(key) for key in ("val/loss", "rewards/format", "lr", "reward_kl", "train/perplexity")]
    [False, True, None, None, False]
    """
    name = canonical_name(key) or key
    if name in JUDGES:
        return JUDGES[name]
    words = set(re.split(r"[^a-z]+", key.lower()))
    up, down = bool(words & _UP), bool(words & _DOWN)
    return up if up != down else None
