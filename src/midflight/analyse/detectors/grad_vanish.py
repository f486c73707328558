"""The gradient norm falls to nothing: the weights no longer move."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from midflight.analyse.detectors.base import Chance, Detector, Moment, at_its_top
from midflight.records import Finding, Severity

IN_A_ROW = 8
"""Records without a gradient."""
EXACT_IN_A_ROW = 12
"""The same where each is exactly 0, as it is now and then while no group of answers has spread."""
NOTHING = 1e-4
"""Share of the largest norm so far below which there is no gradient."""
LARGEST = 100.0
"""What exploded is no measure of what vanishes: beyond this the largest norm does not count."""


class GradVanish(Detector):
    """Eight records in a row have less than a ten-thousandth of the largest gradient so far; twelve, if exactly 0.

    More where such records were frequent before, and never where a reward is at its top: there all answers are right.
    """

    severity: ClassVar[Severity] = "stop"
    needs: ClassVar[Sequence[str]] = ("grad_norm",)
    meaning = "There is nothing to learn from what the model is shown, or the gradient does not reach the weights."
    advice = (
        "In RL: do groups have spread at all (frac_reward_zero_std, advantages)? Harder or easier prompts, a reward "
        "with degrees, a higher temperature. Else: is the model in train mode, are the right parameters trainable, "
        "has the loss become 0?"
    )
    confirm = "Is the norm of each layer 0 (GradientWatch), or only what is logged?"

    def __init__(self) -> None:
        self._chance = Chance(IN_A_ROW)
        self._exact = True

    def update(self, now: Moment) -> Finding | None:
        """Looks at the record."""
        track = now.past["grad_norm"]
        norm = track.last
        if norm - norm != 0:
            return None
        self.enough = self.enough or track.count >= EXACT_IN_A_ROW
        none = norm <= NOTHING * min(track.highest, LARGEST)
        self._exact = norm == 0 and (self._exact or not self._chance.count)
        sure = self._chance.hold(now.step, none, EXACT_IN_A_ROW if self._exact else IN_A_ROW)
        if not sure or at_its_top(now.past.get("reward"), IN_A_ROW):
            return None
        count = self._chance.count
        level = "exactly 0" if self._exact else f"{norm:.3g} or so"
        text = f"grad_norm is {level} in {count} records in a row; the largest was {track.highest:.3g}"
        return self.finding(now, self._chance.onset, ["grad_norm"], text, value=norm, largest=track.highest)
