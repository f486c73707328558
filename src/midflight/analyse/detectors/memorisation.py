"""The training loss steps down where the data begins anew."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from midflight.analyse.detectors.base import Detector, Moment
from midflight.records import Finding, Severity

SIDE = (3, 16)
"""Records before and after a border that are compared, at least and at most."""
SIGMA = 4.0
"""Standard errors of the difference."""
FALL = 0.04
"""Fall as a share of the loss before."""


class Memorisation(Detector):
    """After an epoch's border the loss is lower than before it by 4 standard errors and 4 %."""

    severity: ClassVar[Severity] = "note"
    needs: ClassVar[Sequence[str]] = ("loss",)
    algorithms = frozenset({"pretrain", "sft", "reward_model", "preference"})
    meaning = "Examples are recognised: the training loss says less and less about the task from here on."
    advice = "Judge by held-out data alone; one epoch more may still help it, or not."
    confirm = "Does the held-out loss step down, too?"

    def __init__(self) -> None:
        self._epoch = 0
        self._border = 0
        self._before: list[float] = []
        self._after = 0

    def update(self, now: Moment) -> Finding | None:
        """Looks at both sides of the newest border."""
        epoch, track = now.past.get("epoch"), now.past["loss"]
        if epoch is None or not epoch.count:
            return None
        if int(epoch.last) > self._epoch:
            self._epoch, self._border, self._after = int(epoch.last), now.step, 0
            self._before = track.newest(SIDE[1] + 1)[:-1]
        if not self._before or self._after > SIDE[1]:
            return None
        self._after += 1
        if len(self._before) < SIDE[0] or self._after < SIDE[0]:
            return None
        self.enough = True
        after, before = track.newest(self._after), self._before
        means = [sum(side) / len(side) for side in (before, after)]
        variances = [
            sum((value - mean) ** 2 for value in side) / max(1, len(side) - 1) / len(side)
            for side, mean in zip((before, after), means, strict=True)
        ]
        error, fall = math.sqrt(sum(variances)), means[0] - means[1]
        if fall <= SIGMA * error or fall < FALL * abs(means[0]):
            return None
        text = f"loss {means[0]:.4g} before epoch {self._epoch} begins, {means[1]:.4g} after"
        return self.finding(now, self._border, ["loss"], text, before=means[0], after=means[1], stderr=error)
