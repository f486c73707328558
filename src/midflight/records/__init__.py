"""The nouns that travel from stage to stage; imports nothing of ours.

    Item ──► Request ──► Output ──► Sample ──► Score ──► Estimate ──► EvalReport
    task     task        engine     task       metric    estimate     pipeline

Everything here is frozen and plain, so that it can be pickled, sent to another process and written as JSON.
"""

from midflight.records.comparison import Comparison, Conclusion, Difference, OverallIndex
from midflight.records.decided import Decided
from midflight.records.evaluation import (
    MAX_STEP,
    READ_CHARACTERS,
    SCORED,
    STATES,
    Estimate,
    Item,
    Message,
    Output,
    Progress,
    Prompt,
    Request,
    RequestKind,
    Sample,
    Sampling,
    Score,
    Slice,
    State,
)
from midflight.records.finding import SEVERITIES, Finding, Severity
from midflight.records.report import Cost, EvalReport, Settings
from midflight.records.verdict import EXIT_CODES, Decision, Outcome, Subject, Tier, Verdict
from midflight.records.workflow import Actor, AuditEvent, Execution, ExecutionStatus, StepStatus, WorkflowStep

__all__ = [
    "EXIT_CODES",
    "MAX_STEP",
    "READ_CHARACTERS",
    "SCORED",
    "SEVERITIES",
    "STATES",
    "Actor",
    "AuditEvent",
    "Comparison",
    "Conclusion",
    "Cost",
    "Decided",
    "Decision",
    "Difference",
    "Estimate",
    "EvalReport",
    "Execution",
    "ExecutionStatus",
    "Finding",
    "Item",
    "Message",
    "Outcome",
    "Output",
    "OverallIndex",
    "Progress",
    "Prompt",
    "Request",
    "RequestKind",
    "Sample",
    "Sampling",
    "Score",
    "Settings",
    "Severity",
    "Slice",
    "State",
    "StepStatus",
    "Subject",
    "Tier",
    "Verdict",
    "WorkflowStep",
]
