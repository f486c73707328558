"""The object in the user's training loop: decides when, evaluates, and leaves training as it was."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Literal, Self

from pydantic import Field, field_validator

from midflight import environ
from midflight.config import Config
from midflight.dispatch import Inline
from midflight.distributed import agreement
from midflight.engines.base import BaseEngine
from midflight.errors import ConfigError, EvaluationError
from midflight.metrics import BaseMetric, check_class
from midflight.pipeline import evaluate_checkpoint, metrics_of
from midflight.records import EvalReport, Progress
from midflight.run import Run
from midflight.show.lines import report_line, say
from midflight.tasks import Task, load_task
from midflight.triggers import Backoff, EpochStepTimeFreqCtl
from midflight.triggers.frequency import check_frequency

logger = logging.getLogger("midflight")

FUNCTION = "evaluate_fn"
"""Name under which the function of AReaL's form is kept."""


class EvaluatorConfig(Config):
    """When and how a training run is evaluated. The last weights are always measured, whatever is set here.

    Attributes:
        freq_epochs: Evaluate each time so many epochs are completed; fractions are allowed.
        freq_steps: Evaluate each time so many optimiser steps are completed.
        freq_secs: Evaluate after so many seconds of training since the last evaluation.
        freq_tokens: Evaluate each time so many training tokens have been seen.
        when: Evaluate when it returns True for the progress.
        eval_before_train: Measure the weights before the first update.
        steps_per_epoch: Lets whole epoch numbers be placed exactly, as `Evaluator.evaluate` gives them.
        distributed: Share an evaluation between the ranks of the job.
        local_eval_nodes: Nodes in a group that gathers before the job does, where `distributed`.
        async_mode: Evaluate beside training.
        on_error: What a failed evaluation does to training: ``warn`` = it goes on, and evaluates again soon; ``raise``.
        seed: Seed of sampling and bootstrap.
        level: Confidence level of intervals.
    """

    freq_epochs: float | None = None
    freq_steps: int | None = None
    freq_secs: float | None = None
    freq_tokens: int | None = None
    when: Callable[[Progress], bool] | None = Field(default=None, exclude=True)
    eval_before_train: bool = False
    steps_per_epoch: int | None = Field(default=None, ge=1)
    distributed: bool = False
    local_eval_nodes: int | None = Field(default=None, ge=1)
    async_mode: bool = False
    on_error: Literal["warn", "raise"] = "warn"
    seed: int = 0
    level: float = Field(default=0.95, gt=0, lt=1)

    @field_validator("freq_epochs", "freq_steps", "freq_secs", "freq_tokens")
    @classmethod
    def _above_zero(cls, freq: float | None) -> float | None:
        try:
            check_frequency("a frequency", freq)
        except ConfigError:
            raise ValueError("must be a number above 0, or None to switch it off") from None
        return freq


class Evaluator:
    """Evaluates a model while it trains.

    As a context manager it measures the first weights on entering (if asked to) and the last ones on leaving. Where
    that does not fit, `start` and `finish` do the same.

    Args:
        config: When and how.
        tasks: Tasks, or what `load_task` makes one of.
        engine: What answers; holds the model in training.
        run: Where results belong; None = reports are returned and shown, not stored.
        on_report: Called with each report.
        quiet: Whether to print nothing.

    Raises:
        ConfigError: If a task cannot be loaded, a name stands twice, or the engine is missing.
        CapabilityError: If the engine cannot do what a task asks.
    """

    def __init__(
        self,
        config: EvaluatorConfig | None = None,
        tasks: Sequence[str | Task] = (),
        engine: BaseEngine | None = None,
        run: Run | None = None,
        *,
        on_report: Callable[[EvalReport], None] | None = None,
        quiet: bool = False,
    ) -> None:
        self.config = config or EvaluatorConfig()
        self.tasks = [load_task(task) for task in tasks]
        self.engine, self.run, self.on_report, self.quiet = engine, run, on_report, quiet
        self.registered: dict[str, type[BaseMetric]] = {}
        self.reports: list[EvalReport] = []
        """All reports so far."""
        self.place = environ.place()
        self._check()
        self._agree = agreement()
        self.freq_ctl = EpochStepTimeFreqCtl(
            self.config.freq_epochs,
            self.config.freq_steps,
            self.config.freq_secs,
            freq_tokens=self.config.freq_tokens,
            when=self.config.when,
            agree=self._agree,
        )
        self._backoff = Backoff()
        self._measured: dict[str, int] = {}  # task, or FUNCTION: step at which it was last measured
        self._asked: tuple[int, bool] | None = None  # step, and what `should_evaluate` said of it
        self._resumed = self._started = self._stepped = False
        self._evaluate_fn: Callable[[], Any] | None = None

    def _check(self) -> None:
        names = [task.name for task in self.tasks]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ConfigError("tasks of the same name", got=twice, allowed="each once")
        if self.tasks and self.engine is None:
            raise ConfigError("tasks without an engine", hint="e.g. engine=midflight.engines.HF(model, tokenizer)")
        if self.config.async_mode or (self.config.distributed and self.place.world_size > 1):
            raise ConfigError(
                "async_mode and distributed evaluation over several ranks are not part of this version",
                hint="leave both off: rank 0 evaluates, between two steps",
            )
        for task in self.tasks:
            assert self.engine is not None
            self.engine.require(task.capability, task.name)
            metrics_of(task)

    # -- users' own metrics ------------------------------------------------------------------------------------------

    def register_metric(self, name: str, metric: type[BaseMetric]) -> None:
        """Adds a metric to every task of this evaluator.

        Args:
            name: Its key.
            metric: A subclass of `BaseMetric`; `compute(self, predictions, labels)` is all that it needs.

        Raises:
            ConfigError: If it cannot be a metric.
        """
        self.registered[name] = check_class(name, metric)

    # -- the loop ----------------------------------------------------------------------------------------------------

    def start(self, step: int | None = None, epoch: float = 0.0, tokens: int = 0) -> list[EvalReport]:
        """Before the first update: measures the weights if `eval_before_train` says so.

        Where training is resumed there is nothing to measure, unless a crash had cost the evaluation of these weights.

        Args:
            step: Optimiser steps that the weights have behind them: 0, or that of the checkpoint resumed from. None =
                what a loaded state says, else 0.
            epoch: Epochs completed.
            tokens: Training tokens seen.
        """
        self._started = True
        if not self._resumed:
            self.freq_ctl.start_at(Progress(step or 0, epoch, tokens))
        progress = self.freq_ctl.progress
        if step is None and not self._resumed and self.run is not None and self.run.enabled and self.run.attempt > 1:
            if self.config.eval_before_train:
                logger.warning(
                    "midflight: run %r is resumed, but the evaluator was not told at which step; the first weights are"
                    " not measured: use load_state_dict(), or start(step=...)",
                    self.run.name,
                )
            return []
        if self.run is not None and (step is not None or self._resumed):
            self.run.begin_at(progress.step)
        lost = self._resumed and self.freq_ctl.is_due(progress)
        if lost:
            self.freq_ctl.mark_done(progress)
        first = self.config.eval_before_train and progress.step == 0
        return self._measure(self.tasks, progress, raises=True) if lost or first else []

    def should_evaluate(self, epoch: float, step: int, tokens: int = 0) -> bool:
        """Whether an evaluation is due; asking twice about one step answers the same and consumes one tick.

        Args:
            epoch: Epochs completed; fractions are allowed.
            step: Optimiser steps completed, as in the HF Trainer; 0 = before the first update.
            tokens: Training tokens seen.
        """
        if self._asked is None or self._asked[0] != step:
            due = (
                self.config.eval_before_train if step == 0 else self.freq_ctl.take(self._progress(epoch, step, tokens))
            )
            self._asked = (step, due)
        return self._asked[1]

    def step(self, step: int, epoch: float = 0.0, tokens: int = 0) -> list[EvalReport]:
        """After an optimiser step: evaluates what is due, and what failed before and is to be tried again.

        Args:
            step: Optimiser steps completed.
            epoch: Epochs completed; fractions are allowed.
            tokens: Training tokens seen.

        Returns:
            The reports, one a task; none if nothing was due.
        """
        progress = self._progress(epoch, step, tokens)
        self._warn_if_not_told(progress)
        if self.freq_ctl.is_due(progress):
            self.freq_ctl.mark_done(progress)
            return self._measure(self.tasks, progress)
        again = self._backoff.due(progress.step, [task.name for task in self.tasks])
        return self._measure([task for task in self.tasks if task.name in again], progress) if again else []

    def finish(self) -> list[EvalReport]:
        """After the last update: measures the last weights, unless they were measured already."""
        progress = self.freq_ctl.progress
        if self._evaluate_fn is not None and self._measured.get(FUNCTION) != progress.step:
            self._call(self._evaluate_fn, progress)
        left = [task for task in self.tasks if self._measured.get(task.name) != progress.step]
        return self._measure(left, progress) if left else []

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            self.finish()

    def _warn_if_not_told(self, progress: Progress) -> None:
        """On the first step: the weights before it are not what `start` was told, or it was not called."""
        if self._stepped:
            return
        self._stepped = True
        if self.config.freq_tokens is not None and progress.tokens == 0:
            logger.warning("midflight: freq_tokens needs step(..., tokens=...): the tokens that training has seen")
        if not self._started and self.config.eval_before_train:
            logger.warning(
                "midflight: eval_before_train needs `with Evaluator(...)` or start() before the first update;"
                " the first weights were not measured"
            )
        if not self._resumed and progress.step - self.freq_ctl.progress.step > 1:
            if self._started:
                logger.warning(
                    "midflight: the first step is %d: training was resumed, but the evaluator was not told;"
                    " use load_state_dict(), or start(step=%d)",
                    progress.step,
                    progress.step - 1,
                )
            self.freq_ctl.start_at(replace(progress, step=progress.step - 1))
            if self.run is not None:
                self.run.begin_at(progress.step - 1)

    def _progress(self, epoch: float, step: int, tokens: int) -> Progress:
        if self.config.steps_per_epoch is not None:
            epoch = step / self.config.steps_per_epoch
        return Progress(int(step), float(epoch), int(tokens))

    # -- an evaluation -----------------------------------------------------------------------------------------------

    def _measure(self, tasks: Sequence[Task], progress: Progress, raises: bool = False) -> list[EvalReport]:
        """Some tasks on the current weights; one that fails stays due, and the others go on."""
        found: list[EvalReport] = []
        failures: dict[str, str] = {}
        first: Exception | None = None
        if self.place.is_main and self.engine is not None:
            with self.freq_ctl.paused():
                for task in tasks:
                    try:
                        report = self._evaluate(task, progress)
                    except Exception as error:  # whatever went wrong in an evaluation, training has not
                        first, failures[task.name] = first or error, f"{type(error).__name__}: {error}"
                        continue
                    found.append(report)
                    if report.status == "failed":
                        failures[task.name] = ", ".join(report.errors)
        failed = self._settle([task.name for task in tasks], failures, progress)
        if failed:
            failures = failures or dict.fromkeys(failed, "on rank 0")
            text = "; ".join(f"{name}: {reason}" for name, reason in failures.items())
            if raises or self.config.on_error == "raise":
                raise first or EvaluationError(f"evaluation at step {progress.step} failed: {text}")
            logger.warning(
                "midflight: evaluation at step %d failed: %s; training goes on, it is tried again soon",
                progress.step,
                text,
            )
        return found

    def _settle(self, names: Sequence[str], failures: Mapping[str, str], progress: Progress) -> list[str]:
        """Notes how evaluations ended, on several ranks how they ended on rank 0; which of them failed."""
        flags = [float(name in failures) for name in names]
        agreed = self._agree(flags) if self._agree is not None and flags else flags
        for name, failed in zip(names, agreed, strict=True):
            if failed:
                self._backoff.failed(name, progress.step)
            else:
                self._backoff.succeeded(name)
                self._measured[name] = progress.step
        return [name for name, failed in zip(names, agreed, strict=True) if failed]

    def _evaluate(self, task: Task, progress: Progress) -> EvalReport:
        engine = self.engine
        assert engine is not None

        def job() -> EvalReport:
            return evaluate_checkpoint(
                task,
                engine,
                run=self.run,
                progress=progress,
                seed=self.config.seed,
                level=self.config.level,
                registered=self.registered,
            )

        report = Inline().dispatch(job, engine.modules())
        self.reports.append(report)
        if not self.quiet:
            say(report_line(report))
        if self.on_report is not None:
            self.on_report(report)
        return report

    # -- AReaL's form ------------------------------------------------------------------------------------------------

    def evaluate(self, evaluate_fn: Callable[[], Any], epoch: int, step: int, global_step: int) -> Any:
        """AReaL's form, called at the end of a step: runs `evaluate_fn` if it is due.

        Training state is guarded as in `step`. What the function returns is returned; a mapping of numbers is logged
        to the run as ``eval/<name>``. If it raises, the evaluation stays due.

        Args:
            evaluate_fn: Evaluates the current weights.
            epoch: Index of the epoch, from 0.
            step: Index of the step in its epoch, from 0.
            global_step: Index of the step in the run, from 0.

        Returns:
            What `evaluate_fn` returned; None if nothing was due.
        """
        self._evaluate_fn = evaluate_fn
        length = self.config.steps_per_epoch
        progress = Progress(global_step + 1, epoch + (0.0 if length is None else (step + 1) / length))
        self._warn_if_not_told(progress)
        due = self.freq_ctl.is_due(progress)
        if due:
            self.freq_ctl.mark_done(progress)
        return self._call(evaluate_fn, progress) if due or self._backoff.due(progress.step, [FUNCTION]) else None

    def _call(self, evaluate_fn: Callable[[], Any], progress: Progress) -> Any:
        modules = self.engine.modules() if self.engine is not None else []
        failures: dict[str, str] = {}
        result = None
        try:
            with self.freq_ctl.paused():
                result = Inline().dispatch(evaluate_fn, modules)
        except Exception as error:
            failures[FUNCTION] = str(error)
            raise
        finally:
            self._settle([FUNCTION], failures, progress)
        if self.run is not None and isinstance(result, Mapping):
            numbers = {f"eval/{key}": value for key, value in result.items() if isinstance(value, int | float)}
            self.run.log(progress.step, **numbers)
        return result

    # -- resume ------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """All that a restart needs, as plain JSON; the config is not part of it."""
        return {
            "freq_ctl": self.freq_ctl.state_dict(),
            "measured": dict(self._measured),
            "failing": self._backoff.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues where `state_dict` was taken; call it before `start`.

        Raises:
            ConfigError: If it is not such a state.
        """
        try:
            measured = {str(name): int(step) for name, step in state["measured"].items()}
            self._backoff.load_state_dict(state["failing"])
            self.freq_ctl.load_state_dict(state["freq_ctl"])
        except (KeyError, TypeError, AttributeError) as error:
            raise ConfigError(f"not a state of an Evaluator: {error!r}", got=state) from None
        self._measured, self._resumed = measured, True
