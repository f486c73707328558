"""The training loss steps down where the data begins anew, or is less than any text leaves open."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import ClassVar, TypeAlias

from midflight.analyse.detectors.base import SUPERVISED, Detector, Moment, has_no_gradient, start_level
from midflight.records import Finding, Severity

Points: TypeAlias = Sequence[tuple[int, float]]
"""Steps and values."""

SIDE = (4, 16)
"""Records before and after a border that are compared, as many on either side, at least and at most."""
SIGMA = 4.0
"""Standard errors of the difference of both sides."""
STEP = 0.04
"""Step beyond the slope of both sides, as a share of the loss before."""
LEVEL = 5
"""Records whose median is the level."""
BY_HEART = 0.04
"""Share of the loss of knowing nothing: text leaves 15 to 30 % of it open to the best of models, and code 6."""


class Memorisation(Detector):
    """After an epoch's border the loss is lower by 4 standard errors, and by 4 % more than it was falling anyway.

    Or, in pre-training, less than 4 % of the first loss is left.
    """

    severity: ClassVar[Severity] = "note"
    needs: ClassVar[Sequence[str]] = ("loss",)
    algorithms = SUPERVISED
    meaning = "Examples are recognised: the training loss says less and less about the task from here on."
    advice = "Judge by held-out data alone; one epoch more may still help it, or not."
    confirm = "Does the held-out loss step down, too?"

    def __init__(self) -> None:
        self._epoch = 0
        self._border = 0
        self._recent: deque[tuple[int, float]] = deque(maxlen=SIDE[1])
        self._before: list[tuple[int, float]] = []
        self._after: list[tuple[int, float]] = []

    def update(self, now: Moment) -> Finding | None:
        """Looks at both sides of the newest border; in pre-training at what is left of the loss."""
        loss = now.values["loss"]
        if loss - loss != 0 or loss == 0 or has_no_gradient(now):
            return None
        epoch = now.past.get("epoch")
        if now.facts.algorithm == "pretrain" and (epoch is None or epoch.last > 1):  # nothing is repeated before
            found = self._by_heart(now)
            if found is not None:
                return found
        if epoch is None or not epoch.count:
            return None
        if epoch.last >= self._epoch + 1:
            self._epoch, self._border = int(epoch.last), now.step
            self._before, self._after = list(self._recent), []
        self._recent.append((now.step, loss))
        if not self._before or len(self._after) == SIDE[1]:
            return None
        self._after.append((now.step, loss))
        count = len(self._after)
        if not SIDE[0] <= count <= len(self._before):
            return None
        self.enough = True
        before, after, distance = _step(self._before[-count:], self._after, self._border)
        if distance <= SIGMA or before - after < STEP * abs(before):
            return None
        text = f"loss {before:.4g} before epoch {self._epoch} begins, {after:.4g} after"
        return self.finding(now, self._border, ["loss"], text, before=before, after=after)

    def _by_heart(self, now: Moment) -> Finding | None:
        track = now.past["loss"]
        if track.count < 2 * LEVEL:
            return None
        start = start_level(track, max, 3)
        if track.last >= BY_HEART * start:  # what brings a median below is itself below
            return None
        level = track.median(LEVEL)
        if level >= BY_HEART * start:
            return None
        text = f"loss {level:.3g} after {start:.3g} at the start: less than any text leaves open that is seen once"
        return self.finding(now, track.step_of_newest(LEVEL), ["loss"], text, level=level, start=start)


def _step(before: Points, after: Points, at: int) -> tuple[float, float, float]:
    """Two lines of one slope, by least squares: where the first ends, where the second begins; how far means differ.

    The last is in standard errors.
    A slope upwards counts as none, so that no step is larger than what is seen.
    """
    xs = [sum(step for step, _ in side) / len(side) for side in (before, after)]
    ys = [sum(value for _, value in side) / len(side) for side in (before, after)]
    sxx = sxy = syy = 0.0
    for side, x, y in zip((before, after), xs, ys, strict=True):
        for step, value in side:
            sxx, sxy, syy = sxx + (step - x) ** 2, sxy + (step - x) * (value - y), syy + (value - y) ** 2
    slope = min(0.0, sxy / sxx)
    error = math.sqrt(syy / (len(before) - 1) / len(before))  # as many on either side
    distance = (ys[0] - ys[1]) / error if error else math.inf
    return ys[0] + slope * (at - xs[0]), ys[1] + slope * (at - xs[1]), distance
