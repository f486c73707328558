"""The loss jumps far above its level, for some records in a row or beyond all reason in one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from midflight.analyse.detectors.base import SUPERVISED, Detector, Moment, Streak, start_level
from midflight.records import Finding, Severity

LEVEL, WINDOW = 32, 128
"""Records that tell the level, and the noise about it, as in OLMo-core."""
EVERY = 8
"""Records after which they are looked at anew."""
SIGMA = 6.0
"""Robust standard deviations above the level, as in OLMo-core."""
SMALL, SMALL_OF_START = 0.1, 0.006
"""Share of the level, and of the first loss, below which nothing is a spike, however little noise there is: another
mixture of data moves the loss as much."""
IN_A_ROW = 3
"""A single odd batch makes one high record, and is no concern."""
WARM_UP = 20
BEYOND = 10.0
"""Times the largest loss ever seen, after the warm-up, as in Megatron-LM: one record is enough."""
RL_LOSS = 1.0
"""The loss of a policy gradient stays below it where advantages have unit variance; it begins at 0."""


class LossSpike(Detector):
    """Three records in a row above the level by 6 robust standard deviations and a tenth; or ten times all before."""

    severity: ClassVar[Severity] = "warn"
    needs: ClassVar[Sequence[str]] = ("loss",)
    meaning = "An update went wrong: a bad batch, or a learning rate at the edge of stability. Many spikes heal."
    advice = (
        "If the loss is not back within some hundred steps: go back to a checkpoint before the spike and leave out the "
        "batches around it (PaLM, section 5.1); lower the peak learning rate, or clip gradients closer."
    )
    confirm = "Does the gradient norm jump at the same step or just before? What is in those batches?"

    def __init__(self) -> None:
        self._largest = 0.0
        self._seen = 0
        self._streak = Streak()
        self._level: tuple[float, float] | None = None

    def update(self, now: Moment) -> Finding | None:
        """Looks at the record against the level of those before the jump."""
        loss, track = now.values["loss"], now.past["loss"]
        if loss - loss != 0:
            return None
        self._seen += 1
        largest, self._largest = self._largest, max(self._largest, abs(loss))
        if self._seen <= WARM_UP:
            return None
        self.enough = True
        supervised = now.facts.algorithm in SUPERVISED
        if largest and loss > BEYOND * largest and (supervised or loss > RL_LOSS):
            text = f"loss {loss:.4g} is {loss / largest:.3g} times the largest of {self._seen - 1} records before"
            return self.finding(now, now.step, ["loss"], text, value=loss, largest_before=largest)
        if not supervised:  # the loss of policy gradients has no level
            return None
        if self._level is None or (not self._streak.count and self._seen % EVERY == 0):
            self._level = track.median(LEVEL), track.noise(WINDOW)
        level, noise = self._level
        height = max(SIGMA * noise, SMALL * abs(level), SMALL_OF_START * abs(start_level(track)))
        if self._streak.hold(now.step, loss > level + height) < IN_A_ROW:
            return None
        text = f"loss {loss:.4g} is above {level + height:.4g} for {IN_A_ROW} records; before it was {level:.4g}"
        return self.finding(now, self._streak.onset, ["loss"], text, value=loss, level=level, noise=noise)
