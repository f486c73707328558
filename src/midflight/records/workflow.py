"""What follows from a verdict: the execution of a workflow, its steps, and the trail that they leave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

StepStatus: TypeAlias = Literal["pending", "running", "done", "failed", "rolled_back", "skipped"]
"""A step that is `running` while no process carries it out was cut off: whether it took effect is to be found out."""

ExecutionStatus: TypeAlias = Literal["running", "rolling_back", "done", "failed"]


@dataclass(frozen=True, slots=True)
class WorkflowStep:
    """A step of an execution.

    Attributes:
        position: 0-based place in the workflow.
        name: Its name there.
        kind: What it does.
        status: How far it is.
        attempts: How often it was begun.
        reason: Why it failed or was skipped; empty otherwise.
        state: What it wrote down before it took effect, by which it is finished or undone after a crash.
        result: What it gave.
    """

    position: int
    name: str
    kind: str
    status: StepStatus = "pending"
    attempts: int = 0
    reason: str = ""
    state: Mapping[str, Any] = field(default_factory=dict)
    result: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Execution:
    """One workflow for one checkpoint and one verdict: carried out once, however often it is begun.

    Attributes:
        id: SHA-256 over what the workflow's file says, the verdict's id and the checkpoint's hash, as 16 hex digits.
        workflow: The workflow's name.
        workflow_digest: SHA-256 of its file.
        project: The project that it is about.
        checkpoint: Path of the checkpoint; empty if there is none.
        weights: SHA-256 over the checkpoint's files.
        verdict: Id of the verdict that it was begun with; empty if a step of it makes the verdict.
        status: How far it is.
        reason: Why it failed; empty otherwise.
        created: Seconds since the epoch (UTC).
        steps: Its steps, in order.
    """

    id: str
    workflow: str
    workflow_digest: str
    project: str
    checkpoint: str
    weights: str
    verdict: str
    status: ExecutionStatus
    reason: str
    created: float
    steps: Sequence[WorkflowStep] = ()

    def step(self, name: str) -> WorkflowStep:
        """The step of that name.

        Raises:
            KeyError: If there is none.
        """
        found = next((step for step in self.steps if step.name == name), None)
        if found is None:
            raise KeyError(
                f"{self.workflow} has no step {name!r}; it has {', '.join(step.name for step in self.steps)}"
            )
        return found


@dataclass(frozen=True, slots=True)
class Actor:
    """Who does something.

    Attributes:
        who: ``user@host``, and the process.
        git: Commit, branch and cleanliness of the checkout around the workflow's file; empty outside one.
    """

    who: str
    git: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """A line of the audit trail, which only grows.

    Attributes:
        at: Seconds since the epoch (UTC).
        who: ``user@host``, and the process.
        git: Commit, branch and cleanliness of the checkout around the workflow's file; empty outside one.
        execution: The execution's id.
        workflow: The workflow's name.
        project: The project.
        checkpoint: The checkpoint's path.
        weights: The checkpoint's hash.
        step: The step's name; empty if it is about the whole execution.
        event: What happened: `begun`, `started`, `noted`, `done`, `failed`, `skipped`, `rolled_back`, ….
        detail: What belongs to it: evidence, results, reasons.
    """

    at: float
    who: str
    git: Mapping[str, str]
    execution: str
    workflow: str
    project: str
    checkpoint: str
    weights: str
    step: str
    event: str
    detail: Mapping[str, Any] = field(default_factory=dict)
