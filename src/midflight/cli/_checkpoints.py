"""Evaluates checkpoints of a folder for `midflight watch`: loads each once, and not at all if it was done before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console

from midflight.cli._options import checked_step
from midflight.engines import open_engine
from midflight.errors import MidflightError, shorten
from midflight.pipeline import evaluate_checkpoint, metrics_of, task_fingerprint
from midflight.records import Progress
from midflight.run import Run
from midflight.show.lines import report_line, without_value
from midflight.tasks import Task
from midflight.triggers import Checkpoint


class CheckpointEvaluator:
    """Evaluates one checkpoint after the other.

    Args:
        tasks: What is measured.
        run: Where results belong.
        seed: Seed of sampling and bootstrap.
        options: For the engine.
        console: Where results are shown, a line each.

    Attributes:
        failed: Names of checkpoints that could not be evaluated, or not wholly.
    """

    def __init__(
        self, tasks: Sequence[Task], run: Run, seed: int, options: Mapping[str, object], console: Console
    ) -> None:
        self.tasks, self.run, self.seed, self.options, self.console = tasks, run, seed, options, console
        self.failed: list[str] = []
        self._fingerprints = {task.name: task_fingerprint(task, metrics_of(task))[1] for task in tasks}

    def evaluate(self, checkpoint: Checkpoint) -> None:
        """Evaluates a checkpoint on the tasks that are not done."""
        open_tasks = [task for task in self.tasks if not self._is_done(task, checkpoint)]
        if not open_tasks:
            self._say(f"{checkpoint.path.name}: done before")
            return
        try:
            checked_step(checkpoint.step, "the step in its name")
            with open_engine(str(checkpoint.path), **self.options) as engine:
                for task in open_tasks:
                    report = evaluate_checkpoint(
                        task, engine, run=self.run, progress=Progress(checkpoint.step), seed=self.seed
                    )
                    self.console.print(report_line(report), markup=False, soft_wrap=True)
                    if report.status != "done" or without_value(report):
                        self.failed.append(checkpoint.path.name)
        except MidflightError as error:
            if checkpoint.path.exists():
                self.failed.append(checkpoint.path.name)
                self._say(f"{checkpoint.path.name}: {error}")
            else:
                self._say(f"{checkpoint.path.name}: was removed before it could be evaluated")
                self.failed.append(checkpoint.path.name)

    def _is_done(self, task: Task, checkpoint: Checkpoint) -> bool:
        """Whether the store has this task's result for these weights: evaluated after they were written."""
        written = max(p.stat().st_mtime for p in [checkpoint.path, *checkpoint.path.rglob("*.safetensors")])
        return any(
            report.status == "done"
            and report.task_fingerprint == self._fingerprints[task.name]
            and report.engine.get("model") == str(checkpoint.path)
            and report.seed == self.seed
            and report.started_at >= written
            for report in self.run.store.reports(self.run.id, task.name)
        )

    def _say(self, text: str) -> None:
        self.console.print(f"midflight: {shorten(text, 1000)}", markup=False, soft_wrap=True)
