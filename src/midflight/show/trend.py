"""Trends as a table: a row a curve, and below it what a reader has to know."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.text import Text

from midflight.analyse.best import Best
from midflight.analyse.slope import PER, Slope
from midflight.analyse.trend import Trend
from midflight.errors import one_line
from midflight.show.lines import interval, number, with_interval
from midflight.show.tables import cell, new_table

_STYLES = {"yes": "green", "no": "red", "cannot tell": "yellow"}


def trends_table(trends: Sequence[Trend]) -> Group:
    """A row for each trend: newest value, whether it still improves, noise, signal, the best checkpoint."""
    table = new_table(
        f"trends [{trends[0].newest.level:.0%}]",
        *("run", "task", "metric", "step", "value", "last", f"still improving? (in {PER:,} steps)"),
        *("noise", "signal÷noise", "best step", "its value", "measured"),
    )
    for trend in trends:
        table.add_row(
            cell(trend.run, 60),
            cell(" · ".join(filter(None, (trend.task, trend.label))), 80),
            cell(" ".join(filter(None, (trend.metric, trend.slice))), 60),
            str(trend.step),
            escape(with_interval(trend.newest)),
            *_slope(trend.slope),
            number(trend.noise.value if trend.noise else None, 2),
            f"{number(trend.snr.value, 2)} ({trend.snr.over})" if trend.snr else "–",
            *_best(trend.best),
        )
    lines: list[RenderableType] = [Text(line, style="dim") for line in _notes(trends)]
    return Group(table, *lines)


def _slope(slope: Slope | None) -> tuple[str, str]:
    if slope is None:
        return "–", "–"
    shown = escape(interval(slope.value, slope.ci_low, slope.ci_high))
    if slope.improving is not None:
        style = _STYLES[slope.improving]
        shown = f"[{style}]{slope.improving}[/{style}]: {shown}"
    return str(slope.n), shown


def _best(best: Best | None) -> tuple[str, str, str]:
    if best is None:
        return "–", "–", "–"
    share = "" if best.share is None else f" ({best.share:.0%})"
    value = escape(interval(best.value, best.ci_low, best.ci_high))
    return f"{best.step}{share}", value, number(best.measured)


def _notes(trends: Sequence[Trend]) -> list[str]:
    """Each note once; with its curve, where there are several."""
    notes = []
    for trend in trends:
        where = f"{trend.run} {trend.task}: " if len(trends) > 1 else ""
        own = list(trend.notes)
        if trend.slope is None:
            own.append(f"{trend.n} checkpoints: slope and noise need 3")
        elif trend.slope.ci_low is None:
            own.append("the last checkpoints are all alike: their slope has no interval")
        if trend.best is not None and trend.best.value is None:
            own.append(f"the best value is too good by an unknown amount, {trend.best.method}")
        notes += [one_line(where + note) for note in own]
    return notes
