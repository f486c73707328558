"""What stopping runs would have saved, as a table and as a picture."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

from rich.console import Group
from rich.text import Text

from midflight.analyse.savings import Savings, TotalSavings
from midflight.errors import one_line, shorten
from midflight.records import Severity
from midflight.show.lines import duration, number
from midflight.show.plot import COLOURS, checked_out, new_figure, plain, save
from midflight.show.tables import cell, new_table

_SPENT, _SAVED, _PLANNED = COLOURS[0], COLOURS[4], "#DDDDDD"


def savings_table(rows: Sequence[Savings], total: TotalSavings, on: Severity) -> Group:
    """A row a run, and what they come to together."""
    title = f"stopped in hindsight at the first finding of severity {on}{' or stop' if on == 'warn' else ''}"
    headings = ("run", "ran to", "stopped at", "for", "saved", "of plan", "metric", "best → by then", "cost")
    table = new_table(title, *headings)
    for row in rows:
        table.add_row(*_cells(row))
    notes = [f"{shorten(row.run, 60)}: {one_line(row.note)}" for row in rows if row.note]
    smooth = any(row.metric and not row.held_out for row in rows)
    legend = ["* no held-out metric: mean of ten records of the training series"] if smooth else []
    return Group(table, *[Text(line) for line in [*_total_lines(total), *legend, *notes]])


def _cells(row: Savings) -> list[str]:
    planned = f" of {row.planned_steps}" if row.planned_steps is not None else ""
    best = "–" if row.best is None else number(row.best.value)
    if row.stopped_at is not None:
        best += " → –" if row.best_before is None else f" → {number(row.best_before.value)}"
    return [
        cell(row.run, 40),
        f"{row.last_step}{planned}",
        "–" if row.stopped_at is None else str(row.stopped_at),
        "–" if row.finding is None else cell(row.finding.kind),
        saved_text(row),
        "–" if row.planned_share is None else _share(row.planned_share),
        cell(row.metric, 40) + "*" * bool(row.metric and not row.held_out) or "–",
        best,
        cost_text(row),
    ]


def saved_text(row: Savings) -> str:
    """Share of the compute that would have been saved, and how much that is."""
    if row.stopped_at is None:
        return "0"
    amount = duration(row.saved) if row.unit == "seconds" else f"{number(row.saved)} steps"
    return f"{_share(row.share)} ({amount})"


def cost_text(row: Savings) -> str:
    """How much worse the best by the stop is: relative, or in the metric's unit where the best of all is 0."""
    if row.cost is None:
        return "not known"
    if row.relative_cost is None:
        return number(row.cost)
    return "0" if row.relative_cost == 0 else _percent(row.relative_cost)


def _share(share: float) -> str:
    return ">99%" if 0.995 <= share < 1 else f"{share:.0%}"


def _percent(share: float) -> str:
    return "<0.1%" if share < 0.0005 else f"{share:.1%}" if share < 0.1 else f"{share:,.0%}"


def _total_lines(total: TotalSavings) -> list[str]:
    """What the runs come to together: how much was saved, and at what cost."""
    saved = [f"{total.num_stopped} of {_runs(total.num_runs)} stopped"]
    if total.mean_share is not None:
        saved.append(f"{total.mean_share:.0%} saved a run in the mean")
    if total.seconds_spent:
        share = total.seconds_saved / total.seconds_spent
        known = f" of {_runs(total.num_timed)} with known times" if total.num_timed < total.num_runs else ""
        saved.append(f"{duration(total.seconds_saved)} of {duration(total.seconds_spent)}{known} ({share:.0%})")
    lines = ["; ".join(saved)]
    if total.num_stopped:
        worst = f", by {_percent(total.worst_relative_cost)} at most" if total.worst_relative_cost else ""
        unknown = f"; of {total.num_without_cost} the cost is not known" if total.num_without_cost else ""
        lines.append(f"{total.num_costly} of the stopped ones became better later{worst}{unknown}")
    return lines


def _runs(count: int) -> str:
    return f"{count} run{'s' * (count != 1)}"


def draw_savings(rows: Sequence[Savings], total: TotalSavings, out: str | Path) -> None:
    """Draws a bar a run: what it would have run, what it would have been spared, and what was planned beyond.

    Raises:
        ConfigError: If the format is unknown, or the file cannot be written.
        MissingExtraError: If matplotlib is not installed.
    """
    out = checked_out(out)
    figure = new_figure(8.6, 1.8 + 0.3 * len(rows))
    axes = figure.subplots()
    for at, row in enumerate(rows):
        length = row.last_step / row.planned_steps if row.planned_steps else float(row.spent > 0)
        axes.barh(at, length * (1 - row.share), color=_SPENT)
        axes.barh(at, length * row.share, left=length * (1 - row.share), color=_SAVED)
        axes.barh(at, 1 - length if row.planned_steps else 0.0, left=length, color=_PLANNED)
        why = "no finding" if row.finding is None else f"{row.finding.kind}, cost {cost_text(row)}"
        axes.text(1.01, at, plain(why, 60), va="center", fontsize=8)
    axes.set_yticks(range(len(rows)), [plain(row.run, 32) for row in rows], fontsize=8)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(0, 1)
    axes.set_xlabel("share of the planned steps, or of those that were run where no plan is known", fontsize=8)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    handles = [axes.barh(0, 0, color=colour) for colour in (_SPENT, _SAVED, _PLANNED)]
    labels = ["run", "would have been saved", "planned, not run"]
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    title = textwrap.fill("; ".join(_total_lines(total)), 100)
    figure.suptitle(title, fontsize=9, x=0.01, ha="left")
    save(figure, out)
