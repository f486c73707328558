"""Imported runs as a table, with what was passed over."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from midflight.analyse.importers import ImportedRun, StoredRun
from midflight.analyse.importers._source import OTHER_LINES
from midflight.errors import shorten

_NAMES_SHOWN = 12


def imports_table(stored: Sequence[StoredRun]) -> Group:
    """One row a run; below, for each, its names, notes and what was not read."""
    table = Table()
    for heading in ("run", "format", "records", "evals", "steps", "series", "named", "not read", "in the store"):
        table.add_column(heading, overflow="fold", justify="left")
    for one in stored:
        run = one.run
        table.add_row(
            escape(shorten(one.info.name, 60)),
            escape(", ".join(run.formats)),
            f"{run.num_records:,}",
            f"{run.num_eval_records:,}",
            "–" if run.first_step is None else f"{run.first_step:,} – {run.last_step:,}",
            str(len(run.series)),
            str(len(run.canonical)),
            f"{sum(unread.count for unread in run.unread if unread.kind != OTHER_LINES):,}",
            f"run {one.info.id}" if one.is_new else f"run {one.info.id}, already there",
        )
    return Group(table, *(Text(line) for one in stored for line in _lines(one.run, one.info.name)))


def _lines(run: ImportedRun, name: str) -> list[str]:
    named = sorted(set(run.canonical.values()))
    more = f", and {len(named) - _NAMES_SHOWN} more" if len(named) > _NAMES_SHOWN else ""
    lines = (
        [f"{shorten(name, 60)}: {', '.join(shorten(one, 40) for one in named[:_NAMES_SHOWN])}{more}"] if named else []
    )
    lines += [f"  {shorten(note)}" for note in run.notes]
    lines += [f"  not read: {unread.count:,} {unread.kind}, first: {unread.example}" for unread in run.unread]
    return lines
