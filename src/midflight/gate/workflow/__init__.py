"""What follows from a verdict: the steps of a workflow, each carried out once, however often the process dies.

`plan` reads the file, `executor` decides what is to be done, `sitting` does it and writes it down, `steps/` holds what
can be done.
"""

from midflight.gate.workflow.executor import WorkflowExecutor
from midflight.gate.workflow.plan import Workflow, load_workflow
from midflight.gate.workflow.steps.base import Step, StepContext

__all__ = ["Step", "StepContext", "Workflow", "WorkflowExecutor", "load_workflow"]
