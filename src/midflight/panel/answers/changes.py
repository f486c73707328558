"""What is new since a token."""

from __future__ import annotations

from midflight.panel.panel import Panel
from midflight.panel.parameters import Text
from midflight.panel.watcher import Change as Answer

PATH = "/api/changes"
PARAMETERS = (Text("since", "The token of what is known; empty = only where the store stands is told."),)


def answer(panel: Panel, *, since: str) -> Answer:
    """What is new."""
    return panel.since(since)
