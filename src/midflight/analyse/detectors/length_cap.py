"""Completions are cut at their limit: the model never gets to its answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from midflight.analyse.detectors.base import Detector, Moment
from midflight.records import Finding, Severity

SHARE = 0.6
"""Share of completions that are cut, over some records, from which on most of the batch is noise."""
RECORDS = 3
SURE_SHARE = 0.8
"""The same for a single record that is a mean over many steps."""
SURE_SPAN = 10
AT_THE_LIMIT = (3, 10)
"""Records, of how many, whose mean length is one and the same whole number, the largest there was: the limit."""
NEAR = 0.9
"""Share of the limit that mean lengths reach."""


class LengthCap(Detector):
    """Most completions are cut, or mean lengths stand at the limit."""

    severity: ClassVar[Severity] = "warn"
    needs: ClassVar[Sequence[str]] = ("clipped_ratio", "completion_length")
    algorithms = frozenset({"rl"})
    meaning = "A cut answer gets no reward whatever it would have said: training rewards brevity, or nothing."
    advice = "Raise max_completion_length, mask cut answers, or ask for shorter ones; check that the model can end."
    confirm = "What do the answers that ended score? Does the model ever write its end token?"

    def update(self, now: Moment) -> Finding | None:
        """Looks at the share that was cut, or at lengths where that is not logged."""
        return self._cut(now) if "clipped_ratio" in now.values else self._at_limit(now)

    def _cut(self, now: Moment) -> Finding | None:
        track = now.past["clipped_ratio"]
        sure = now.span >= SURE_SPAN and track.last >= SURE_SHARE
        if track.count < RECORDS and not sure:
            return None
        self.enough = True
        newest = track.newest(RECORDS)
        mean = sum(newest) / len(newest)
        if mean < SHARE and not sure:
            return None
        text = f"{track.last if sure else mean:.0%} of the completions are cut at their limit"
        onset = now.step if sure else track.step_of_newest(RECORDS)
        return self.finding(now, onset, ["clipped_ratio"], text, share=mean)

    def _at_limit(self, now: Moment) -> Finding | None:
        track = now.past.get("completion_length")
        if "completion_length" not in now.values or track is None or "clipped_ratio" in now.past:
            return None
        if track.count < RECORDS:
            return None
        self.enough = True
        limit, newest = now.facts.length_limit or track.highest, track.newest(AT_THE_LIMIT[1])
        hits = newest.count(limit)
        if limit != int(limit) or hits < AT_THE_LIMIT[0] or track.median(2 * RECORDS) < NEAR * limit:
            return None
        text = f"mean lengths stand at {limit:g} tokens in {hits} of {len(newest)} records"
        onset = track.step_of_newest(2 * RECORDS)
        return self.finding(now, onset, ["completion_length"], text, limit=limit, level=track.median(2 * RECORDS))
