"""Preference training drives the margin on and on, long after every pair is ranked right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from midflight.analyse.detectors.base import Detector, Moment, start_level
from midflight.records import Finding, Severity

LEVEL = 5
"""Records whose median is the level."""
MARGIN = 5.0
"""Mean margin of implicit rewards, in nats times beta: the loss of a pair is then below 0.007."""
LOSS_LEFT = 0.15
"""Share of the first loss."""
REJECTED_FALL = 0.25
"""Fall of the rejected answers' log-probability, as a share of its size at the start."""


class DPORunaway(Detector):
    """Margins above 5, the loss below 15 % of its start, and rejected answers a quarter less likely."""

    severity: ClassVar[Severity] = "warn"
    needs: ClassVar[Sequence[str]] = ("margins",)
    algorithms = frozenset({"preference"})
    meaning = "The model is pushed away from rejected answers beyond what any pair asks for; chosen ones may sink, too."
    advice = "Stop at the best held-out accuracy; fewer epochs, a higher beta, a lower rate, an SFT term on the chosen."
    confirm = "Does held-out accuracy still rise? Did the log-probability of the chosen answers fall?"

    def update(self, now: Moment) -> Finding | None:
        """Looks at margin, loss and log-probabilities."""
        margin, loss, rejected = (now.past.get(name) for name in ("margins", "loss", "logps_rejected"))
        if margin is None or loss is None or rejected is None or min(loss.count, margin.count) < 2 * LEVEL:
            return None
        self.enough = True
        start = start_level(rejected)
        fallen = start - rejected.median(LEVEL)
        if margin.median(LEVEL) < MARGIN or loss.median(LEVEL) > LOSS_LEFT * start_level(loss, max):
            return None
        if fallen < REJECTED_FALL * abs(start):
            return None
        text = (
            f"margin {margin.median(LEVEL):.3g}, loss {loss.median(LEVEL):.3g}, rejected log-probability {start:.4g} → "
        )
        text += f"{start - fallen:.4g}"
        metrics = ["margins", "logps_rejected"]
        return self.finding(
            now,
            margin.step_of_newest(LEVEL),
            metrics,
            text,
            margin=margin.median(LEVEL),
            rejected=start - fallen,
            start=start,
        )
