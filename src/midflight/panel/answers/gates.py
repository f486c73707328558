"""Verdicts of gates with the evidence of each rule, and what followed from them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from typing_extensions import TypedDict

from midflight.panel.panel import Panel
from midflight.panel.parameters import Ids, Number, Text
from midflight.panel.plain import bounded
from midflight.panel.releases import Release, releases_of, verdict_of
from midflight.panel.shapes import Json

PATH = "/api/gates"
PARAMETERS = (
    Text("project", "Only this project."),
    Text("run", "Only verdicts on runs of this name."),
    Ids("runs", "Only verdicts on these runs."),
    Number("limit", "Of each list at most so many, the newest.", default=100, low=1, high=1000),
)


class Answer(TypedDict):
    """`midflight.records.Verdict`, `Execution` and `AuditEvent`, as JSON."""

    num_verdicts: int
    verdicts: list[dict[str, Json]]
    releases: list[Release]
    num_executions: int
    executions: list[dict[str, Json]]
    num_audit: int
    audit: list[dict[str, Json]]


def answer(panel: Panel, *, project: str, run: str, runs: Sequence[int], limit: int) -> Answer:
    """Verdicts, executions and the audit trail, the newest first."""
    verdicts = panel.store.verdicts(project or None, run or None)
    if runs:
        named = {(one.project, one.name) for one in panel.chosen(runs)}
        verdicts = [one for one in verdicts if (one.candidate.project, one.candidate.run) in named]
    executions = panel.store.executions(project or None)
    audit = panel.store.audit(project or None)
    releases = releases_of(executions, audit)
    if run or runs:
        kept = {verdict.id for verdict in verdicts}
        executions = [one for one in executions if verdict_of(one) in kept]
        ids = {one.id for one in executions}
        audit = [event for event in audit if event.execution in ids]
        releases = [one for one in releases if one["execution"] in ids]
    return {
        "num_verdicts": len(verdicts),
        "verdicts": [dataclasses.asdict(one) for one in verdicts[:limit]],
        "releases": releases[:limit],
        "num_executions": len(executions),
        "executions": [_execution(one) for one in executions[:limit]],
        "num_audit": len(audit),
        "audit": [{**dataclasses.asdict(one), "detail": _short(one.detail)} for one in audit[::-1][:limit]],
    }


def _execution(record: Any) -> dict[str, Json]:
    steps = [{**dataclasses.asdict(one), "state": None, "result": _short(one.result)} for one in record.steps]
    return {**dataclasses.asdict(record), "steps": steps}


def _short(values: Any) -> dict[str, Json]:
    """What a step of a user's noted, each value cut."""
    return {str(name)[:200]: bounded(value)["text"] for name, value in list(dict(values).items())[:50]}
