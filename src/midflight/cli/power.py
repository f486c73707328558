"""`midflight power`: how many items does it take to see a difference, and what can this task show?"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from midflight.cli._options import JsonOption, StoreOption
from midflight.errors import ConfigError, UnknownKeyError, shorten

if TYPE_CHECKING:
    from collections.abc import Sequence

    from midflight.estimate.power import Spread
    from midflight.records import EvalReport, Score
    from midflight.store import RunInfo, Store


@dataclass(frozen=True, slots=True)
class Plan:
    """What is printed.

    Attributes:
        task: The task.
        metric: The metric.
        source: Where the variance is from.
        items: Items that the task has.
        detect: The difference that is to be seen.
        samples: Samples an item that are planned; None = as many as were taken.
        alpha: Error rate, two-sided.
        power: Probability of seeing it.
        variance: Variance of the difference an item, design effect included.
        between: What is left of it with endless samples; None if not known.
        correlation: Between the scores of both models.
        design_effect: What clusters make of it.
        items_needed: Items that show the difference.
        detectable: Smallest difference that the task's items show.
        decided_if_equal: Items after which half of the evaluations of an equal model have decided `not_worse` by the
            difference; None if the metric has no two bounds.
        decided_if_better: Items after which half of the evaluations of a model that is better by the difference have
            decided `better`.
    """

    task: str
    metric: str
    source: str
    items: int
    detect: float
    samples: int | None
    alpha: float
    power: float
    variance: float
    between: float | None
    correlation: float | None
    design_effect: float
    items_needed: int
    detectable: float
    decided_if_equal: int | None
    decided_if_better: int | None


@dataclass(frozen=True, slots=True)
class _Ground:
    """What is known of a task: from the store, or from what was given."""

    metric: str
    source: str
    items: int
    spread: Spread
    sizes: Sequence[float]  # of the items' differences


def power(
    task: Annotated[str, typer.Option("--task", "-t", help="Task, as the store or `midflight eval` knows it.")],
    detect: Annotated[float, typer.Option("--detect", help="Difference to be seen, in the unit of the metric.")],
    metric: Annotated[str | None, typer.Option("--metric", "-m", help="Default: the task's first.")] = None,
    baseline: Annotated[
        str | None, typer.Option("--baseline", help="RUN or RUN@STEP that the variance is from. Default: newest run.")
    ] = None,
    samples: Annotated[int | None, typer.Option("--samples", min=1, help="Samples an item that are planned.")] = None,
    alpha: Annotated[float, typer.Option("--alpha", help="Error rate, two-sided.")] = 0.05,
    power: Annotated[float, typer.Option("--power", help="Probability of seeing the difference.")] = 0.8,
    accuracy: Annotated[
        float | None, typer.Option("--accuracy", help="Share of right answers, where nothing is stored yet.")
    ] = None,
    correlation: Annotated[
        float | None, typer.Option("--correlation", help="Between both models, where the store has only one.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the simulation.")] = 0,
    store: StoreOption = None,
    json_: JsonOption = False,
) -> int:
    """How many items it takes to see a difference between two models, and which difference a task can show.

    The variance is that of two evaluations in the store, or follows from --accuracy and --correlation.
    """
    from midflight.cli._options import checked_seed, existing_store, print_json

    checked_seed(seed)
    _check_shares(("--alpha", alpha), ("--power", power), ("--accuracy", accuracy))
    if not 0 < detect < math.inf:
        raise ConfigError("--detect", got=detect, allowed="a difference above 0")
    if correlation is not None and not -1 <= correlation < 1:
        raise ConfigError("--correlation", got=correlation, allowed="from -1 to below 1")
    if accuracy is None:
        task = _name(task)
        ground = _from_store(existing_store(store), task, metric, baseline, correlation)
    else:
        ground = _from_shares(task, metric, accuracy, correlation)
    plan = _plan(task, ground, detect, samples, alpha, power, seed)
    if json_:
        print_json(asdict(plan))
    else:
        _print(plan)
    return 0


def _name(task: str) -> str:
    """The name under which the store has a task: that in its file, where it is one."""
    from midflight.tasks import load_task

    try:
        return load_task(task).name
    except UnknownKeyError:
        return task


def _check_shares(*options: tuple[str, float | None]) -> None:
    for name, value in options:
        if value is not None and not 0 < value < 1:
            raise ConfigError(name, got=value, allowed="between 0 and 1")


# -- what is known ---------------------------------------------------------------------------------------------------


def _from_shares(task: str, metric: str | None, accuracy: float, correlation: float | None) -> _Ground:
    """A task of right and wrong answers, nothing of which is stored yet."""
    from midflight.cli._options import load_tasks
    from midflight.estimate.power import spread_of_one

    if correlation is None:
        raise ConfigError(
            "--accuracy without --correlation", hint="e.g. --correlation 0.5; checkpoints of one run often have more"
        )
    (loaded,) = load_tasks([task], None, 0)
    spread = spread_of_one(accuracy * (1 - accuracy), correlation)
    source = f"accuracy {accuracy:g} and correlation {correlation:g}, as given"
    items = len(loaded.items)
    key = metric or loaded.spec.metrics[0]
    return _Ground(key, source, items, spread, _all_or_nothing(spread.total, items, _width(key)))


def _all_or_nothing(variance: float, items: int, width: float | None) -> list[float]:
    """Sizes of differences of that variance, each of which is 0 or as large as can be."""
    largest = width or 1.0
    differing = min(items, round(variance / largest**2 * items))
    return [largest] * differing + [0.0] * (items - differing)


def _from_store(
    store: Store, task: str, metric: str | None, baseline: str | None, correlation: float | None
) -> _Ground:
    """A task of which the store has one evaluation, or two on the same items."""
    from midflight.estimate.power import spread_of_one, spread_of_pairs, variance

    run, pair = _pair(store, task, baseline)
    key = metric or pair[0].judging[0].metric
    scores = [{score.item_id: score for score in _scored(store, report, key)} for report in pair]
    ids = sorted(scores[0].keys() & scores[-1].keys())
    values = [[_value(found[id]) for id in ids] for found in scores]
    size = pair[0].estimate(key).n
    where = f"{run.project}/{run.name} {' and '.join(f'step {report.progress.step}' for report in pair)}"
    if len(pair) == 1:
        if correlation is None:
            raise ConfigError(
                f"{shorten(task)!r} was evaluated once only: {shorten(where)}",
                hint="give --correlation with what it is to be compared with, e.g. 0.5, or another --baseline",
            )
        spread = spread_of_one(variance(values[0]), correlation)
        sizes = _all_or_nothing(spread.total, size, _width(key))
        return _Ground(key, f"{where}, correlation as given", size, spread, sizes)
    items = store.items(pair[0].task_fingerprint)
    names = [items[id].cluster or f"\0{id}" for id in ids] if any(items[id].cluster for id in ids) else None
    spread = spread_of_pairs(values[0], values[1], _samples(ids, scores), names)
    if spread.total == 0:
        raise ConfigError(
            f"the evaluations differ in no item: {shorten(where)}", hint="choose another --baseline, or give --accuracy"
        )
    return _Ground(key, where, size, spread, [abs(a - b) for a, b in zip(*values, strict=True)])


def _pair(store: Store, task: str, baseline: str | None) -> tuple[RunInfo, list[EvalReport]]:
    """Two evaluations of a task in one run that can be compared, or the only one; the newest run that has two."""
    from midflight.analyse.evidence import reports_of

    if baseline is not None:
        run, reports = reports_of(store, baseline)
        found = [report for report in reports if report.task == task]
        if not found:
            tasks = ", ".join(sorted({report.task for report in reports}))
            raise ConfigError(f"{shorten(baseline)!r} has no evaluation of {shorten(task)!r}", hint=f"it has {tasks}")
        first = found[-1]
        others = [r for r in store.reports(run.id, task) if r.id != first.id and _comparable(r, first)]
        return run, [first, *others[-1:]] if others else [first]
    single: tuple[RunInfo, list[EvalReport]] | None = None
    for run in store.runs():
        reports = store.reports(run.id, task)
        for last in reversed(reports):
            others = [r for r in reports if r.progress.step != last.progress.step and _comparable(r, last)]
            if others:
                return run, [others[-1], last]
        if reports and single is None:
            single = run, reports[-1:]
    if single is None:
        raise ConfigError(
            f"no evaluation of {shorten(task)!r} in {store.url}",
            hint="evaluate it first, or give --accuracy and --correlation",
        )
    return single


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


# -- what it takes ---------------------------------------------------------------------------------------------------


def _plan(
    task: str, ground: _Ground, detect: float, samples: int | None, alpha: float, power: float, seed: int
) -> Plan:
    from midflight.estimate.power import detectable, items_needed, items_until_decided, set_with_mean

    variance = ground.spread.of_items(samples)
    width = _width(ground.metric)
    equal = better = None
    if width is not None and detect < width and samples is None and max(ground.sizes) <= width:
        if same := set_with_mean(ground.sizes, 0.0):
            equal = items_until_decided(same, "not_worse", detect, width=width, alpha=alpha, seed=seed)
        if apart := set_with_mean(ground.sizes, detect):
            better = items_until_decided(apart, "better", 0.0, width=width, alpha=alpha, seed=seed)
    return Plan(
        task=task,
        metric=ground.metric,
        source=ground.source,
        items=ground.items,
        detect=detect,
        samples=samples,
        alpha=alpha,
        power=power,
        variance=variance,
        between=ground.spread.between,
        correlation=ground.spread.correlation,
        design_effect=ground.spread.design_effect,
        items_needed=items_needed(variance, detect, alpha=alpha, power=power),
        detectable=detectable(variance, ground.items, alpha=alpha, power=power),
        decided_if_equal=equal,
        decided_if_better=better,
    )


def _width(metric: str) -> float | None:
    """Range of a metric's scores; None if it has no two bounds, or is not one that comes with Midflight."""
    from midflight.metrics import load_metric

    try:
        found = load_metric(metric)
    except UnknownKeyError:
        return None
    return None if found.low is None or found.high is None else found.high - found.low


def _print(plan: Plan) -> None:
    from midflight.show.lines import number
    from midflight.show.tables import console

    at = f"alpha {plan.alpha:g} two-sided, power {plan.power:g}"
    samples = "" if plan.samples is None else f", {plan.samples} samples an item"
    lines = [
        f"{shorten(plan.task)} · {plan.metric} · {plan.items:,} items · {shorten(plan.source)}",
        f"variance of the difference {number(plan.variance)} an item{samples}" + _beside(plan),
        f"to see {plan.detect:g}: {plan.items_needed:,} items ({at})",
        f"these {plan.items:,} items can show {number(plan.detectable, 3)}",
    ]
    for items, text in (
        (plan.decided_if_equal, f"an equal model is not worse by more than {plan.detect:g}"),
        (plan.decided_if_better, f"a model that is better by {plan.detect:g} is better"),
    ):
        if items is not None:
            lines.append(f"ending early, half of the evaluations have decided that {text} after {items:,} items")
    if plan.decided_if_equal is not None or plan.decided_if_better is not None:
        lines.append("(simulated; that is about these items with these answers, the lines above about any like them)")
    for line in lines:
        console().print(line, markup=False, soft_wrap=True)


def _beside(plan: Plan) -> str:
    from midflight.show.lines import number

    parts = []
    if plan.correlation is not None:
        parts.append(f"correlation {plan.correlation:.2f}")
    if plan.between is not None:
        parts.append(f"{number(plan.between)} of it between items, the rest sampling")
    if plan.design_effect > 1:
        parts.append(f"design effect of clusters {plan.design_effect:.2f}")
    return f" ({'; '.join(parts)})" if parts else ""
