"""The policy becomes certain of everything it says."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import ClassVar

from midflight.analyse.detectors.base import Detector, Moment, start_level
from midflight.records import Finding, Severity

START = 3
"""First records, whose mean is the start: entropy falls fastest then."""
LEVEL = 6
"""Records whose median is the present level."""
LEFT = 0.2
"""Share of the entropy at the start below which exploration is over; absolute values do not transfer."""
DEEP_LEVEL, DEEP_LEFT = 3, 0.05
"""The same for a fall that is no matter of which prompts a step has."""


class EntropyCollapse(Detector):
    """Less than a fifth of the entropy of the start is left over six records, or a twentieth over three."""

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
        if track.count < START + DEEP_LEVEL:
            return None
        self.enough = True
        start, records = start_level(track, fmean, START), DEEP_LEVEL
        if track.last >= LEFT * start:  # what brings a median below is itself below
            return None
        level = track.median(DEEP_LEVEL)
        if level >= DEEP_LEFT * start and track.count >= LEVEL:
            records, level = LEVEL, track.median(LEVEL)
        if start <= 0 or level >= (DEEP_LEFT if records == DEEP_LEVEL else LEFT) * start:
            return None
        left = "nothing" if level < 0.001 * start else f"{level / start:.1%}"
        text = f"entropy {level:.3g} after {start:.3g} at the start: {left} is left"
        return self.finding(now, track.step_of_newest(records), ["entropy"], text, level=level, start=start)
