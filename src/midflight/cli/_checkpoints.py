"""Evaluates checkpoints of a folder for `midflight watch`: loads each once, and not at all if it was done before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rich.console import Console

from midflight import environ
from midflight.cli._options import checked_step
from midflight.engines.base import BaseEngine
from midflight.errors import LeaseLostError, MidflightError, shorten
from midflight.pipeline import evaluate_checkpoint, metrics_of, task_fingerprint
from midflight.records import Progress
from midflight.run import Run
from midflight.sequential import SequentialRule, looks_of
from midflight.show.lines import report_line, without_value
from midflight.store.leases import Lease, Leases
from midflight.tasks import Task
from midflight.triggers import Checkpoint
from midflight.triggers.keeping import kept


class CheckpointEvaluator:
    """Evaluates one checkpoint after the other, each in one process only, however many watch.

    Args:
        tasks: What is measured.
        run: Where results belong.
        seed: Seed of sampling and bootstrap.
        load: Makes an engine of a checkpoint: from where its files are, and what it is called.
        console: Where results are shown, a line each.
        dead_s: Seconds after which a watcher that gives no sign of life is dead.
        rules: Task to the rule that may end its evaluations early.
        after: Called with each checkpoint that is evaluated, now or before; False if it failed.

    Attributes:
        failed: Names of checkpoints that could not be evaluated, or not wholly, or with which `after` failed.

    Raises:
        ConfigError: If a rule does not fit its task, or its baseline is not there.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        run: Run,
        seed: int,
        load: Callable[[Path, str], BaseEngine],
        console: Console,
        dead_s: float = 60.0,
        rules: Mapping[str, SequentialRule] = {},
        after: Callable[[Path], bool] | None = None,
    ) -> None:
        self.tasks, self.run, self.seed, self.load, self.console = tasks, run, seed, load, console
        self.rules = rules
        self.failed: list[str] = []
        self._after = after
        self._leases = Leases(run.store, environ.owner(), dead_s)
        self._fingerprints = {}
        for task in tasks:
            metrics = metrics_of(task)
            parts, self._fingerprints[task.name] = task_fingerprint(task, metrics)
            looks_of(rules.get(task.name), task, metrics, parts, run)  # a rule that cannot work is refused now

    def evaluate(self, checkpoint: Checkpoint) -> bool:
        """Evaluates a checkpoint on the tasks that are not done; False if another process is at it."""
        with self._leases.held(f"{checkpoint.path.absolute()} {checkpoint.digest} for run {self.run.id}") as lease:
            if lease is None:
                return False
            try:
                checked_step(checkpoint.step, "the step in its name")
                self._evaluate(checkpoint, lease)
                if self._after is not None and not self._after(checkpoint.path):
                    self.failed.append(checkpoint.path.name)
            except LeaseLostError as error:
                self._say(f"{checkpoint.path.name}: {error}")
                return False
            except MidflightError as error:
                gone = not checkpoint.path.exists()
                self.failed.append(checkpoint.path.name)
                self._say(f"{checkpoint.path.name}: {'was removed before it could be evaluated' if gone else error}")
        return True

    def _evaluate(self, checkpoint: Checkpoint, lease: Lease) -> None:
        open_tasks = [task for task in self.tasks if not self._is_done(task, checkpoint)]
        if not open_tasks:
            self._say(f"{checkpoint.path.name}: done before")
            return
        with kept(checkpoint.path) as path, self.load(path, str(checkpoint.path)) as engine:
            for task in open_tasks:
                report = evaluate_checkpoint(
                    task,
                    engine,
                    run=self.run,
                    progress=Progress(checkpoint.step),
                    seed=self.seed,
                    watch=lambda *_: lease.check(),
                    stop=self.rules.get(task.name),
                )
                self.console.print(report_line(report), markup=False, soft_wrap=True)
                if report.status != "done" or without_value(report):
                    self.failed.append(checkpoint.path.name)

    def _is_done(self, task: Task, checkpoint: Checkpoint) -> bool:
        """Whether the store has this task's result for these weights: evaluated after they were written."""
        written = max(p.stat().st_mtime for p in [checkpoint.path, *checkpoint.path.rglob("*.safetensors")])
        return any(
            report.status == "done"
            and (task.name in self.rules or report.decided is None or not report.decided.early)
            and report.task_fingerprint == self._fingerprints[task.name]
            and report.engine.get("model") == str(checkpoint.path)
            and report.seed == self.seed
            and report.started_at >= written
            for report in self.run.store.reports(self.run.id, task.name)
        )

    def _say(self, text: str) -> None:
        self.console.print(f"midflight: {shorten(text, 1000)}", markup=False, soft_wrap=True)
