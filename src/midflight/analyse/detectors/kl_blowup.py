"""The policy runs away from its reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from midflight.analyse.detectors.base import Detector, Moment, Streak
from midflight.records import Finding, Severity

NATS = 1.0
"""Mean KL divergence a token, from which on few tokens are the reference's; healthy runs stay below 0.2."""
SUMMED = {"objective/kl": 50.0}
"""Logged names whose value is a sum over the answer, as in TRL's PPO, with the bound that takes the place of it."""
IN_A_ROW = 3
"""One token can lift the mean of a record, since estimates of the divergence have heavy tails."""


class KLBlowup(Detector):
    """More than one nat a token in three records in a row."""

    severity: ClassVar[Severity] = "stop"
    needs: ClassVar[Sequence[str]] = ("kl",)
    algorithms = frozenset({"rl"})
    meaning = "The model is no longer the one that was trained before; text falls apart, or a reward is exploited."
    advice = "Lower the learning rate (it is often ten times too high), raise beta, clip ratios closer; go back."
    confirm = "Read answers of these steps. Is the reference the policy's own start?"

    def __init__(self) -> None:
        self._streak = Streak()

    def update(self, now: Moment) -> Finding | None:
        """Looks at the record."""
        kl = now.values["kl"]
        self.enough = self.enough or now.past["kl"].count >= IN_A_ROW
        name = now.facts.names.get("kl", "kl")
        bound = SUMMED.get(name, NATS)
        if self._streak.hold(now.step, kl > bound) < IN_A_ROW:
            return None
        text = (
            f"kl {kl:.3g} nats {'an answer' if name in SUMMED else 'a token'}, above {bound:g} for {IN_A_ROW} records"
        )
        return self.finding(now, self._streak.onset, ["kl"], text, value=kl, bound=bound)
