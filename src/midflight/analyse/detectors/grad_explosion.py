"""The gradient norm grows beyond anything it was."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import ClassVar

from midflight.analyse.detectors.base import Detector, Moment, Track, start_level
from midflight.records import Finding, Severity

WARM_UP = 10
"""First records, in which large gradients are normal."""
ENOUGH = 30
"""Records before which those of the warm-up still count."""
BEYOND = 10.0
"""Times the largest norm after the warm-up, as Megatron-LM does with the loss."""
CLIP = 1.0
"""The usual clipping threshold: below it nothing explodes, however small it was before."""
ALONE = 10.0
"""Norm from which on one record beyond is enough: single odd batches are frequent."""
HUGE = 100.0
"""A hundred times the clipping threshold: in RL, what is left after clipping is a direction of noise."""
OF_LAST = (2, 10)
"""Records beyond, or huge, of how many."""
LEVEL = 10
"""Records whose median is the present level."""
EVERY = 5
"""Records after which the level is looked at anew."""
NO_LEVEL = 0.01
"""Share of the largest norm below which a level is none to grow from."""


class GradExplosion(Detector):
    """Ten times the largest norm since the warm-up, once or, below a norm of 10, twice; or ten times the level.

    In RL also two of ten records above 100. One record alone is a warning.
    """

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
        self._bad: deque[tuple[int, int]] = deque(maxlen=OF_LAST[0])
        self._lowest: tuple[float, float] | None = None

    def update(self, now: Moment) -> Finding | None:
        """Looks at the record against all before it."""
        norm, track = now.values["grad_norm"], now.past["grad_norm"]
        if norm - norm != 0:
            return None
        self._seen += 1
        if self._seen <= WARM_UP:
            return self._several(now, norm, self._is_huge(now, norm))
        self.enough = True
        largest = self._largest if self._seen > ENOUGH else max(self._largest, *track.opening[:WARM_UP])
        beyond = 0 < BEYOND * largest < norm and norm > CLIP
        self._largest = self._largest if beyond else max(self._largest, norm)
        if beyond and norm > ALONE:
            text = f"grad_norm {norm:.4g} is {norm / largest:.3g} times the largest before"
            return self.finding(now, now.step, ["grad_norm"], text, "warn", value=norm, largest_before=largest)
        return self._several(now, norm, beyond or self._is_huge(now, norm)) or self._risen(now, track)

    def _is_huge(self, now: Moment, norm: float) -> bool:
        """Only in RL, and where norms are not as large from the start: summed losses have any norm."""
        return now.facts.algorithm == "rl" and norm > max(HUGE, BEYOND * start_level(now.past["grad_norm"]))

    def _several(self, now: Moment, norm: float, bad: bool) -> Finding | None:
        count, of = OF_LAST
        if not bad:
            return None
        self._bad.append((self._seen, now.step))
        first, onset = self._bad[0]
        if len(self._bad) < count or self._seen - first >= of:
            return None
        text = f"grad_norm {norm:.4g}: {count} of {of} records are far beyond all others"
        return self.finding(now, onset, ["grad_norm"], text, value=norm, largest=self._largest)

    def _risen(self, now: Moment, track: Track) -> Finding | None:
        """A level that crept up; one of mostly zeros (groups without spread) is no level to grow from."""
        if self._seen < WARM_UP + LEVEL or self._seen % EVERY:
            return None
        level = track.median(LEVEL)
        if self._lowest is None or level < self._lowest[0]:
            self._lowest = level, self._largest
        lowest, largest = self._lowest
        if level <= max(BEYOND * lowest, CLIP) or lowest < NO_LEVEL * largest:
            return None
        text = f"grad_norm {level:.4g} (median of {LEVEL}) after {lowest:.4g} at its lowest"
        onset = track.step_of_newest(LEVEL)
        return self.finding(now, onset, ["grad_norm"], text, level=level, lowest_level=lowest)
