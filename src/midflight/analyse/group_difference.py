"""Groups of runs held against each other: where both were measured last, and over several tasks together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from midflight.analyse.groups import GroupCurve, GroupPoint
from midflight.errors import ConfigError
from midflight.estimate.intervals import Interval
from midflight.estimate.iqm import interquartile_mean, probability_of_improvement
from midflight.estimate.welch import MeanDifference, paired_runs_difference, welch_difference


@dataclass(frozen=True, slots=True)
class GroupDifference:
    """Mean of one group − mean of another at the last step that both measured.

    Attributes:
        first: The group that is held against.
        second: The group that is judged.
        task: The task.
        metric: The metric's key.
        slice: ``name=value``, or empty for all items.
        step: The step.
        difference: Second − first, over runs.
    """

    first: str
    second: str
    task: str
    metric: str
    slice: str
    step: int
    difference: MeanDifference


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One number for a group over all of its runs and several tasks.

    Attributes:
        group: The group.
        metric: The metric that the tasks share.
        steps: Step of each task: the last that all runs measured.
        iqm: Interquartile mean.
        better: How likely a run of it beats one of the first group on a task; None for the first group itself.
    """

    group: str
    metric: str
    steps: dict[str, int]
    iqm: Interval
    better: Interval | None


def differences_of(curves: Sequence[GroupCurve], paired: bool = False, level: float = 0.95) -> list[GroupDifference]:
    """Each later group against the first, on each task that both were evaluated on alike.

    Args:
        curves: Curves of the groups.
        paired: Whether runs of the same seed are pairs.
        level: Confidence level.

    Raises:
        ConfigError: If pairs are asked for, and names do not tell them.
    """
    found = []
    for first, second in _against_first(curves):
        common = {p.step for p in first.points} & {p.step for p in second.points}
        if not common:
            continue
        step = max(common)
        a, b = (next(p for p in curve.points if p.step == step) for curve in (first, second))
        if paired:
            difference = paired_runs_difference(*_pairs(first, a, second, b), level)
        else:
            difference = welch_difference(list(a.values.values()), list(b.values.values()), level)
        found.append(
            GroupDifference(first.group, second.group, first.task, first.metric, first.slice, step, difference)
        )
    return found


def _against_first(curves: Sequence[GroupCurve]) -> list[tuple[GroupCurve, GroupCurve]]:
    """Curves of the first group, each with those of other groups that it can be compared with."""
    if not curves:
        return []
    baseline = [curve for curve in curves if curve.group == curves[0].group]
    others = [curve for curve in curves if curve.group != curves[0].group]
    return [(a, b) for a in baseline for b in others if (a.task, a.metric, a.kind) == (b.task, b.metric, b.kind)]


def not_compared(groups: Sequence[str], curves: Sequence[GroupCurve]) -> list[str]:
    """Why groups are not held against the first, in words, where they are not.

    Args:
        groups: Names of all groups, the first one first.
        curves: Their curves.
    """
    if len(groups) < 2:
        return [f"no differences: there is one group, {', '.join(groups)}; name another, or a pattern with a group"]
    found = []
    for group in groups[1:]:
        keys = dict.fromkeys((c.task, c.metric, c.slice) for c in curves if c.group in (groups[0], group))
        for key in keys:
            ours, theirs = (
                [c for c in curves if c.group == one and (c.task, c.metric, c.slice) == key]
                for one in (groups[0], group)
            )
            why = _not_compared(ours, theirs)
            if why:
                found.append(f"no difference {group} − {groups[0]} by {' '.join(filter(None, key))}: {why}")
        if not keys:
            found.append(f"no difference {group} − {groups[0]}: neither was evaluated")
    return found


def _not_compared(ours: Sequence[GroupCurve], theirs: Sequence[GroupCurve]) -> str:
    """Why there is no difference of two groups; empty if there is one."""
    if not ours or not theirs:
        return f"{'the first' if not ours else 'the second'} was not evaluated by it"
    alike = [(a, b) for a in ours for b in theirs if a.kind == b.kind]
    if not alike:
        kinds = [dict(curve.kind) for curve in (ours[0], theirs[0])]
        names = sorted({name for kind in kinds for name in kind if kinds[0].get(name) != kinds[1].get(name)})
        return f"they were not evaluated alike: {', '.join(names)}"
    steps = [[{point.step for point in curve.points} for curve in pair] for pair in alike]
    if not any(a & b for a, b in steps):
        shown = [", ".join(map(str, sorted(one)[:5])) + (", …" if len(one) > 5 else "") for one in steps[0]]
        return f"no step that both measured: {shown[0]} | {shown[1]}"
    return ""


def _pairs(first: GroupCurve, a: GroupPoint, second: GroupCurve, b: GroupPoint) -> tuple[list[float], list[float]]:
    """Values of runs of one seed, sorted by seed."""
    ours, theirs = (
        {curve.seeds[run]: value for run, value in point.values.items()} for curve, point in ((first, a), (second, b))
    )
    seeds = sorted(seed for seed in ours.keys() & theirs.keys() if seed is not None)
    if not seeds or len(ours) < a.n or len(theirs) < b.n:
        raise ConfigError(
            f"runs of {first.group!r} and {second.group!r} cannot be paired",
            got=(sorted(map(str, ours)), sorted(map(str, theirs))),
            allowed="names with the same seed parts, each once in a group",
        )
    return [ours[seed] for seed in seeds], [theirs[seed] for seed in seeds]


def aggregates_of(curves: Sequence[GroupCurve], *, level: float = 0.95, seed: int = 0) -> list[Aggregate]:
    """Groups over all their tasks: at the last step of each task that all runs measured.

    Empty where there are fewer than two tasks with one metric that has a better direction, where a run lacks one of
    them, or where groups have different tasks.

    Args:
        curves: Curves of the groups.
        level: Confidence level.
        seed: Seed of the resampling, from 0.
    """
    tables: dict[str, dict[str, GroupPoint]] = {}
    for curve in curves:
        whole = [point for point in curve.points if not point.missing]
        if not whole or curve.task in tables.get(curve.group, {}):
            return []
        tables.setdefault(curve.group, {})[curve.task] = whole[-1]
    tasks = {frozenset(table) for table in tables.values()}
    metrics = {(curve.metric, curve.higher_is_better) for curve in curves}
    if len(tasks) != 1 or len(next(iter(tasks))) < 2 or len(metrics) != 1 or curves[0].higher_is_better is None:
        return []
    scores = {group: _scores(table) for group, table in tables.items()}
    baseline = scores[curves[0].group]
    found = []
    for group, own in scores.items():
        pair = (baseline, own) if curves[0].higher_is_better else (own, baseline)
        better = None if own is baseline else probability_of_improvement(*pair, level=level, seed=seed)
        steps = {task: point.step for task, point in tables[group].items()}
        found.append(Aggregate(group, curves[0].metric, steps, interquartile_mean(own, level=level, seed=seed), better))
    return found


def _scores(table: dict[str, GroupPoint]) -> list[list[float]]:
    """A row a run, a column a task, tasks sorted by name."""
    runs = next(iter(table.values())).values
    return [[table[task].values[run] for task in sorted(table)] for run in runs]
