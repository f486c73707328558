"""The object in the user's training loop: decides when, evaluates, and leaves training as it was."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from midflight import environ
from midflight.analyse.early_stop import StopAdvice
from midflight.dispatch import Process
from midflight.distributed import agreement
from midflight.distributed.mail import Mail
from midflight.distributed.sharded_model import is_sharded
from midflight.engines.base import BaseEngine
from midflight.errors import ConfigError, StoreError
from midflight.evaluator.across_ranks import AcrossRanks
from midflight.evaluator.beside_training import BesideTraining
from midflight.evaluator.between_steps import BetweenSteps
from midflight.evaluator.config import EvaluatorConfig
from midflight.evaluator.setting import Setting, Way
from midflight.evaluator.stopping import Stopping
from midflight.metrics import BaseMetric, check_class
from midflight.pipeline import metrics_of, task_fingerprint
from midflight.records import EvalReport, Progress
from midflight.run import Run
from midflight.sequential import looks_of
from midflight.tasks import Task, load_task
from midflight.triggers import Budget, EpochStepTimeFreqCtl

logger = logging.getLogger("midflight")


class Evaluator:
    """Evaluates a model while it trains.

    As a context manager it measures the first weights on entering (if asked to) and the last ones on leaving. Where
    that does not fit, `start` and `finish` do the same.

    Args:
        config: When and how.
        tasks: Tasks, or what `load_task` makes one of.
        engine: What answers; holds the model in training.
        run: Where results belong; None = reports are returned and shown, not stored.
        on_report: Called with each report, in the thread that calls `step`, `poll` or `finish`.
        dispatcher: Where evaluations beside training run; None = processes on this machine, as the config says.
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
        dispatcher: Process | None = None,
        quiet: bool = False,
    ) -> None:
        self.config = config or EvaluatorConfig()
        self.tasks = [load_task(task) for task in tasks]
        self.engine, self.run = engine, run
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
        self._setting = Setting(self.config, engine, run, on_report, quiet, Budget(self.config.max_eval_share))
        self._between = BetweenSteps(
            self._setting, self.place.is_main, self._agree, self.freq_ctl.paused, self._across_ranks()
        )
        self._way: Way = self._between
        if self.config.async_mode and self.tasks:
            joined = engine is not None and any(map(is_sharded, engine.modules()))  # copies need all ranks
            self._way = BesideTraining(self._setting, dispatcher, self.place.is_main, self._agree if joined else None)
        self._stopping = Stopping(self.config, self.tasks, run, self._agree)
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
        if self.config.distributed and self.config.async_mode:
            raise ConfigError(
                "distributed and async_mode", hint="choose one: ranks in the loop, or processes beside it"
            )
        modules = self.engine.modules() if self.engine is not None and self.place.world_size > 1 else []
        if any(map(is_sharded, modules)) and not (self.config.distributed or self.config.async_mode):
            raise ConfigError("a model in shards needs all ranks", hint="distributed=True, or async_mode=True")
        unknown = sorted(set(self.config.priorities) - set(names))
        if unknown:
            raise ConfigError("priorities of unknown tasks", got=unknown, allowed=", ".join(names))
        self._check_rules(names)
        for task in self.tasks:
            assert self.engine is not None
            self.engine.require(task.capability, task.name)
            metrics_of(task)

    def _check_rules(self, names: Sequence[str]) -> None:
        """Rules that end evaluations early: what is wrong with them shows before training; baselines in `start`."""
        ruled = [rule.task for rule in self.config.sequential]
        unknown = sorted(set(ruled) - set(names))
        if unknown:
            raise ConfigError("sequential rules for unknown tasks", got=unknown, allowed=", ".join(names))
        twice = sorted({name for name in ruled if ruled.count(name) > 1})
        if twice:
            raise ConfigError("several sequential rules for one task", got=twice, allowed="one a task")
        if ruled and self.run is None:
            raise ConfigError("sequential rules without a run", hint="the scores of their baselines are in its store")
        if ruled and self.config.distributed and self.config.limit_s is not None:
            raise ConfigError(
                "distributed, limit_s and sequential rules", hint="leave limit_s out: ranks would keep it at each look"
            )

    def _across_ranks(self) -> AcrossRanks | None:
        """The engine of all ranks, if the config asks for it and there are several that talk to each other."""
        if not self.config.distributed or self._agree is None or self.engine is None:
            return None
        return AcrossRanks(self.engine, Mail(self.place, self.config.local_eval_nodes), self.config.limit_s)

    @property
    def reports(self) -> list[EvalReport]:
        """All reports so far."""
        return self._setting.reports

    def register_metric(self, name: str, metric: type[BaseMetric]) -> None:
        """Adds a metric to every task of this evaluator.

        Args:
            name: Its key.
            metric: A subclass of `BaseMetric`; `compute(self, predictions, labels)` is all that it needs.

        Raises:
            ConfigError: If it cannot be a metric.
        """
        self._setting.registered[name] = check_class(name, metric)

    # -- the loop ----------------------------------------------------------------------------------------------------

    def start(self, step: int | None = None, epoch: float = 0.0, tokens: int = 0) -> list[EvalReport]:
        """Before the first update: measures the weights if `eval_before_train` says so.

        Where training is resumed there is nothing to measure, unless a crash had cost the evaluation of these weights.

        Args:
            step: Optimiser steps that the weights have behind them: 0, or that of the checkpoint resumed from. None =
                what a loaded state says, else 0.
            epoch: Epochs completed.
            tokens: Training tokens seen.

        Raises:
            ConfigError: If a sequential rule does not fit its task, or its baseline is not there.
        """
        self._started = True
        self._check_baselines()
        if not self._resumed:
            self.freq_ctl.start_at(Progress(step or 0, epoch, tokens))
        progress = self.freq_ctl.progress
        if step is None and not self._resumed and self._run_is_resumed():
            if self.config.eval_before_train and self.run is not None and self.run.enabled:
                logger.warning(
                    "midflight: run %r is resumed, but the evaluator was not told at which step; the first weights are"
                    " not measured: use load_state_dict(), or start(step=...)",
                    self.run.name,
                )
            return []
        if self.run is not None and (step is not None or self._resumed):
            self.run.begin_at(progress.step)
        lost = self._resumed and self.freq_ctl.take(progress)
        first = self.config.eval_before_train and progress.step == 0
        return self._way.start(self.tasks, progress, lost or first)

    def _run_is_resumed(self) -> bool:
        """Whether this run was begun by another process; only rank 0 knows."""
        known = self.run is not None and self.run.enabled and self.run.attempt > 1
        return known if self._agree is None else bool(self._agree([float(known)])[0])

    def _check_baselines(self) -> None:
        """Refuses rules whose metric does not fit, or whose baseline is not there or was asked something else."""
        if not self.place.is_main:
            return
        for task in self.tasks:
            rule = self.config.rule_of(task.name)
            if rule is not None:
                metrics = metrics_of(task, self._setting.registered)
                looks_of(rule, task, metrics, task_fingerprint(task, metrics)[0], self.run)

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
            The reports, one a task; none if nothing was due. With `async_mode`, those that have come in since the last
            call, of whatever weights.
        """
        progress = self._progress(epoch, step, tokens)
        self._warn_if_not_told(progress)
        due = self.freq_ctl.is_due(progress)
        if due:
            self.freq_ctl.mark_done(progress)
        measure = self._way.measure if due and self._affordable(progress) else self._way.go_on
        found = measure(self.tasks, progress)
        self._stopping.look(progress.step, len(self.reports), due)
        return found

    @property
    def should_stop(self) -> bool:
        """Whether training should end now; only ever True with `early_stop="stop"`, and then on every rank."""
        return self._stopping.should_stop

    @property
    def stop_advice(self) -> StopAdvice | None:
        """Why training should end, and which checkpoint to go back to; None if it should not. Rank 0 knows."""
        return self._stopping.advice

    def poll(self) -> list[EvalReport]:
        """Reports of evaluations beside training that have come in since the last call, of whatever weights.

        Raises:
            EvaluationError: If one has failed, and `on_error` is ``raise``.
        """
        return self._way.poll() if isinstance(self._way, BesideTraining) else []

    def finish(self) -> list[EvalReport]:
        """After the last update: measures the last weights, unless they were measured already.

        With `async_mode` it waits for all that still runs, no longer than `finish_s`.
        """
        progress = self.freq_ctl.progress
        if self._evaluate_fn is not None and not self._between.function_measured(progress):
            self._between.call(self._evaluate_fn, progress)
        return self._way.finish(self.tasks, progress)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            self.finish()
        else:
            self._way.close()

    def _affordable(self, progress: Progress) -> bool:
        """Whether a due evaluation fits into `max_eval_share`, as rank 0 sees it; if not, says so."""
        budget = self._setting.budget
        if budget.max_share is None:
            return True
        allowed = budget.allows()
        if self._agree is not None:
            allowed = bool(self._agree([float(allowed)])[0])
        if not allowed:
            reason = f"evaluations took {budget.share:.1%} of the time, max_eval_share is {budget.max_share:.1%}"
            logger.info("midflight: the evaluation at step %d is left out: %s", progress.step, reason)
            if self.run is not None and self.run.enabled:
                for task in self.tasks:
                    self.run.store.note_missing(self.run.id, self.run.attempt, task.name, progress, reason)
        return allowed

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

    # -- AReaL's form ------------------------------------------------------------------------------------------------

    def evaluate(self, evaluate_fn: Callable[[], Any], epoch: int, step: int, global_step: int) -> Any:
        """AReaL's form, called at the end of a step: runs `evaluate_fn` if it is due, between two steps.

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
        return self._between.call(evaluate_fn, progress) if due or self._between.function_failed(progress) else None

    # -- resume ------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """All that a restart needs, as plain JSON; the config is not part of it.

        What was logged so far is durable when it returns, so that a restart from here misses no point.
        """
        if self.run is not None:
            with contextlib.suppress(StoreError):  # it is kept and told of by the run itself
                self.run.flush()
        return {"freq_ctl": self.freq_ctl.state_dict(), "evaluations": self._way.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues where `state_dict` was taken; call it before `start`.

        Raises:
            ConfigError: If it is not such a state.
        """
        try:
            self._way.load_state_dict(state["evaluations"])
            self.freq_ctl.load_state_dict(state["freq_ctl"])
        except (KeyError, TypeError, AttributeError) as error:
            raise ConfigError(f"not a state of an Evaluator: {error!r}", got=state) from None
        self._resumed = True
