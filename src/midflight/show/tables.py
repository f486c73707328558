"""Tables for a terminal; in a pipe or a log the same text without colours."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.console import Console, Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from midflight.environ import ALIVE_S
from midflight.errors import shorten
from midflight.records import SCORED, Estimate, EvalReport
from midflight.show.lines import duration, leading, number, with_interval
from midflight.show.variants import labels_of, newest_by_step, row_labels, variants_of
from midflight.store import Head, RunInfo

SLICES_SHOWN = 30


def console(stderr: bool = False) -> Console:
    """A console that never breaks lines of a table in a pipe."""
    found = Console(stderr=stderr, highlight=False)
    return found if found.is_terminal else Console(stderr=stderr, highlight=False, width=160)


def report_table(report: EvalReport) -> Group:
    """All numbers of an evaluation, with counts and cost."""
    table = _table(f"{report.task} · {_where(report)}", "metric", "slice", "value [95 %]", "n", "of which", "method")
    shown = 0
    for estimate in report.estimates:
        shown += bool(estimate.slice)
        if estimate.slice and shown > SLICES_SHOWN:
            continue
        table.add_row(
            escape(_unit(estimate)),
            escape(shorten(estimate.slice, 40)),
            _value(estimate),
            str(estimate.n),
            _states(estimate),
            escape(estimate.note or estimate.method),
        )
    lines = [_cost_line(report)]
    if shown > SLICES_SHOWN:
        lines.insert(0, f"{shown - SLICES_SHOWN} more rows of slices are in the JSON report")
    for reason, count in report.errors.items():
        lines.append(f"[red]{count} × {escape(shorten(reason))}[/red]")
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
    return f"{cost.num_requests} requests in {duration(cost.seconds)}{speed}{memory}{share}"


def runs_table(runs: Sequence[tuple[RunInfo, Sequence[Head], Sequence[EvalReport]]]) -> Table:
    """Runs, newest first, with the last evaluation of each task."""
    table = _table("runs", "id", "project", "run", "state", "started", "last step", "last evaluations")
    for info, heads, reports in runs:
        numbers = "\n".join(_last_evaluation(report, label) for report, label in _newest(reports))
        steps = [head.step for head in heads] + [report.progress.step for report in reports]
        started = time.strftime("%Y-%m-%d %H:%M", time.localtime(info.created))
        table.add_row(
            str(info.id),
            escape(info.project),
            escape(info.name),
            state_of(info),
            started,
            str(max(steps)) if steps else "–",
            numbers,
        )
    return table


def _newest(reports: Sequence[EvalReport]) -> list[tuple[EvalReport, str]]:
    """The last evaluation of each task, of each of its variants, with what tells these apart."""
    found = []
    for task in dict.fromkeys(report.task for report in reports):
        variants = variants_of([report for report in reports if report.task == task])
        found += [
            (newest_by_step(variant.reports)[-1], label)
            for variant, label in zip(variants, labels_of(variants), strict=True)
        ]
    return found


def _last_evaluation(report: EvalReport, label: str) -> str:
    first = leading(report)[0]
    which = f" ({label})" if label else ""
    return f"{escape(report.task + which)}: {escape(first.metric)} {_value(first)}"


def state_of(info: RunInfo) -> str:
    """A run's state; one that has not written for long is not called running."""
    silent = time.time() - info.heartbeat
    if info.status == "running" and silent > ALIVE_S:
        return f"silent for {duration(silent)}"
    return info.status + (f", attempt {info.attempts}" if info.attempts > 1 else "")


def curve_table(reports: Sequence[EvalReport]) -> Table:
    """The evaluations of one task as they follow each other: a row a step, a column a metric.

    A further column tells evaluations apart that differ in more than the step, if there are such.
    """
    metrics = list(dict.fromkeys(_unit(e) for report in reports for e in leading(report)))
    labels = row_labels(reports)
    telling = ["of"] if any(labels.values()) else []
    table = _table(reports[0].task, "step", "epoch", *telling, *map(escape, metrics), "n", "of which", "took")
    for report in reports:
        known = {_unit(e): e for e in leading(report)}
        cells = [_value(known[name]) if name in known else "–" for name in metrics]
        first = leading(report)[0]
        table.add_row(
            str(report.progress.step),
            f"{report.progress.epoch:.2f}",
            *[escape(labels[report.id]) for _ in telling],
            *cells,
            str(first.n),
            _states(first),
            duration(report.cost.seconds),
        )
    return table


def heads_table(heads: Sequence[Head]) -> Table:
    """The newest value of each series."""
    table = _table("training", "series", "last value", "at step", "points")
    for head in heads:
        table.add_row(escape(head.key), number(head.value), str(head.step), f"{head.num_points:,}")
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(title=escape(title), title_justify="left", header_style="bold", box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table
