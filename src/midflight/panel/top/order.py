"""Which runs are shown, and in which order."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from midflight.panel.rows import is_meant
from midflight.panel.shapes import Counts
from midflight.panel.top.row import Row

ACTIVITY = "activity"


def _activity(row: Row) -> Any:
    return None  # as they come: those that run first, then the newest


def _name(row: Row) -> Any:
    return row.info.name.casefold()


def _step(row: Row) -> Any:
    return None if row.pulse.last_step is None else -row.pulse.last_step


def _findings(row: Row) -> Any:
    counts: Counts | None = row.found.diagnosis["counts"] if row.found is not None else None
    return None if counts is None else (-counts["stop"], -counts["warn"], -counts["note"])


def _evaluation(row: Row) -> Any:
    """The best first, by the first task."""
    if row.found is None or not row.found.tasks:
        return None
    estimate = row.found.tasks[0].estimate
    value = estimate["value"]
    if value is None or not math.isfinite(value):
        return None
    return value if estimate["higher_is_better"] is False else -value


ORDERS: Mapping[str, Callable[[Row], Any]] = {
    ACTIVITY: _activity,
    "name": _name,
    "step": _step,
    "findings": _findings,
    "evaluation": _evaluation,
}
"""What each order sorts by, the smallest first; runs that have none of it at the end."""


def next_order(order: str) -> str:
    """The order after one; after the last comes the first."""
    names = list(ORDERS)
    return names[(names.index(order) + 1) % len(names)]


def chosen(rows: Sequence[Row], order: str, search: str, only_running: bool) -> list[Row]:
    """The rows that match, in an order."""
    key = ORDERS[order]
    found = [row for row in rows if (row.state == "running" or not only_running) and is_meant(row.info, search)]
    known = [row for row in found if key(row) is not None]
    return sorted(known, key=key) + [row for row in found if key(row) is None]
