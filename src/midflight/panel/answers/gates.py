"""Verdicts of gates with the evidence of each rule, and what followed from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from typing_extensions import TypedDict

from midflight.panel.panel import Panel
from midflight.panel.parameters import Ids, Number, Text
from midflight.panel.plain import bounded
from midflight.panel.releases import Release, releases_of, verdict_of
from midflight.records import AuditEvent, Execution, Verdict

PATH = "/api/gates"
PARAMETERS = (
    Text("project", "Only this project."),
    Text("run", "Only verdicts on runs of this name."),
    Ids("runs", "Only verdicts on these runs."),
    Number("limit", "Of each list at most so many, the newest.", default=100, low=1, high=1000),
)


class Answer(TypedDict):
    """Verdicts, executions and the audit trail, each with how many there are; and what was released."""

    num_verdicts: int
    verdicts: list[Verdict]
    releases: list[Release]
    num_executions: int
    executions: list[Execution]
    num_audit: int
    audit: list[AuditEvent]


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
        "verdicts": verdicts[:limit],
        "releases": releases[:limit],
        "num_executions": len(executions),
        "executions": [_execution(one) for one in executions[:limit]],
        "num_audit": len(audit),
        "audit": [replace(one, detail=_short(one.detail)) for one in audit[::-1][:limit]],
    }


def _execution(record: Execution) -> Execution:
    steps = [replace(one, state={}, result=_short(one.result)) for one in record.steps]
    return replace(record, steps=steps)


def _short(values: Mapping[str, Any]) -> dict[str, str]:
    """What a step of a user's noted, each value cut."""
    return {str(name)[:200]: bounded(value)["text"] for name, value in list(values.items())[:50]}
