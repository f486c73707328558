"""Judges the checkpoint, as `midflight gate` does: later steps go by its verdict."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from midflight.errors import ConfigError, StepError
from midflight.gate.workflow.processes import Finished
from midflight.gate.workflow.steps.base import Note, Step, StepContext, When
from midflight.gate.workflow.steps.evaluate import failure, run_midflight
from midflight.records import EXIT_CODES, Outcome
from midflight.schema import verdict_from_json, verdict_to_json
from midflight.triggers.checkpoints import step_of


class GateStep(Step):
    """`midflight gate`. A verdict that is not `pass` is no failure of the step: the steps behind it have their `when`.

    Attributes:
        policy: The policy's file.
        candidate: What is judged, as `midflight gate` takes it; None = the step of the checkpoint, of its run.
        arguments: More arguments of `midflight gate`, e.g. ``["--baseline", "mt3@last"]``.
    """

    kind: Literal["gate"] = "gate"
    policy: str
    candidate: str | None = None
    arguments: list[str] = []
    when: When | list[Outcome] = "always"
    timeout_s: float = Field(default=3_600.0, gt=0, le=30 * 86_400)
    idempotent: bool = True

    @property
    def makes_verdict(self) -> bool:
        """It does."""
        return True

    def carry_out(self, context: StepContext, note: Note) -> Mapping[str, Any]:
        """Judges; the verdict's JSON is in the result."""
        with tempfile.TemporaryDirectory(prefix="midflight-", ignore_cleanup_errors=True) as folder:
            words = [str(context.path(self.policy)), "--candidate", self._candidate(context), "--out-dir", folder]
            words += ["--store", context.store, *self.arguments]
            finished = run_midflight("gate", words, context, self.timeout_s)
            return read_verdict(Path(folder) / "verdict.json", finished)

    def _candidate(self, context: StepContext) -> str:
        if self.candidate is not None:
            return self.candidate
        checkpoint = context.needed_checkpoint()
        return f"{context.run or checkpoint.absolute().parent.name}@{step_of(checkpoint)}"


def read_verdict(out: Path, finished: Finished) -> dict[str, Any]:
    """What the gate said: by its exit code and its file, which have to agree.

    Raises:
        StepError: If it said nothing, or two things.
    """
    if finished.code not in EXIT_CODES.values():
        raise failure("midflight gate", finished)
    try:
        verdict = verdict_from_json(out.read_bytes())
    except (OSError, ConfigError) as error:
        raise StepError(f"midflight gate: exit code {finished.code}, and no verdict: {error}") from None
    if verdict.exit_code != finished.code:
        raise StepError(f"midflight gate: exit code {finished.code}, but the verdict is {verdict.outcome}")
    return {"outcome": verdict.outcome, "verdict": verdict_to_json(verdict), "output": finished.output}
