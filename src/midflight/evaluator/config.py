"""When and how a training run is evaluated: what a user sets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from pydantic import Field, field_validator

from midflight.config import Config
from midflight.dispatch import WhenBusy
from midflight.environ import Limits
from midflight.errors import ConfigError
from midflight.records import Progress
from midflight.sequential import SequentialRule
from midflight.triggers.frequency import check_frequency


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
        async_mode: Evaluate beside training: the weights are copied, other processes evaluate them, training goes on.
        workers: Processes that evaluate, where `async_mode`.
        max_waiting: Copies of the weights that may wait beside those that are being evaluated.
        when_busy: What becomes of new weights while older ones are evaluated: ``queue`` = they wait, or are left out if
            there is no room; ``latest`` = they take the place of older ones that wait; ``skip`` = they are left out.
        priorities: Task to priority: the higher ones are evaluated first. 0 where it is not named.
        limit_s: Seconds that one task may take on one set of weights; what is not answered by then is `not_run`.
        finish_s: Seconds that `finish` waits for evaluations that still run; None = until they have ended.
        sequential: Rules that may end evaluations early, at most one a task.
        max_eval_share: Share of wall time that evaluations may take; one that is due beyond it is left out, but for the
            first and the last.
        early_stop: What becomes of advice to end training, from the detectors or from tasks that stopped improving:
            ``warn`` = it is said; ``stop`` = `Evaluator.should_stop` becomes True (and the HF Trainer stops); ``off``.
        min_gain: Improvement in 1,000 steps that counts, in the unit of each task's first metric.
        limits: What each worker may use of the machine.
        snapshot_dir: Where copies of the weights lie; None = in shared memory.
        device: Where workers put the weights; None = where they are in training.
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
    workers: int = Field(default=1, ge=1)
    max_waiting: int = Field(default=1, ge=0)
    when_busy: WhenBusy = "queue"
    priorities: dict[str, int] = {}
    limit_s: float | None = Field(default=None, gt=0)
    finish_s: float | None = Field(default=None, gt=0)
    sequential: list[SequentialRule] = []
    max_eval_share: float | None = Field(default=None, gt=0, le=1)
    early_stop: Literal["off", "warn", "stop"] = "warn"
    min_gain: float = Field(default=0.0, ge=0)
    limits: Limits = Limits()
    snapshot_dir: str | None = None
    device: str | None = None
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

    def rule_of(self, task: str) -> SequentialRule | None:
        """The rule that may end evaluations of a task early."""
        return next((rule for rule in self.sequential if rule.task == task), None)
