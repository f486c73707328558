"""Training becomes slower and stays so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from midflight.analyse.detectors.base import SUPERVISED, Detector, Moment, Streak
from midflight.records import Finding, Severity

LEVEL = 10
"""Records whose median is the present speed."""
BEFORE = 64
"""Records that tell what is normal."""
LEFT = 0.7
"""Share of the normal speed."""
IN_A_ROW = 10


class ThroughputDrop(Detector):
    """For ten records less than 70 % of the speed that was normal before."""

    severity: ClassVar[Severity] = "note"
    needs: ClassVar[Sequence[str]] = ("throughput",)
    algorithms = SUPERVISED  # in RL answers change their length
    meaning = "A slow node, a hot accelerator, a data loader that cannot keep up, memory that is nearly full."
    advice = "Look at step times rank by rank, clocks and temperatures, the loader's queue, garbage collection."
    confirm = "Is one rank slower than the others, or all?"

    def __init__(self) -> None:
        self._streak = Streak()
        self._normal = 0.0

    def update(self, now: Moment) -> Finding | None:
        """Looks at the speed against what was normal before the drop."""
        track = now.past["throughput"]
        if track.count < BEFORE:
            return None
        self.enough = True
        if not self._streak.count:
            self._normal, _ = track.centre_and_spread(BEFORE)
        if not self._streak.count and track.last >= LEFT * self._normal:
            return None
        level = track.median(LEVEL)
        if self._streak.hold(now.step, level < LEFT * self._normal) < IN_A_ROW:
            return None
        text = f"{level:.4g} tokens/s after {self._normal:.4g}: {level / self._normal:.0%}"
        return self.finding(now, self._streak.onset, ["throughput"], text, level=level, normal=self._normal)
