"""Calls a Python function, ``package.module:function``, with a StepContext; in a process of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from midflight.gate.workflow.call import call_function
from midflight.gate.workflow.steps.base import Note, Step, StepContext

ENTRY = r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$"


class PythonStep(Step):
    """A function; what it returns is the step's result, what it raises its failure.

    Attributes:
        entry: The function. Its module is looked for in the workflow's folder first.
        arguments: Keyword arguments beside the context.
        rollback: The function that undoes it; may be called twice.
    """

    kind: Literal["python"] = "python"
    entry: str = Field(pattern=ENTRY)
    arguments: dict[str, Any] = {}
    rollback: str = Field(default="", pattern=f"^$|{ENTRY}")

    @property
    def can_undo(self) -> bool:
        """Whether the file says how."""
        return bool(self.rollback)

    def carry_out(self, context: StepContext, note: Note) -> Mapping[str, Any]:
        """Calls it."""
        return call_function(self.entry, context, self.arguments, self.timeout_s)

    def undo(self, context: StepContext, result: Mapping[str, Any]) -> Mapping[str, Any]:
        """Calls what undoes it."""
        return call_function(self.rollback, context, self.arguments, self.timeout_s)
