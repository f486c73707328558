"""A run in some lines: how its tasks stand, what is wrong with it, what its evaluations take."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from midflight.errors import one_line, shorten
from midflight.panel.shapes import DiagnosisShape, FindingShape
from midflight.panel.top.cells import (
    SEVERITIES,
    VERDICTS,
    difference_text,
    estimate_text,
    improving_sign,
    speed_text,
    state_text,
    step_text,
    worst_first,
)
from midflight.panel.top.curves import Drawn
from midflight.panel.top.row import Row, TaskLine
from midflight.panel.top.strokes import chart, sparkline
from midflight.show.lines import duration, number
from midflight.show.state import unfinished_line

MOST_FINDINGS = 3
MOST_TASKS = 4
NARROW = 130
"""Characters below which a task's curve and its items are left out."""
CHART_WIDTH, CHART_HEIGHT = 44, 6


def headline(row: Row, now: float) -> Text:
    """The run in a line: where it is, how far, how fast."""
    text = Text().append(shorten(f"{row.info.project}/{row.info.name}", 60), "bold")
    text.append("  ").append(state_text(row, now))
    if row.info.attempts > 1:
        text.append(f"  attempt {row.info.attempts}", "dim")
    text.append("  step ", "dim").append(step_text(row))
    pace = row.found.pace if row.found is not None else None
    if pace is not None and pace.planned_steps and pace.step is not None:
        text.append(f"  {min(1.0, pace.step / pace.planned_steps):.0%}".replace("%", " %"))
    if row.state == "running" and pace is not None:
        text.append("  ").append(speed_text(row))
        if pace.seconds_left is not None:
            text.append(f"  {duration(pace.seconds_left)} left")
    return text


def summary(row: Row, now: float, width: int) -> Group:
    """What stands below the table of the run at its cursor."""
    found, parts = row.found, list[RenderableType]([headline(row, now)])
    if found is None:
        return Group(*parts, Text(one_line(row.damage), "red") if row.damage else Text("reading …", "dim"))
    if found.tasks:
        parts.append(tasks_table(found.tasks[:MOST_TASKS], width))
        if len(found.tasks) > MOST_TASKS:
            parts.append(Text(f"{len(found.tasks) - MOST_TASKS} more tasks: Enter", "dim"))
    shown = worst_first(found.diagnosis)
    parts += [finding_line(one) for one in shown[:MOST_FINDINGS]]
    if len(shown) > MOST_FINDINGS:
        parts.append(Text(f"{len(shown) - MOST_FINDINGS} more findings: Enter", "dim"))
    if not shown:
        parts.append(judges_line(found.diagnosis))
    parts.append(evaluations_text(row))
    return Group(*parts)


def tasks_table(tasks: Sequence[TaskLine], width: int) -> Table:
    """A line a task: how good, better than at the start, still improving, which items changed, its curve."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    is_wide = width >= NARROW
    for title in (
        "task",
        "now",
        "at step",
        "since start",
        "still improving?",
        *(["learned / forgotten", "curve"] if is_wide else []),
    ):
        table.add_column(title, overflow="ellipsis", no_wrap=True)
    for task in tasks:
        cells = [
            Text(shorten(" ".join(filter(None, (task.task, task.estimate["metric"], task.label))), 40)),
            Text(estimate_text(task.estimate)),
            Text(f"{task.step:,}"),
            _since(task),
            _improving(task),
        ]
        if is_wide:
            cells += [_items(task), Text(sparkline(task.values, 12), "cyan")]
        table.add_row(*cells)
    return table


def _since(task: TaskLine) -> Text:
    if task.difference is None:
        return Text(shorten(task.note, 48), "dim")
    word, style = VERDICTS[task.difference.finding]
    return Text(f"{difference_text(task.difference)} {word}", style)


def _improving(task: TaskLine) -> Text:
    if task.improving is None:
        return Text("–", "dim")
    sign, style = improving_sign(task)
    return Text(f"{sign} {task.improving}", style)


def _items(task: TaskLine) -> Text:
    if task.learned is None or task.forgotten is None:
        return Text("–", "dim")
    return Text(f"{task.learned:,} / {task.forgotten:,}")


def finding_line(finding: FindingShape) -> Text:
    """A finding in a line."""
    sign, style = SEVERITIES[finding["severity"]]
    text = Text(
        f"{sign} {finding['severity']} {shorten(finding['kind'], 40)}", style, no_wrap=True, overflow="ellipsis"
    )
    return text.append(f" since step {finding['onset']:,}: {shorten(finding['text'], 300)}", "not bold default")


def finding_text(finding: FindingShape) -> Group:
    """A finding whole: what it means, what to do, what would confirm it."""
    head = finding_line(finding)
    head.no_wrap = False
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(style="dim", min_width=9)
    table.add_column(overflow="fold")
    for name, key in (("  means", "meaning"), ("  try", "advice"), ("  confirm", "confirm")):
        if finding[key]:  # type: ignore[literal-required]
            table.add_row(name, Text(shorten(finding[key], 600)))  # type: ignore[literal-required]
    return Group(head, table)


def judges_line(diagnosis: DiagnosisShape) -> Text:
    """Who has looked, where nothing was found."""
    if diagnosis["status"] == "pending":
        return Text("detectors are at it …", "dim")
    if diagnosis["status"] == "off":
        return Text(f"no findings: {shorten(diagnosis['note'])}", "dim")
    few = f", {len(diagnosis['lacking'])} had too little data" if diagnosis["lacking"] else ""
    return Text(f"✓ nothing found: {len(diagnosis['judged'])} detectors had enough data{few}", "dim")


def evaluations_text(row: Row) -> Text:
    """What was evaluated, what waits, what it took of the run's time."""
    pulse, found = row.pulse, row.found
    plural = "" if pulse.num_evaluations == 1 else "s"
    parts = [f"{pulse.num_evaluations:,} evaluation{plural} took {duration(pulse.evaluation_seconds)}"]
    if not pulse.num_evaluations:
        parts = ["nothing was evaluated" + (" yet" if row.state == "running" else "")]
    if found is not None:
        if found.train_share is not None:
            parts[0] += f", {found.train_share:.1%} of the run's time".replace("%", " %")
        parts += [unfinished_line(one) for one in found.unfinished[:2]]
        parts += [f"{len(found.unfinished) - 2} more wait"] if len(found.unfinished) > 2 else []
        parts += [f"{found.num_missing} were due and did not take place"] if found.num_missing else []
    if row.info.lost_points:
        parts.append(f"{row.info.lost_points:,} points were lost")
    return Text(" · ".join(parts), "dim")


def charts_table(curves: Sequence[Drawn], width: int) -> Table:
    """The curves beside each other, as many as the width has room for."""
    across = max(1, width // (CHART_WIDTH + 2))
    each = max(12, width // across - 2)
    table = Table.grid(padding=(0, 2, 0, 0))
    charts = [_chart(curve, each) for curve in curves]
    for at in range(0, len(charts), across):
        table.add_row(*charts[at : at + across])
    return table


def _chart(curve: Drawn, width: int) -> Text:
    """A curve with its name, its newest value, its range and its steps."""
    there = np.isfinite(curve.low) & np.isfinite(curve.high)
    low, high = (curve.low[there].min(), curve.high[there].max()) if there.any() else (None, None)
    ends = [number(end, 3) for end in (high, low)]
    margin = max(map(len, ends))
    last = number(curve.last)
    text = Text(no_wrap=True, overflow="crop")
    name = shorten(curve.title, max(4, width - len(last) - 1))
    is_finite = curve.last is None or math.isfinite(curve.last)
    text.append(f"{name} ", "bold").append(last, "" if is_finite else "bold red")
    lines = chart(curve.steps, curve.mean, curve.low, curve.high, width - margin - 1, CHART_HEIGHT)
    for at, line in enumerate(lines):
        label = ends[0] if at == 0 else ends[1] if at == len(lines) - 1 else ""
        text.append(f"\n{label:>{margin}} ", "dim")
        for piece, is_mean in line:
            text.append(piece, "cyan" if is_mean else "dim cyan")
    first, final = (f"{step:,.0f}" for step in (curve.steps[0], curve.steps[-1])) if len(curve.steps) else ("", "")
    text.append(f"\n{'':{margin}} {first}{final:>{max(1, width - margin - 1 - len(first))}}", "dim")
    if curve.num_non_finite:
        are = "value is" if curve.num_non_finite == 1 else "values are"
        text.append(f"\n{'':{margin}} × {curve.num_non_finite:,} {are} not finite", "red")
    return text.append("\n")
