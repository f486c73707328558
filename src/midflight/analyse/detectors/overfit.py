"""The held-out loss rises while the training loss goes on falling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from midflight.analyse.detectors.base import SUPERVISED, Detector, Moment
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


class Overfit(Detector):
    """Two evaluations worse than the best, by 3 %; or by 1 % with the training loss halved since."""

    severity: ClassVar[Severity] = "warn"
    needs: ClassVar[Sequence[str]] = ("eval_loss",)
    algorithms = SUPERVISED
    meaning = "What is learned now is the training set, not the task; the best checkpoint lies behind."
    advice = "Go back to the best checkpoint; fewer epochs, more data, a lower learning rate, regularisation."
    confirm = "Does accuracy on held-out items fall too, or only its calibration (loss)?"

    def __init__(self) -> None:
        self._best = math.inf
        self._best_step = 0
        self._train_at_best = math.nan
        self._worse: list[float] = []

    def update(self, now: Moment) -> Finding | None:
        """Looks at the newest evaluation against the best."""
        loss, train = now.values["eval_loss"], now.past.get("loss")
        if loss - loss != 0:
            return None
        level = train.median(TRAIN_LEVEL) if train is not None and train.count else math.nan
        if loss < self._best:
            self._best, self._best_step, self._train_at_best, self._worse = loss, now.step, level, []
            return None
        self._worse.append(loss)
        if len(self._worse) < EVALS:
            return None
        self.enough = True
        rise = (loss - self._best) / max(abs(self._best), 1e-12)
        falling = not level >= self._train_at_best  # unknown counts as falling
        halved = level < HALVED * self._train_at_best
        if self._worse[-1] < self._worse[-2] or not falling or rise < (SMALL_RISE if halved else RISE):
            return None
        text = f"eval_loss {loss:.4g} after {self._best:.4g} at step {self._best_step}: up by {rise:.1%}"
        metrics = ["eval_loss", *(["loss"] if train is not None else [])]
        return self.finding(now, self._best_step, metrics, text, value=loss, best=self._best, best_step=self._best_step)
