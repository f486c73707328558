"""Runs a program, never through a shell; it reads the verdict as JSON on standard input and in $MIDFLIGHT_VERDICT."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from midflight.credentials import resolve
from midflight.errors import StepError
from midflight.gate.workflow.processes import run_program
from midflight.gate.workflow.steps.base import Note, Step, StepContext
from midflight.schema import verdict_to_json


class CommandStep(Step):
    """A program and its arguments.

    Attributes:
        run: The program and its arguments, as a list: ``run = ["./deploy.sh", "eu"]``.
        env: More environment variables; ``${env:NAME}`` in them is replaced.
        rollback: What undoes it; may be run twice.
    """

    kind: Literal["command"] = "command"
    run: list[str] = Field(min_length=1)
    env: dict[str, str] = {}
    rollback: list[str] = []

    @property
    def can_undo(self) -> bool:
        """Whether the file says how."""
        return bool(self.rollback)

    def carry_out(self, context: StepContext, note: Note) -> Mapping[str, Any]:
        """Runs it; an exit code other than 0 is a failure."""
        return self._run(self.run, context)

    def undo(self, context: StepContext, result: Mapping[str, Any]) -> Mapping[str, Any]:
        """Runs what undoes it."""
        return self._run(self.rollback, context)

    def _run(self, words: list[str], context: StepContext) -> Mapping[str, Any]:
        with verdict_file(context) as file:
            finished = run_program(
                words,
                timeout_s=self.timeout_s,
                environment={
                    **context.variables(),
                    "MIDFLIGHT_VERDICT": str(file),
                    **{name: resolve(value) for name, value in self.env.items()},
                },
                folder=context.folder,
                input=file,
            )
        if finished.code:
            raise finished.failure(words[0])
        return {"exit_code": 0, "output": finished.output}


@contextmanager
def verdict_file(context: StepContext) -> Iterator[Path]:
    """A file that holds the verdict as JSON; `null` if there is none."""
    try:
        with tempfile.TemporaryDirectory(prefix="midflight-", ignore_cleanup_errors=True) as folder:
            path = Path(folder) / "verdict.json"
            path.write_text(verdict_to_json(context.verdict) if context.verdict else "null", encoding="utf-8")
            yield path
    except OSError as error:
        raise StepError(f"the verdict's file cannot be written: {error}") from None
