"""The table of runs, printed once: for pipes, logs, `watch`, and terminals that cannot move a cursor."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from midflight.errors import shorten
from midflight.panel.top.cells import GAP, SEVERITIES, columns_within, worst_first
from midflight.panel.top.feed import Look
from midflight.panel.top.summary import finding_line

MOST_RUNS = 50


def runs_table(look: Look, width: int, store: str) -> Group:
    """The newest runs, those that run first, and what is wrong with those that run.

    Args:
        look: How the store is.
        width: Characters of a line.
        store: What it is called.
    """
    if not look.rows:
        return Group(Text(nothing_yet(store)))
    columns = columns_within(width)
    table = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column.title, width=column.width, no_wrap=True, overflow="ellipsis")
    for row in look.rows[:MOST_RUNS]:
        table.add_row(*(column.cell(row, look.at, column.width) for column in columns))
    parts: list[RenderableType] = [table]
    if len(look.rows) > MOST_RUNS:
        parts.append(Text(f"{MOST_RUNS} of {len(look.rows):,} runs"))
    for row in look.rows[:MOST_RUNS]:
        if row.state == "running" and row.found is not None:
            loud = [one for one in worst_first(row.found.diagnosis) if one["severity"] in list(SEVERITIES)[:2]]
            parts += [Text(f"{shorten(row.info.name, 40)}: ").append(finding_line(one)) for one in loud]
    return Group(*parts)


def nothing_yet(store: str) -> str:
    """What is said of an empty store."""
    return f"nothing was trained or evaluated yet in {shorten(store)}"
