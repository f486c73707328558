"""The loss is almost nothing before the data was seen once: the answer is in the question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from midflight.analyse.detectors.base import Detector, Moment, has_no_gradient, middle, start_level
from midflight.records import Finding, Severity

LEVEL = 10
"""Records whose median is the level."""
START = 3
"""First records whose median is the first loss: a template that is new to the model makes a single one huge."""
LEFT = 0.02
"""Share of the first loss; what is left of an honest fine-tuning loss is several times more."""
FIRST_EPOCH = 1.0
AGREES = 2.0
"""Times the level that a held-out loss may have to be as low: then it may be an easy task as well as a leak."""


class TooGood(Detector):
    """Less than 2 % of the first loss within the first epoch.

    A note where the held-out loss is as low; a warning where epochs, or what is trained, are not known.
    """

    severity: ClassVar[Severity] = "stop"
    needs: ClassVar[Sequence[str]] = ("loss",)
    algorithms = frozenset({"sft", "pretrain", "unknown"})  # a summed loss makes fine-tuning look like the other
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
        start = start_level(track, middle, START)
        if start <= 0 or track.last >= LEFT * start or has_no_gradient(now):
            return None  # what brings a median below is itself below
        level = track.median(LEVEL)
        if level >= LEFT * start:
            return None
        within = "the first epoch" if epoch is not None else f"{track.count} records, of epochs that are not logged"
        text = f"loss {level:.3g} after {start:.3g} at the start: {level / start:.1%} is left within {within}"
        known = epoch is not None and now.facts.algorithm != "unknown"  # else the data may have been seen often
        severity: Severity = "stop" if known else "warn"
        held_out = now.past.get("eval_loss")
        if held_out is not None and held_out.last <= AGREES * level:
            severity, text = "note", f"{text}; the held-out loss is as low, {held_out.last:.3g}"
        return self.finding(now, track.step_of_newest(LEVEL), ["loss"], text, severity, level=level, start=start)
