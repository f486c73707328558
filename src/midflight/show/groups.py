"""Groups of runs as tables: a row a step, a column a group; below, how groups differ."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from midflight.analyse.group_difference import Aggregate, GroupDifference
from midflight.analyse.groups import Group, GroupCurve, GroupPoint
from midflight.errors import shorten
from midflight.show.lines import interval, number
from midflight.show.tables import cell, new_table

NAMES_SHOWN = 100
"""Characters of names of runs in a cell."""


def groups_tables(
    groups: Sequence[Group],
    curves: Sequence[GroupCurve],
    differences: Sequence[GroupDifference],
    aggregates: Sequence[Aggregate],
) -> list[RenderableType]:
    """Which runs are in which group, a table for each task and metric, differences, and all tasks together."""
    found: list[RenderableType] = [_members(groups)]
    for key in dict.fromkeys((curve.task, curve.metric, curve.slice) for curve in curves):
        found.append(_curves([curve for curve in curves if (curve.task, curve.metric, curve.slice) == key]))
    if differences:
        found.append(_differences(differences))
    if aggregates:
        found.append(_aggregates(aggregates))
    return found


def _members(groups: Sequence[Group]) -> Table:
    table = new_table("groups", "group", "runs", "")
    for group in groups:
        names = ", ".join(member.run.name for member in group.members)
        table.add_row(cell(group.name, 60), str(len(group.members)), cell(names, NAMES_SHOWN))
    return table


def _curves(curves: Sequence[GroupCurve]) -> Table:
    first = curves[0]
    unit = f" ({first.unit})" if first.unit else ""
    slice = f" [{first.slice}]" if first.slice else ""
    names = [cell(" · ".join(filter(None, (curve.group, curve.label))), 60) for curve in curves]
    title = f"{first.task}: {first.metric}{unit}{slice}, mean over runs [{first.points[0].level:.0%} t]"
    table = new_table(title, "step", *names, "without a value")
    by_step = [{point.step: point for point in curve.points} for curve in curves]
    for step in sorted(set().union(*by_step)):
        points = [own.get(step) for own in by_step]
        missing = [run for point in points if point is not None for run in point.missing]
        table.add_row(str(step), *map(_point, points), cell(", ".join(missing), NAMES_SHOWN))
    return table


def _point(point: GroupPoint | None) -> str:
    if point is None:
        return "–"
    partial = f", {point.num_partial} partial" if point.num_partial else ""
    return escape(f"{interval(point.value, point.ci_low, point.ci_high)} n={point.n}{partial}")


def _differences(differences: Sequence[GroupDifference]) -> Table:
    table = new_table("differences", "task", "metric", "step", "difference", "value", "p", "runs", "method")
    for one in differences:
        found = one.difference
        table.add_row(
            cell(one.task, 60),
            cell(" ".join(filter(None, (one.metric, one.slice))), 60),
            str(one.step),
            cell(f"{one.second} − {one.first}", 80),
            escape(interval(found.value, found.ci_low, found.ci_high)),
            number(found.p_value, 2),
            f"{found.n[1]}, {found.n[0]}",
            cell(found.method),
        )
    return table


def _aggregates(aggregates: Sequence[Aggregate]) -> Table:
    table = new_table(
        f"all tasks: {aggregates[0].metric}",
        *("group", "tasks", "interquartile mean", f"better than {shorten(aggregates[0].group, 40)}"),
        *("runs", "method"),
    )
    for one in aggregates:
        better = "–" if one.better is None else escape(interval(one.better.value, one.better.low, one.better.high))
        value = escape(interval(one.iqm.value, one.iqm.low, one.iqm.high))
        table.add_row(
            cell(one.group, 60), str(len(one.steps)), value, better, str(one.iqm.clusters), cell(one.iqm.method)
        )
    return table
