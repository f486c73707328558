"""The held-out loss rises while the training loss goes on falling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from midflight.analyse.detectors.base import SUPERVISED, Detector, Moment
from midflight.analyse.learning_curve import JUDGES
from midflight.records import Finding, Severity

EVALS = 2
"""Evaluations that are worse than the best, one after the other."""
RISE = 0.03
"""Rise over the best; evaluations differ by less without meaning anything."""
TRAIN_LEVEL = 5
"""Records of training loss whose median is its level."""
HALVED = 0.5
"""Share of the training loss at the best evaluation, at which a smaller rise tells enough."""
SMALL_RISE = 0.01
HELD = 0.05
"""Share of the range of a score by which it may be below that at the best loss, and still holds."""
SCORES = ("eval_accuracy", "eval_score", "eval_error", "heldout/")
"""What a run is for, where it is logged; the loss stands for it only."""


class Overfit(Detector):
    """Two evaluations worse than the best, by 3 %; or by 1 % with the training loss halved since.

    A note while a held-out score is as good as at the best loss, or better.
    """

    severity: ClassVar[Severity] = "warn"
    needs: ClassVar[Sequence[str]] = ("eval_loss", *SCORES)
    algorithms = SUPERVISED
    meaning = "What is learned now is the training set, not the task; the best checkpoint lies behind."
    advice = "Go back to the best checkpoint; fewer epochs, more data, a lower learning rate, regularisation."
    confirm = "Does accuracy on held-out items fall too, or only its calibration (loss)?"

    def __init__(self) -> None:
        self._best = math.inf
        self._best_step = 0
        self._train_at_best = math.nan
        self._num_worse, self._before = 0, math.nan
        self._at_best: dict[str, float] = {}

    def update(self, now: Moment) -> Finding | None:
        """Looks at the newest evaluation against the best."""
        for name in now.names:  # a score that is first evaluated after the best loss, or beside it
            if name != "eval_loss" and (name not in self._at_best or now.step == self._best_step):
                self._at_best[name] = now.values[name]
        loss = now.values.get("eval_loss", math.nan)
        if loss - loss != 0:
            return None
        if loss < self._best:
            self._best, self._best_step, self._train_at_best = loss, now.step, self._level(now)
            self._at_best = {name: now.past[name].last for name in self._at_best}
            self._num_worse = 0
            return None
        before, self._before = self._before, loss
        self._num_worse += 1
        if self._num_worse < EVALS:
            return None
        self.enough = True
        rise = (loss - self._best) / max(abs(self._best), 1e-12)
        if loss < before or rise < SMALL_RISE:
            return None
        level = self._level(now)
        falling = not level >= self._train_at_best  # unknown counts as falling
        if not falling or rise < (SMALL_RISE if level < HALVED * self._train_at_best else RISE):
            return None
        return self._found(now, loss, rise)

    def _level(self, now: Moment) -> float:
        train = now.past.get("loss")
        return train.median(TRAIN_LEVEL) if train is not None and train.count else math.nan

    def _found(self, now: Moment, loss: float, rise: float) -> Finding:
        text = f"eval_loss {loss:.4g} after {self._best:.4g} at step {self._best_step}: up by {rise:.1%}"
        metrics, severity = ["eval_loss", *(["loss"] if "loss" in now.past else [])], self.severity
        held = next((name for name in sorted(self._at_best) if self._holds(now, name)), None)
        if held is not None:
            severity, metrics = "note", [*metrics, held]
            ours = now.facts.names.get(held, held.removeprefix("heldout/"))
            text += f"; {ours} is {now.past[held].last:.4g} after {self._at_best[held]:.4g} there, and does not suffer"
        evidence = {"value": loss, "best": self._best, "best_step": self._best_step}
        return self.finding(now, self._best_step, metrics, text, severity, **evidence)

    def _holds(self, now: Moment, name: str) -> bool:
        """Whether a score that has moved is no worse than at the best loss."""
        track, then = now.past[name], self._at_best[name]
        gain = track.last - then if JUDGES.get(name, True) else then - track.last
        return track.highest > track.lowest and gain >= -HELD * (track.highest - track.lowest)
