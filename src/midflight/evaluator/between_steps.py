"""Evaluates between two steps: the loop waits, finds everything as it was, and what fails is tried again soon."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from midflight.dispatch import Inline
from midflight.evaluator.across_ranks import AcrossRanks
from midflight.evaluator.setting import Setting
from midflight.pipeline import evaluate_checkpoint
from midflight.records import EvalReport, Progress
from midflight.tasks import Task
from midflight.triggers import Backoff
from midflight.triggers.frequency import Agree

FUNCTION = "evaluate_fn"
"""Name under which the function of AReaL's form is kept."""


class BetweenSteps:
    """Evaluations that the training loop waits for.

    Args:
        setting: The training.
        is_main: Whether this rank evaluates.
        agree: Gives every rank what rank 0 says; None = one rank.
        paused: Stops the clock of training.
        across: The engine of all ranks, if they share the work; None = rank 0 evaluates alone.
    """

    def __init__(
        self,
        setting: Setting,
        is_main: bool,
        agree: Agree | None,
        paused: Callable[[], AbstractContextManager[None]],
        across: AcrossRanks | None = None,
    ) -> None:
        self.setting, self.is_main, self._agree, self._paused = setting, is_main, agree, paused
        self._across = across
        self._backoff = Backoff()
        self._measured: dict[str, int] = {}  # task, or FUNCTION: step at which it was last measured

    def start(self, tasks: Sequence[Task], progress: Progress, measure: bool) -> list[EvalReport]:
        """Measures the weights before the first update; if that fails, nothing is lost yet: it raises."""
        return self._measure(tasks, progress, raises=True) if measure else []

    def measure(self, tasks: Sequence[Task], progress: Progress) -> list[EvalReport]:
        """Measures the current weights."""
        return self._measure(tasks, progress)

    def go_on(self, tasks: Sequence[Task], progress: Progress) -> list[EvalReport]:
        """Tries again what failed."""
        if not self._backoff:  # asked at every step
            return []
        names = self._backoff.due(progress.step, [task.name for task in tasks])
        return self._measure([task for task in tasks if task.name in names], progress) if names else []

    def finish(self, tasks: Sequence[Task], progress: Progress) -> list[EvalReport]:
        """Measures what was not measured on these weights."""
        left = [task for task in tasks if self._measured.get(task.name) != progress.step]
        return self._measure(left, progress) if left else []

    def close(self) -> None:
        """Nothing runs."""

    def _measure(self, tasks: Sequence[Task], progress: Progress, raises: bool = False) -> list[EvalReport]:
        """Some tasks on the current weights; one that fails stays due, and the others go on."""
        found: list[EvalReport] = []
        failures: dict[str, str] = {}
        first: Exception | None = None
        with self._paused():
            if self.is_main and self.setting.engine is not None:
                found, failures, first = self._measure_all(tasks, progress)
            elif self._across is not None and tasks:
                failures = Inline().dispatch(self._across.serve, self._across.modules())
        failed = self._settle([task.name for task in tasks], failures, progress)
        if failed:
            if raises and first is not None:
                raise first
            self.setting.failed(
                progress.step, failures or dict.fromkeys(failed, "on rank 0"), "it is tried again soon", first
            )
        return found

    def _measure_all(
        self, tasks: Sequence[Task], progress: Progress
    ) -> tuple[list[EvalReport], dict[str, str], Exception | None]:
        """Reports, task to reason of what failed, and the first error."""
        found: list[EvalReport] = []
        failures: dict[str, str] = {}
        first: Exception | None = None
        try:
            for task in tasks:
                try:
                    report = self._evaluate(task, progress)
                except Exception as error:  # whatever went wrong in an evaluation, training has not
                    first, failures[task.name] = first or error, f"{type(error).__name__}: {error}"
                    continue
                found.append(report)
                if report.status == "failed":
                    failures[task.name] = ", ".join(report.errors)
        finally:
            if self._across is not None:
                self._across.dismiss(failures)
        return found, failures, first

    def _settle(self, names: Sequence[str], failures: Mapping[str, str], progress: Progress) -> list[str]:
        """Notes how evaluations ended, on several ranks how they ended on rank 0; which of them failed."""
        flags = [float(name in failures) for name in names]
        if self._agree is not None and self._across is None and flags:  # else rank 0 has written to the others
            flags = self._agree(flags)
        for name, failed in zip(names, flags, strict=True):
            if failed:
                self._backoff.failed(name, progress.step)
            else:
                self._backoff.succeeded(name)
                self._measured[name] = progress.step
        return [name for name, failed in zip(names, flags, strict=True) if failed]

    def _evaluate(self, task: Task, progress: Progress) -> EvalReport:
        setting, engine = self.setting, self._across or self.setting.engine
        assert engine is not None

        def job() -> EvalReport:
            return evaluate_checkpoint(
                task,
                engine,
                run=setting.run,
                progress=progress,
                seed=setting.config.seed,
                level=setting.config.level,
                registered=setting.registered,
                limit_s=None if self._across is not None else setting.config.limit_s,  # each rank keeps it itself
                stop=setting.config.rule_of(task.name),
            )

        began = time.monotonic()
        report = Inline().dispatch(job, engine.modules())
        setting.take(report, time.monotonic() - began)
        return report

    # -- a function of the user's ------------------------------------------------------------------------------------

    def function_failed(self, progress: Progress) -> bool:
        """Whether the user's function failed, and is to be tried again now."""
        return bool(self._backoff.due(progress.step, [FUNCTION]))

    def function_measured(self, progress: Progress) -> bool:
        """Whether the user's function was called on these weights."""
        return self._measured.get(FUNCTION) == progress.step

    def call(self, evaluate_fn: Callable[[], Any], progress: Progress) -> Any:
        """Calls it, with training guarded; a mapping of numbers is logged to the run."""
        setting = self.setting
        modules = setting.engine.modules() if setting.engine is not None else []
        failures: dict[str, str] = {}
        result = None
        try:
            with self._paused():
                result = Inline().dispatch(evaluate_fn, modules)
        except Exception as error:
            failures[FUNCTION] = str(error)
            raise
        finally:
            self._settle([FUNCTION], failures, progress)
        if setting.run is not None and isinstance(result, Mapping):
            numbers = {f"eval/{key}": value for key, value in result.items() if isinstance(value, int | float)}
            setting.run.log(progress.step, **numbers)
        return result

    # -- resume ------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """All that a restart needs, as plain JSON."""
        return {"measured": dict(self._measured), "failing": self._backoff.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues where `state_dict` was taken."""
        measured = {str(name): int(step) for name, step in state["measured"].items()}
        self._backoff.load_state_dict(state["failing"])
        self._measured = measured
