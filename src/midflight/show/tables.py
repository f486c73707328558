"""Tables for a terminal; in a pipe or a log the same text without colours."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from rich.console import Console, Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from midflight.analyse.variants import newest_of_each, row_labels
from midflight.errors import one_line, shorten
from midflight.records import SCORED, Estimate, EvalReport
from midflight.show.lines import decided_line, duration, number, with_interval
from midflight.show.state import RunView, unfinished_line
from midflight.store import Head

SLICES_SHOWN = 30


def console(stderr: bool = False) -> Console:
    """A console that never breaks lines of a table in a pipe."""
    found = _Console(stderr=stderr, highlight=False)
    return found if found.is_terminal else _Console(stderr=stderr, highlight=False, width=160)


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise


def report_table(report: EvalReport, from_store: bool = False) -> Group:
    """All numbers of an evaluation, with counts and cost; says whether they were there before."""
    title = f"{report.task} · {_where(report)}" + (" (from the store)" if from_store else "")
    table = new_table(title, "metric", "slice", "value [95 %]", "n", "of which", "method")
    shown = 0
    for estimate in report.estimates:
        shown += bool(estimate.slice)
        if estimate.slice and shown > SLICES_SHOWN:
            continue
        table.add_row(
            cell(_unit(estimate)),
            cell(estimate.slice, 40),
            _value(estimate),
            str(estimate.n),
            _states(estimate),
            escape(one_line(estimate.note or estimate.method)),
        )
    lines = [_cost_line(report)]
    if report.decided is not None:
        lines.insert(0, escape(decided_line(report.decided)))
        lines.insert(1, "(this is about these items with these answers, not about others like them)")
    if shown > SLICES_SHOWN:
        lines.insert(0, f"{shown - SLICES_SHOWN} more rows of slices are in the JSON report")
    for reason, count in report.errors.items():
        lines.append(f"[red]{count} × {cell(reason)}[/red]")
    return Group(table, *[Text.from_markup(line) for line in lines])


def _where(report: EvalReport) -> str:
    model = str(report.engine.get("model", ""))
    place = f"{report.run} step {report.progress.step}" if report.run else model
    return place if report.status == "done" else f"{place} · {report.status}"


def _unit(estimate: Estimate) -> str:
    return f"{estimate.metric} ({estimate.unit})" if estimate.unit else estimate.metric


def _value(estimate: Estimate) -> str:
    return escape(with_interval(estimate))


def _states(estimate: Estimate) -> str:
    """How items ended that did not simply end well; those without a score in red."""
    states = [
        f"[red]{count} {state}[/red]" if state not in SCORED else f"{count} {state}"
        for state, count in estimate.counts.items()
        if state != "ok"
    ]
    return ", ".join(states)


def _cost_line(report: EvalReport) -> str:
    cost = report.cost
    speed = f", {number(cost.tokens_per_second)} tokens/s" if cost.tokens_per_second else ""
    memory = f", peak {number(cost.peak_memory_bytes)}B" if cost.peak_memory_bytes else ""
    share = f", {cost.train_share:.1%} of the run's time" if cost.train_share is not None else ""
    lost = f", {cost.lost_share:.0%} of it in waiting for {cost.straggler}" if cost.lost_share else ""
    return f"{cost.num_requests} requests in {duration(cost.seconds)}{speed}{memory}{share}{lost}"


def runs_table(views: Sequence[RunView]) -> Table:
    """Runs, newest first, with the last evaluation of each task."""
    table = new_table("runs", "id", "project", "run", "state", "started", "last step", "last evaluations")
    for view in views:
        info = view.info
        lines = [_last_evaluation(report, label) for report, label in newest_of_each(view.reports)]
        lines += [cell(unfinished_line(evaluation)) for evaluation in view.unfinished]
        lines += [f"[red]{escape(one_line(view.damage))}[/red]"] if view.damage else []
        table.add_row(
            str(info.id),
            cell(info.project),
            cell(info.name),
            with_attempt(view),
            time.strftime("%Y-%m-%d %H:%M", time.localtime(info.created)),
            "–" if view.last_step is None else str(view.last_step),
            "\n".join(lines),
        )
    return table


def _last_evaluation(report: EvalReport, label: str) -> str:
    first = report.judging[0]
    which = f" ({label})" if label else ""
    return f"{cell(report.task + which)}: {cell(first.metric)} {_value(first)}"


def with_attempt(view: RunView) -> str:
    """A run's state, and which attempt at it this is if it is not the first."""
    return view.state + (f", attempt {view.info.attempts}" if view.info.attempts > 1 else "")


def curve_table(reports: Sequence[EvalReport]) -> Table:
    """The evaluations of one task as they follow each other: a row a step, a column a metric.

    A further column tells evaluations apart that differ in more than the step, if there are such.
    """
    metrics = list(dict.fromkeys(_unit(e) for report in reports for e in report.judging))
    labels = row_labels(reports)
    telling = ["of"] if any(labels.values()) else []
    table = new_table(reports[0].task, "step", "epoch", *telling, *map(cell, metrics), "n", "of which", "took")
    for report in reports:
        known = {_unit(e): e for e in report.judging}
        cells = [_value(known[name]) if name in known else "–" for name in metrics]
        first = report.judging[0]
        table.add_row(
            str(report.progress.step),
            f"{report.progress.epoch:.2f}",
            *[cell(labels[report.id]) for _ in telling],
            *cells,
            str(first.n),
            _states(first),
            duration(report.cost.seconds),
        )
    return table


def reasons(reports: Sequence[EvalReport]) -> list[str]:
    """Why metrics of one task have no value, a line a reason with the steps at which it occurred."""
    steps: dict[str, list[int]] = {}
    for report in reports:
        for estimate in report.judging:
            if estimate.value is None and estimate.note:
                text = shorten(f"{estimate.metric} has no value: {estimate.note}")
                steps.setdefault(text, []).append(report.progress.step)
    return [f"{text} (step {shorten(', '.join(map(str, found)), 60)})" for text, found in steps.items()]


def decisions(reports: Sequence[EvalReport]) -> list[str]:
    """What sequential rules said of evaluations of one task, a line each."""
    return [f"step {r.progress.step}: {decided_line(r.decided)}" for r in reports if r.decided is not None]


def slices_table(report: EvalReport, label: str = "") -> Table:
    """One evaluation slice by slice: a row a slice, a column a metric."""
    estimates = [e for e in report.estimates if e.slice or e in report.judging]
    metrics = list(dict.fromkeys(map(_unit, estimates)))
    title = " · ".join(filter(None, (report.task, _where(report), label)))
    table = new_table(title, "slice", *map(cell, metrics), "n", "of which")
    for slice in dict.fromkeys(e.slice for e in estimates):
        own = {_unit(e): e for e in estimates if e.slice == slice}
        first = next(iter(own.values()))
        cells = [_value(own[name]) if name in own else "–" for name in metrics]
        table.add_row(cell(slice, 60) or "all items", *cells, str(first.n), _states(first))
    return table


def heads_table(heads: Sequence[Head], num_points: Mapping[str, int]) -> Table:
    """The newest value of each series, and how many points it has that no later attempt superseded."""
    table = new_table("training", "series", "last value", "at step", "points")
    for head in heads:
        table.add_row(cell(head.key), number(head.value), str(head.step), f"{num_points[head.key]:,}")
    return table


def cell(text: str, limit: int = 200) -> str:
    """A text of anybody's in a table: no markup, no control characters, not too long."""
    return escape(shorten(text, limit))


def new_table(title: str, *columns: str) -> Table:
    """An empty table as all of ours look."""
    table = Table(title=cell(title), title_justify="left", header_style="bold", box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table
