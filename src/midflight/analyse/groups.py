"""Several runs of one strategy: which runs belong together, and their mean curve with its interval over runs.

Only what was measured is averaged. Equal values count as often as they occur, a step that one run lacks lowers the
number of runs there, and no step is made up between two others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from midflight.analyse.curves import Curve, Kind, curves_of, run_names
from midflight.analyse.variants import Variant, labels_of
from midflight.errors import ConfigError, shorten
from midflight.estimate.intervals import mean_interval
from midflight.store import RunInfo, Store


@dataclass(frozen=True, slots=True)
class Member:
    """A run in a group.

    Attributes:
        run: The run.
        seed: The part of its name that tells it from the others of its group, by which runs are paired; None for tags.
    """

    run: RunInfo
    seed: str | None


@dataclass(frozen=True, slots=True)
class Group:
    """Runs of one strategy, sorted by name."""

    name: str
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class GroupPoint:
    """A metric at one step, over the runs of a group.

    Attributes:
        step: The step.
        value: Mean over the runs that measured it here.
        stderr: Its standard error, s ÷ √n; None with one run.
        ci_low: Lower end of Student's interval with n − 1 degrees of freedom; None with one run, or if all are alike.
        ci_high: Upper end.
        level: Confidence level.
        values: The value of each run, by its name.
        missing: Runs of the group that have no value here.
        num_partial: Runs in whose evaluation items are missing.
    """

    step: int
    value: float
    stderr: float | None
    ci_low: float | None
    ci_high: float | None
    level: float
    values: Mapping[str, float]
    missing: tuple[str, ...]
    num_partial: int

    @property
    def n(self) -> int:
        """Runs with a value."""
        return len(self.values)


@dataclass(frozen=True, slots=True)
class GroupCurve:
    """The mean of a metric over the runs of a group, at each step that one of them measured.

    Attributes:
        group: Name of the group.
        task: The task.
        metric: The metric's key.
        slice: ``name=value``, or empty for all items.
        label: What tells it from other curves of the group, if the runs were not evaluated alike.
        unit: Unit of the value.
        higher_is_better: Direction; None = neither.
        seeds: Seed part of each run's name, by the name of the run.
        points: The points, by step.
        kind: What is equal in groups that it can be compared with.
    """

    group: str
    task: str
    metric: str
    slice: str
    label: str
    unit: str
    higher_is_better: bool | None
    seeds: Mapping[str, str | None]
    points: tuple[GroupPoint, ...]
    kind: Kind


def groups_of(runs: Sequence[RunInfo], patterns: Sequence[str], by: Literal["name", "tag"] = "name") -> list[Group]:
    r"""The groups that patterns make of runs; of runs of one name the newest counts.

    A pattern with parentheses is a regular expression for the whole name: runs with the same text in its first
    parentheses are a group, as in ``(.+)-seed\d+``. Another one is a glob, and what it matches is one group:
    ``sft-seed*``. The seed of a run is the rest of its name, or what the wildcards stand for.

    Args:
        runs: Runs, newest first, as the store gives them.
        patterns: Patterns of names, or tags.
        by: What the patterns are.

    Raises:
        ConfigError: If a pattern is broken or matches nothing, or a run would be in two groups.
    """
    newest = {(run.project, run.name): run for run in reversed(runs)}
    ordered = sorted(newest.values(), key=lambda run: (run.name, run.project))
    found: dict[str, list[Member]] = {}
    for pattern in dict.fromkeys(patterns):
        matched = [(run, part) for run in ordered if (part := _match(pattern, run, by)) is not None]
        if not matched:
            known = shorten(", ".join(run.name if by == "name" else "/".join(run.tags) for run in ordered[:20]), 500)
            raise ConfigError(f"no run has the {by}", got=pattern, hint=f"there are: {known or 'no runs'}")
        for run, (group, seed) in matched:
            found.setdefault(group, []).append(Member(run, seed))
    _check_disjoint(found)
    return [Group(name, tuple(members)) for name, members in found.items()]


def _match(pattern: str, run: RunInfo, by: str) -> tuple[str, str | None] | None:
    """Group and seed part of a run; None if the pattern does not match."""
    if by == "tag":
        return (pattern, None) if pattern in run.tags else None
    is_glob = "(" not in pattern
    try:
        found = re.fullmatch(_glob(pattern) if is_glob else pattern, run.name)
    except re.error as error:
        raise ConfigError("pattern of runs", got=pattern, hint=f"no regular expression: {error}") from None
    if found is None:
        return None
    if is_glob:
        return pattern, "/".join(found.groups())
    if not found.groups():
        raise ConfigError("pattern of runs", got=pattern, allowed="a regular expression with a group, or a glob")
    start, end = found.span(1)
    return (found[1], f"{run.name[:start]}*{run.name[end:]}") if found[1] else None


def _glob(pattern: str) -> str:
    """A glob as a regular expression that keeps what each wildcard stands for."""
    parts = re.split(r"(\*|\?|\[[^\]]+\])", pattern)  # every second one is a wildcard
    return "".join(_wildcard(part) if i % 2 else re.escape(part) for i, part in enumerate(parts))


def _wildcard(part: str) -> str:
    if part in "*?":
        return {"*": "(.*)", "?": "(.)"}[part]
    negated = part.startswith("[!") and len(part) > 3
    letters = re.escape(part[1 + negated : -1]).replace(r"\-", "-")  # ranges stay ranges
    return f"([{'^' * negated}{letters}])"


def _check_disjoint(groups: Mapping[str, Sequence[Member]]) -> None:
    seen: dict[int, str] = {}
    for name, members in groups.items():
        for member in members:
            if member.run.id in seen:
                raise ConfigError(
                    f"run {member.run.name!r} is in two groups",
                    got=(seen[member.run.id], name),
                    hint="groups are compared as independent; narrow the patterns",
                )
            seen[member.run.id] = name


def group_curves(
    store: Store,
    groups: Sequence[Group],
    task: str | None = None,
    metric: str | None = None,
    slice: str = "",
    level: float = 0.95,
) -> list[GroupCurve]:
    """Mean curves of groups; runs that were not evaluated alike are not averaged.

    Args:
        store: Where the runs are.
        groups: The groups.
        task: Only this task.
        metric: The metric; None = the first that each task names.
        slice: ``name=value``, or empty for all items.
        level: Confidence level.

    Raises:
        UnknownKeyError: If no run has the task or the metric.
        ConfigError: If there is no such slice.
    """
    runs = [member.run for group in groups for member in group.members]
    names = run_names(runs)
    curves = curves_of(store, runs, task, metric, slice)
    found = []
    for group in groups:
        seeds = {names[member.run.id]: member.seed for member in group.members}
        own = [curve for curve in curves if curve.run in seeds and curve.reports]
        for one in dict.fromkeys(curve.task for curve in own):
            found += _of_task(group.name, seeds, [curve for curve in own if curve.task == one], level)
    return found


def _of_task(group: str, seeds: Mapping[str, str | None], curves: Sequence[Curve], level: float) -> list[GroupCurve]:
    """The mean curve of a group on a task: one for each way in which its runs were evaluated."""
    kept = [(curve.run, curve.kind) for curve in curves]
    kinds: dict[Kind, list[Curve]] = {}
    for curve in curves:
        # the seed of evaluation and the place of the model tell curves apart only where one run has several
        doubled = kept.count((curve.run, curve.kind)) > 1
        kinds.setdefault((*curve.kind, ("variant", curve.label)) if doubled else curve.kind, []).append(curve)
    labels = labels_of([Variant(dict(kind), list(members[0].reports)) for kind, members in kinds.items()])
    return [
        GroupCurve(
            group=group,
            task=members[0].task,
            metric=members[0].metric,
            slice=members[0].slice,
            label=label,
            unit=members[0].estimates[0].unit,
            higher_is_better=members[0].estimates[0].higher_is_better,
            seeds=seeds,
            points=_points(members, list(seeds), level),
            kind=kind,
        )
        for (kind, members), label in zip(kinds.items(), labels, strict=True)
    ]


def _points(curves: Sequence[Curve], runs: Sequence[str], level: float) -> tuple[GroupPoint, ...]:
    measured: dict[int, dict[str, float]] = {}
    partial: dict[int, int] = {}
    for curve in curves:
        for step, value, estimate in zip(curve.steps, curve.values, curve.estimates, strict=True):
            measured.setdefault(step, {})[curve.run] = value
            partial[step] = partial.get(step, 0) + estimate.partial
    found = []
    for step, values in sorted(measured.items()):
        mean = mean_interval(list(values.values()), level=level)
        missing = tuple(run for run in runs if run not in values)
        found.append(
            GroupPoint(step, mean.value, mean.stderr, mean.low, mean.high, level, values, missing, partial[step])
        )
    return tuple(found)
