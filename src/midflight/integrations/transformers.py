"""One callback for the Hugging Face `Trainer` and TRL's SFT, DPO, reward and GRPO trainers.

    trainer = GRPOTrainer(..., callbacks=[MidflightCallback(["gsm8k"], EvaluatorConfig(freq_steps=100))])

It evaluates in flight, logs what the trainer logs, and besides the loss of every single step as it really was: the
Trainer's own log averages over steps and, by `logging_nan_inf_filter`, puts a mean where the loss was NaN or infinite.
"""

from __future__ import annotations

import functools
import json
import logging
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from midflight.engines import HF, BaseEngine
from midflight.errors import ConfigError, missing_extra
from midflight.evaluator import Evaluator, EvaluatorConfig
from midflight.metrics import BaseMetric
from midflight.run import Run
from midflight.tasks import Task

try:
    from transformers import Trainer, TrainerCallback
except ImportError as error:
    raise missing_extra("MidflightCallback", "hf", error) from None

STATE_FILE = "midflight_state.json"
"""Beside the trainer's own state in each checkpoint: where the evaluator stood."""

RAW_LOSS = "raw_loss"
"""Series of the loss of every step, neither averaged nor filtered."""

READ_EVERY = 50
"""Steps after which raw losses are read from the device at the latest."""

logger = logging.getLogger("midflight")


class MidflightCallback(TrainerCallback):  # type: ignore[misc]
    """Evaluates the model of a Trainer in flight and logs its training metrics.

    Args:
        tasks: Tasks, or what `load_task` makes one of; none = only the training metrics are logged.
        config: When and how.
        run: Where results belong; None = a run named after the trainer's `run_name` or output folder.
        project: Project of that run.
        store: Store of that run.
        engine: What answers; None = the trainer's model and tokenizer in this process.
        engine_options: For the engine that is made, e.g. ``{"tokens_per_batch": 32768}``.
        metrics: Metrics of your own by name.
    """

    def __init__(
        self,
        tasks: Sequence[str | Task] = (),
        config: EvaluatorConfig | None = None,
        *,
        run: Run | None = None,
        project: str = "default",
        store: str | None = None,
        engine: BaseEngine | None = None,
        engine_options: Mapping[str, Any] | None = None,
        metrics: Mapping[str, type[BaseMetric]] | None = None,
    ) -> None:
        self.tasks, self.config, self.run, self.project, self.store = tasks, config, run, project, store
        self.engine, self.engine_options, self.metrics = engine, dict(engine_options or {}), dict(metrics or {})
        self.evaluator: Evaluator | None = None
        self._own_run, self._own_engine = run is None, engine is None
        self._tap: _LossTap | None = None
        self._micro_losses: list[Any] = []  # of the step in progress
        self._step_losses: list[tuple[int, Any]] = []  # of steps not read from the device yet
        self._warned = False

    # -- the trainer's events ----------------------------------------------------------------------------------------

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Before the first update: makes run and engine, measures the first weights if asked to.

        Each `train` of a trainer is a run of its own, of the model that the trainer has by then; after a `train` that
        raised, the run goes on, as it does after a restart.
        """
        if self._own_run:
            if self.run is not None:
                self.run.finish("failed")  # of the training before; does nothing if it came to its end
            name = getattr(args, "run_name", None) or Path(args.output_dir or "run").name
            self.run = Run(self.project, name, args.to_dict(), store=self.store)
        if self._own_engine and self.tasks:
            self.engine = HF(given["model"], _tokenizer(given.get("processing_class")), **self.engine_options)
        self.evaluator = Evaluator(self.config, self.tasks, self.engine, self.run)
        for name, metric in self.metrics.items():
            self.evaluator.register_metric(name, metric)
        self._micro_losses, self._step_losses, self._warned = [], [], False
        trainer = _calling_trainer()
        self._tap = None if trainer is None else _LossTap.on(trainer, self._hear)
        saved = Path(args.output_dir or ".") / f"checkpoint-{state.global_step}" / STATE_FILE
        if state.global_step and saved.is_file():
            self.evaluator.load_state_dict(json.loads(saved.read_text(encoding="utf-8")))
        self.evaluator.start(state.global_step, state.epoch or 0.0, state.num_input_tokens_seen)

    def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """After an optimiser step: evaluates if it is due."""
        if self._micro_losses:
            self._step_losses.append((state.global_step, sum(self._micro_losses)))
            self._micro_losses = []
            if len(self._step_losses) >= READ_EVERY:
                self._read_losses()
        evaluator = self._ready()
        evaluator.step(state.global_step, state.epoch or 0.0, state.num_input_tokens_seen)
        if evaluator.should_stop:
            control.should_training_stop = True

    def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, Any] | None = None, **given: Any) -> None:
        """Logs what the trainer logs; the last weights are measured as soon as training has ended."""
        self._read_losses()
        numbers = {key: float(value) for key, value in (logs or {}).items() if _is_number(value)}
        if self.run is not None and numbers:
            self.run.log(state.global_step, **numbers)
        if "train_runtime" in numbers:
            # not in on_train_end: load_best_model_at_end has put other weights in place by then
            self._ready().finish()

    def on_save(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Keeps the evaluator's state beside the trainer's."""
        folder = Path(args.output_dir or ".") / f"checkpoint-{state.global_step}"
        if state.is_world_process_zero and folder.is_dir():
            (folder / STATE_FILE).write_text(json.dumps(self._ready().state_dict()), encoding="utf-8")

    def on_train_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """After the last update: ends the run that was made here."""
        self._read_losses()
        if self._tap is not None:
            self._tap.leave(self._hear)
            self._tap = None
        if self._own_run and self.run is not None:
            self.run.finish()

    def _ready(self) -> Evaluator:
        if self.evaluator is None:
            raise ConfigError("MidflightCallback was added after training had begun", hint="pass it to the trainer")
        return self.evaluator

    # -- losses as they were -----------------------------------------------------------------------------------------

    def _hear(self, loss: Any) -> None:
        self._micro_losses.append(loss)

    def _read_losses(self) -> None:
        """Logs the losses since the last reading; says so, once, if one of them is not finite."""
        if not self._step_losses or self.run is None:
            return
        import torch

        steps = [step for step, _ in self._step_losses]
        values = torch.stack([loss.float() for _, loss in self._step_losses]).tolist()
        self._step_losses = []
        for step, value in zip(steps, values, strict=True):
            self.run.log(step, **{RAW_LOSS: value})
        bad = next((step for step, value in zip(steps, values, strict=True) if not math.isfinite(value)), None)
        if bad is not None and not self._warned:
            self._warned = True
            logger.warning(
                "midflight: the loss of step %d is %s; the Trainer's log may hide it", bad, values[steps.index(bad)]
            )


class _LossTap:
    """Stands where a trainer's `training_step` stood and tells each loss to all that listen: one tap a trainer.

    A callback is given neither the trainer nor the step's loss.
    """

    def __init__(self, trainer: Any) -> None:
        self._trainer, self._step = trainer, trainer.training_step
        self._own = vars(trainer).get("training_step")  # None = the class's
        self._listeners: list[Callable[[Any], None]] = []
        functools.update_wrapper(self, self._step)

    @classmethod
    def on(cls, trainer: Any, listener: Callable[[Any], None]) -> _LossTap:
        """The tap of a trainer, with one more listener."""
        tap = vars(trainer).get("training_step")
        if not isinstance(tap, cls):
            tap = trainer.training_step = cls(trainer)
        if listener not in tap._listeners:  # a training that raised has left it there
            tap._listeners.append(listener)
        return tap

    def leave(self, listener: Callable[[Any], None]) -> None:
        """One listener less; with the last, the trainer gets back what it had, unless somebody stands before it."""
        self._listeners.remove(listener)
        if self._listeners or vars(self._trainer).get("training_step") is not self:
            return
        if self._own is None:
            del self._trainer.training_step
        else:
            self._trainer.training_step = self._own

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        loss = self._step(*arguments, **options)
        for listener in self._listeners:
            listener(loss.detach())  # stays on the device: no wait
        return loss


def _calling_trainer() -> Any | None:
    """The Trainer that is calling its callbacks: the nearest one among the callers."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        owner = frame.f_locals.get("self")
        if isinstance(owner, Trainer):
            return owner
        frame = frame.f_back
    return None


def _tokenizer(processing_class: Any) -> Any:
    if processing_class is None:
        raise ConfigError(
            "the trainer has no processing_class, so that prompts cannot be tokenized",
            hint="give the trainer one, or MidflightCallback an engine",
        )
    return getattr(processing_class, "tokenizer", processing_class)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
