"""NaN or infinity where training needs a number."""

from __future__ import annotations

import math
from typing import ClassVar

from midflight.analyse.detectors.base import Detector, Moment, Streak
from midflight.records import Finding, Severity

WARM_UP = 20
"""First records in which a loss scaler still looks for its scale: gradients that are not finite are skipped steps."""
IN_A_ROW, WARM_UP_IN_A_ROW = 3, 10
"""Records in a row after which a gradient that is not finite is no skipped step any more; and in the warm-up."""


class NonFinite(Detector):
    """A loss, reward or divergence that is not finite, at once; a gradient is a note first, and more if it stays so."""

    severity: ClassVar[Severity] = "stop"
    needs = (
        "loss", "policy_loss", "value_loss", "grad_norm", "kl", "entropy", "reward", "eval_loss", "logps_chosen",
        "logps_rejected",
    )  # fmt: skip
    meaning = "A number overflowed or was never one; from here on every weight may be NaN."
    advice = (
        "Go back to the checkpoint before it; look at the batch of that step; lower the learning rate, clip gradients, "
        "use bf16 instead of fp16, and let the logger not replace NaN (logging_nan_inf_filter=False)."
    )
    confirm = "Are all parameters finite at the last checkpoint? Does the step repeat with the same batch?"

    def __init__(self) -> None:
        self._records = 0
        self._skipped = Streak()

    def update(self, now: Moment) -> Finding | None:
        """Looks at each value of the record."""
        self.enough = True
        self._records += 1
        values, total = now.values, 0.0
        for name in now.names:
            total += values[name]
        if total - total == 0:  # a sum is finite only if all are
            if "grad_norm" in now.names:
                self._skipped.count = 0
            return None
        broken = [name for name in now.names if not math.isfinite(values[name])]
        if not broken:
            return None
        return self._said(now, broken)

    def _said(self, now: Moment, broken: list[str]) -> Finding | None:
        count = self._skipped.hold(now.step, "grad_norm" in broken)
        text = ", ".join(f"{name} is {now.values[name]:g}" for name in broken)
        if broken != ["grad_norm"]:
            return self.finding(now, now.step, broken, text, value=now.values[broken[0]])
        norm = now.values["grad_norm"]
        early = self._records <= WARM_UP
        if count >= (WARM_UP_IN_A_ROW if early else IN_A_ROW):
            text += f" for {count} records"
            return self.finding(now, self._skipped.onset, broken, text, value=norm, records=count)
        if early:
            return None
        text += ": the step is skipped if the optimiser checks"
        return self.finding(now, now.step, broken, text, "note", value=norm)
