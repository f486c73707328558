"""The audit trail as tables, one an execution."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from midflight.errors import one_line
from midflight.records import AuditEvent

_LOUD = frozenset({"failed", "stopped", "rollback_failed"})


def audit_tables(events: Sequence[AuditEvent]) -> list[Table]:
    """A table for each execution, in the order in which they began, its events oldest first; evidence is never cut."""
    return [
        _table([event for event in events if event.execution == execution])
        for execution in dict.fromkeys(event.execution for event in events)
    ]


def _table(events: Sequence[AuditEvent]) -> Table:
    first = events[0]
    weights = f" · {first.checkpoint} ({first.weights})" if first.weights else ""
    title = f"{first.workflow} · execution {first.execution} · {first.project}{weights}"
    table = Table(title=escape(one_line(title)), title_justify="left")
    for column in ("when (UTC)", "who", "step", "event", "detail"):
        table.add_column(column, overflow="fold")
    for event in events:
        style = "bold red" if event.event in _LOUD else ""
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(event.at))
        who = event.who + (f" {event.git['commit'][:8]}" if "commit" in event.git else "")
        cells = (when, who, event.step, event.event, _detail(event.detail))
        table.add_row(*(escape(one_line(cell)) for cell in cells), style=style)
    return table


def _detail(detail: Mapping[str, Any]) -> str:
    shown = [f"{key}: {_text(value)}" for key, value in detail.items() if value not in ("", None, [], {})]
    return " · ".join(shown)


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {inner}" for key, inner in value.items())
    return ("; ".join(map(str, value)) if isinstance(value, list) else str(value)).strip()
