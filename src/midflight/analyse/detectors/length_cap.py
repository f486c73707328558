"""Completions are cut at their limit: the model never gets to its answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from midflight.analyse.detectors.base import Detector, Moment
from midflight.records import Finding, Severity

SHARE = 0.6
"""Share of completions that are cut, over some records, from which on most of the batch is noise."""
RECORDS = 5
SURE_SHARE, SURE_RECORDS = 0.8, 3
"""The same over fewer records."""
SURE_SPAN = 10
"""Steps whose mean a record is, so that it is enough alone."""
AT_THE_LIMIT = (3, 10)
"""Records, of how many, whose mean length is one and the same whole number, the largest there was: the limit."""
SHORTEST = 16.0
"""Tokens; a shorter whole number may be the form of the answer."""
LEVEL = 6
"""Records whose median is the level of mean lengths."""
NEAR = 0.9
"""Share of the limit that mean lengths reach."""


class LengthCap(Detector):
    """Six of ten completions are cut over five records, or eight over three; or mean lengths stand at the limit."""

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
        fewest = 1 if now.span >= SURE_SPAN else SURE_RECORDS
        self.enough = self.enough or track.count >= fewest
        for records, bound in ((fewest, SURE_SHARE), (RECORDS, SHARE)):
            newest = track.newest(records)
            mean = sum(newest) / len(newest)
            if len(newest) == records and mean >= bound:
                text = f"{mean:.0%} of the completions are cut at their limit"
                return self.finding(now, track.step_of_newest(records), ["clipped_ratio"], text, share=mean)
        return None

    def _at_limit(self, now: Moment) -> Finding | None:
        track = now.past.get("completion_length")
        if "completion_length" not in now.values or track is None or "clipped_ratio" in now.past:
            return None
        if track.count < AT_THE_LIMIT[0]:
            return None
        self.enough = True
        limit, newest = now.facts.length_limit or track.highest, track.newest(AT_THE_LIMIT[1])
        hits = newest.count(limit)
        if limit < SHORTEST or limit != int(limit) or hits < AT_THE_LIMIT[0] or track.median(LEVEL) < NEAR * limit:
            return None
        text = f"mean lengths stand at {limit:g} tokens in {hits} of {len(newest)} records"
        onset = track.step_of_newest(LEVEL)
        return self.finding(now, onset, ["completion_length"], text, limit=limit, level=track.median(LEVEL))
