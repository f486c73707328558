"""Holds a verdict against the checkpoint that is to be released on its word."""

from __future__ import annotations

from pathlib import Path

from midflight.errors import ConfigError
from midflight.gate.workflow.artifact import model_files
from midflight.records import EvalReport, Verdict
from midflight.store import Store
from midflight.triggers.checkpoints import step_of


def check_evidence(store: Store, verdict: Verdict, checkpoint: Path) -> None:
    """Refuses a verdict that speaks of other weights, as far as step, path and times tell.

    Args:
        store: Where the evaluations behind the verdict may be.
        verdict: What the gate said.
        checkpoint: What is to be released.

    Raises:
        ConfigError: If the verdict is about something else, or the weights were written after they were evaluated.
    """
    subject = verdict.candidate
    step = _step(checkpoint)
    if None not in (step, subject.step) and step != subject.step:
        raise ConfigError(
            f"the verdict is about step {subject.step} of {subject.label}, not about {checkpoint} of step {step}"
        )
    for report in _reports(store, verdict):
        model = Path(str(report.engine.get("model", "")))
        if not model.is_absolute() or not model.exists():
            continue  # evaluated elsewhere, or in the training process
        if model.resolve() != checkpoint.resolve():
            raise ConfigError(f"the verdict is about {model}, not about {checkpoint}")
        if max(file.stat().st_mtime for file in model_files(checkpoint)) > report.started_at:
            raise ConfigError(
                f"checkpoint {checkpoint}: written after it was evaluated on {report.task}",
                hint="evaluate it again, and judge that",
            )


def _step(checkpoint: Path) -> int | None:
    try:
        return step_of(checkpoint)
    except ConfigError:
        return None


def _reports(store: Store, verdict: Verdict) -> list[EvalReport]:
    """The evaluations that the verdict is from, as far as this store has them."""
    wanted = set(verdict.candidate.evaluations.values())
    runs = store.runs(verdict.candidate.project, verdict.candidate.run) if verdict.candidate.run else []
    return [report for run in runs for report in store.reports(run.id) if report.id in wanted]
