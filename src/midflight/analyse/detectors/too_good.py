"""The loss is almost nothing before the data was seen once: the answer is in the question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from midflight.analyse.detectors.base import Detector, Moment, start_level
from midflight.records import Finding, Severity

LEVEL = 10
"""Records whose median is the level."""
LEFT = 0.02
"""Share of the first loss; what is left of an honest fine-tuning loss is several times more."""
FIRST_EPOCH = 1.0


class TooGood(Detector):
    """Less than 2 % of the first loss within the first epoch."""

    severity: ClassVar[Severity] = "stop"
    needs: ClassVar[Sequence[str]] = ("loss",)
    algorithms = frozenset({"sft", "pretrain"})  # a summed loss makes fine-tuning look like the other
    meaning = "A leak: the target can be read off the input, or the loss counts what is the same in every example."
    advice = "Print a batch as the model sees it, with the labels; look for the answer in the prompt, and at the mask."
    confirm = "Does the loss stay as low on items that share nothing with the training set?"

    def update(self, now: Moment) -> Finding | None:
        """Looks at the level within the first epoch; where epochs are not logged, at the first records."""
        track, epoch = now.past["loss"], now.past.get("epoch")
        if track.count < 2 * LEVEL or (epoch is not None and epoch.last > FIRST_EPOCH):
            return None
        if epoch is None and track.count > 10 * LEVEL:
            return None
        self.enough = True
        start = start_level(track, max, 3)
        if start <= 0 or track.last >= LEFT * start:  # what brings a median below is itself below
            return None
        level = track.median(LEVEL)
        if level >= LEFT * start:
            return None
        within = "the first epoch" if epoch is not None else f"{track.count} records, of epochs that are not logged"
        severity: Severity = "stop" if epoch is not None else "warn"  # the data may have been seen often
        text = f"loss {level:.3g} after {start:.3g} at the start: {level / start:.1%} is left within {within}"
        return self.finding(now, track.step_of_newest(LEVEL), ["loss"], text, severity, level=level, start=start)
