"""The gradient norm falls to nothing: the weights no longer move."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from midflight.analyse.detectors.base import Detector, Moment
from midflight.records import Finding, Severity

OF_LAST = (10, 12)
"""Records without a gradient, of how many."""
EXACT_OF_LAST = (14, 16)
"""The same where each is exactly 0, as it is now and then while no group of answers has spread."""
NOTHING = 1e-4
"""Share of the largest norm so far below which there is no gradient."""


class GradVanish(Detector):
    """Ten of twelve records have less than a ten-thousandth of the largest gradient so far; exact zeros, 14 of 16."""

    severity: ClassVar[Severity] = "stop"
    needs: ClassVar[Sequence[str]] = ("grad_norm",)
    meaning = "There is nothing to learn from what the model is shown, or the gradient does not reach the weights."
    advice = (
        "In RL: do groups have spread at all (frac_reward_zero_std, advantages)? Harder or easier prompts, a reward "
        "with degrees, a higher temperature. Else: is the model in train mode, are the right parameters trainable, "
        "has the loss become 0?"
    )
    confirm = "Is the norm of each layer 0 (GradientWatch), or only what is logged?"

    def update(self, now: Moment) -> Finding | None:
        """Looks at the last records."""
        track = now.past["grad_norm"]
        if track.count < OF_LAST[1]:
            return None
        self.enough = True
        bound = NOTHING * track.highest
        if track.last > bound:
            return None
        exact = not any(0 < norm <= bound for norm in track.newest(OF_LAST[1]))
        count, of = EXACT_OF_LAST if exact else OF_LAST
        none = [norm <= bound for norm in track.newest(of)]
        if sum(none) < count:
            return None
        onset = list(track.steps)[-of:][none.index(True)]
        text = (
            f"grad_norm is {track.last:.3g} or so in {sum(none)} of {of} records; the largest was {track.highest:.3g}"
        )
        return self.finding(now, onset, ["grad_norm"], text, value=track.last, largest=track.highest)
