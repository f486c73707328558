"""What followed from verdicts: which checkpoints were released, as what, when and by whom."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from typing_extensions import TypedDict

from midflight.panel.panel import Panel
from midflight.records import AuditEvent, Execution, WorkflowStep
from midflight.store import RunInfo

RELEASING = ("promote", "mlflow", "push_hub")
"""Kinds of steps that hand a checkpoint on."""


class Release(TypedDict):
    """A checkpoint that was released and not taken back; `current` = nothing was released as that since."""

    target: str
    checkpoint: str
    weights: str
    workflow: str
    execution: str
    verdict: str
    at: float
    who: str
    current: bool


def verdict_of(execution: Execution) -> str:
    """Id of the verdict that a workflow follows: the one it was begun with, or that a step of it made; or empty."""
    if execution.verdict:
        return execution.verdict
    made = next((step.result["verdict"] for step in execution.steps if "verdict" in step.result), None)
    return str(json.loads(made)["id"]) if made is not None else ""


def releases_of(executions: Sequence[Execution], audit: Sequence[AuditEvent]) -> list[Release]:
    """What was released, the newest first.

    Args:
        executions: Workflows that were carried out.
        audit: Their trail, oldest first: it says when and by whom.
    """
    done = {(one.execution, one.step): one for one in audit if one.event == "done"}
    found: list[Release] = []
    for execution in executions:
        for step in execution.steps:
            event, target = done.get((execution.id, step.name)), _target(step)
            if target:
                found.append(
                    {
                        "target": target,
                        "checkpoint": execution.checkpoint,
                        "weights": execution.weights,
                        "workflow": execution.workflow,
                        "execution": execution.id,
                        "verdict": verdict_of(execution),
                        "at": event.at if event is not None else execution.created,
                        "who": event.who if event is not None else "",
                        "current": False,
                    }
                )
    found.sort(key=lambda release: release["at"])
    newest = {release["target"]: release for release in found}
    for release in newest.values():
        release["current"] = True
    return found[::-1]


def judged_checkpoints(panel: Panel, run: RunInfo, evaluations: Collection[str]) -> Iterator[tuple[int, Execution]]:
    """Workflows that were carried out for checkpoints of a run, with their steps, the newest first.

    Args:
        panel: Where they are.
        run: The run.
        evaluations: Ids of its evaluations: another run of its name is not meant.
    """
    subjects = {verdict.id: verdict.candidate for verdict in panel.store.verdicts(run.project, run.name)}
    for execution in panel.store.executions() if subjects else ():
        subject = subjects.get(verdict_of(execution))
        if subject is None or subject.step is None or not execution.checkpoint:
            continue
        if set(subject.evaluations.values()) & set(evaluations):
            yield subject.step, execution


def _target(step: WorkflowStep) -> str:
    """What a step released the checkpoint as; empty if it did not, or took it back."""
    if step.kind not in RELEASING or step.status != "done" or "kept" in step.result:
        return ""
    named: Any = next((step.result[key] for key in ("target", "model", "repo") if key in step.result), step.name)
    return str(named)
