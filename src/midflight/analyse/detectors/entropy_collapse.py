"""The policy becomes certain of everything it says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from midflight.analyse.detectors.base import Detector, Moment, start_level
from midflight.records import Finding, Severity

LEVEL = 3
"""Records whose median is the present level."""
LEFT = 0.2
"""Share of the entropy at the start below which exploration is over; absolute values do not transfer."""


class EntropyCollapse(Detector):
    """Less than a fifth of the entropy of the start is left."""

    severity: ClassVar[Severity] = "stop"
    needs: ClassVar[Sequence[str]] = ("entropy",)
    algorithms = frozenset({"rl"})  # in supervised training entropy falls with the loss
    meaning = "Answers to a prompt are all the same: no spread, no exploration, and gains end (arXiv:2505.22617)."
    advice = (
        "Raise the upper clip (DAPO's 0.28), the temperature or the entropy bonus; lower the learning rate; go back."
    )
    confirm = "How many distinct answers are there in a group? Does the held-out score still rise?"

    def update(self, now: Moment) -> Finding | None:
        """Looks at the level against the start's."""
        track = now.past["entropy"]
        if track.count < 2 * LEVEL:
            return None
        self.enough = True
        start, level = start_level(track, max, LEVEL), track.median(LEVEL)
        if start <= 0 or level >= LEFT * start:
            return None
        text = f"entropy {level:.3g} after {start:.3g} at the start: {level / start:.1%} is left"
        return self.finding(now, track.step_of_newest(LEVEL), ["entropy"], text, level=level, start=start)
