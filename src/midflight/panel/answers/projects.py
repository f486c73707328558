"""Projects of the store, and what the server is."""

from __future__ import annotations

from typing_extensions import TypedDict

import midflight
from midflight.panel.panel import Panel
from midflight.panel.state import state_of

PATH = "/api/projects"
PARAMETERS = ()


class Project(TypedDict):
    """A project."""

    name: str
    num_runs: int
    num_running: int
    last_activity: float


class Answer(TypedDict):
    """What there is."""

    version: str
    store: str
    allow_write: bool
    login: bool
    now: float
    since: str
    projects: list[Project]


def answer(panel: Panel) -> Answer:
    """Projects, the one that was active last first."""
    since = panel.token
    pulses = {pulse.run: pulse for pulse in panel.store.pulses()}
    found: dict[str, Project] = {}
    for run in panel.store.runs():
        if run.id not in pulses:  # it was added in between
            continue
        project = found.setdefault(
            run.project, {"name": run.project, "num_runs": 0, "num_running": 0, "last_activity": 0.0}
        )
        project["num_runs"] += 1
        project["num_running"] += state_of(panel.store, pulses[run.id]) == "running"
        project["last_activity"] = max(project["last_activity"], pulses[run.id].heartbeat)
    return {
        "version": midflight.__version__,
        "store": panel.store.location.removeprefix("sqlite:///"),
        "allow_write": panel.allow_write,
        "login": panel.login,
        "now": panel.clock(),
        "since": since,
        "projects": sorted(found.values(), key=lambda project: -project["last_activity"]),
    }
