"""A part of the reward that never gives anything, while the others do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from midflight.analyse.detectors.base import PENALTY, Detector, Moment, Streak
from midflight.records import Finding, Severity

STEPS = 60
RECORDS = 8
"""Steps and records for which the component is 0 to the digit."""


class DeadComponent(Detector):
    """A reward component of exactly 0 for 60 steps, 8 records at least, while the whole reward varies; no penalty."""

    severity: ClassVar[Severity] = "warn"
    needs: ClassVar[Sequence[str]] = ("rewards/",)
    algorithms = frozenset({"rl"})
    meaning = "The model is never paid for this; its pattern may not match anything, or the behaviour is never tried."
    advice = "Test the reward function on answers by hand; show the format in the prompt; give partial credit."
    confirm = "Does it give a positive reward to an answer that you write yourself?"

    def __init__(self) -> None:
        self._streaks: dict[str, Streak | None] = {}  # None: no component, or one that takes away
        self._began: dict[str, int] = {}

    def update(self, now: Moment) -> Finding | None:
        """Looks at each component."""
        reward = now.past.get("reward")
        for name in now.names:
            if name not in self._streaks:
                pays = not name.endswith("/std") and not PENALTY.search(name)
                self._streaks[name] = Streak() if pays else None
            streak = self._streaks[name]
            if streak is None:
                continue
            track = now.past[name]
            count = streak.hold(now.step, now.values[name] == 0)
            if count == 1:
                self._began[name] = now.step - now.span + 1
            self.enough = self.enough or track.count >= RECORDS
            if count < RECORDS or now.step - self._began[name] + 1 < STEPS:
                continue
            if track.lowest < 0 == track.highest or (reward is not None and reward.lowest == reward.highest):
                continue  # a penalty at its best, or the only component
            text = f"{now.facts.names.get(name, name)} is exactly 0 in {count} records in a row"
            return self.finding(now, streak.onset, [name], text, records=count)
        return None
