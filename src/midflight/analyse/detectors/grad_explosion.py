"""The gradient norm grows beyond anything it was."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import ClassVar

from midflight.analyse.detectors.base import Detector, Moment
from midflight.records import Finding, Severity

WARM_UP = 10
"""First records, in which large gradients are normal."""
BEYOND = 10.0
"""Times the largest norm after the warm-up, as Megatron-LM does with the loss: one record is enough."""
HUGE = 100.0
"""A hundred times the usual clipping threshold of 1: what is left after clipping is a direction of noise."""
HUGE_OF_LAST = (2, 10)
"""Records that are huge, of how many, in RL; summed losses of other kinds may have such norms."""
LEVEL = 10
"""Records whose median is the present level."""


class GradExplosion(Detector):
    """Ten times the largest norm so far; or, in RL, two of ten records above 100; or ten times the level."""

    severity: ClassVar[Severity] = "stop"
    needs: ClassVar[Sequence[str]] = ("grad_norm",)
    meaning = "Updates are as large as clipping lets them be, in directions that single examples set."
    advice = (
        "Lower the learning rate, clip at 1 or below, look at the batches of these steps (very short or very long "
        "answers, one example that dominates); in RL bound the ratio and the advantages."
    )
    confirm = "Which layer is it (GradientWatch)? Does the loss, the reward or the KL move at the same steps?"

    def __init__(self) -> None:
        self._seen = 0
        self._largest = 0.0
        self._huge: deque[int] = deque(maxlen=HUGE_OF_LAST[0])
        self._lowest_level = float("inf")

    def update(self, now: Moment) -> Finding | None:
        """Looks at the record against all before it."""
        norm, track = now.values["grad_norm"], now.past["grad_norm"]
        if norm - norm != 0:
            return None
        self._seen += 1
        largest, self._largest = self._largest, max(self._largest, norm)
        if self._seen > WARM_UP:
            self.enough = True
            if largest and norm > BEYOND * largest:
                text = (
                    f"grad_norm {norm:.4g} is {norm / largest:.3g} times the largest of {self._seen - 1} records before"
                )
                return self.finding(now, now.step, ["grad_norm"], text, value=norm, largest_before=largest)
        if norm >= HUGE and now.facts.algorithm == "rl":
            return self._several_huge(now, norm)
        return self._risen(now, track.median(LEVEL)) if self._seen >= 4 * LEVEL else None

    def _several_huge(self, now: Moment, norm: float) -> Finding | None:
        self._huge.append(self._seen)
        count, of = HUGE_OF_LAST
        if len(self._huge) < count or self._seen - self._huge[0] >= of:
            return None
        onset = now.past["grad_norm"].step_of_newest(self._seen - self._huge[0] + 1)
        text = f"grad_norm {norm:.4g}: {count} of {of} records are above {HUGE:g}"
        return self.finding(now, onset, ["grad_norm"], text, value=norm, bound=HUGE)

    def _risen(self, now: Moment, level: float) -> Finding | None:
        """A level that crept up; one of mostly zeros (groups without spread) is no level to grow from."""
        reference, self._lowest_level = self._lowest_level, min(self._lowest_level, level)
        if level <= BEYOND * reference or reference < 0.01 * self._largest:
            return None
        text = f"grad_norm {level:.4g} (median of {LEVEL}) after {reference:.4g} at its lowest"
        onset = now.past["grad_norm"].step_of_newest(LEVEL)
        return self.finding(now, onset, ["grad_norm"], text, level=level, lowest_level=reference)
