"""NaN or infinity where training needs a number."""

from __future__ import annotations

import math
from typing import ClassVar

from midflight.analyse.detectors.base import Detector, Moment
from midflight.records import Finding, Severity

WARM_UP = 20
"""First records in which a loss scaler still looks for its scale: infinite gradients there are skipped steps."""
IN_A_ROW = 3
"""Records in a row after which a gradient that is not finite is no skipped step any more."""


class NonFinite(Detector):
    """A loss, reward or divergence that is not finite at once; a gradient, if it stays so."""

    severity: ClassVar[Severity] = "stop"
    needs = ("loss", "grad_norm", "kl", "entropy", "reward", "eval_loss", "logps_chosen", "logps_rejected")
    meaning = "A number overflowed or was never one; from here on every weight may be NaN."
    advice = (
        "Go back to the checkpoint before it; look at the batch of that step; lower the learning rate, clip gradients, "
        "use bf16 instead of fp16, and let the logger not replace NaN (logging_nan_inf_filter=False)."
    )
    confirm = "Are all parameters finite at the last checkpoint? Does the step repeat with the same batch?"

    def __init__(self) -> None:
        self._records = 0
        self._skipped = 0

    def update(self, now: Moment) -> Finding | None:
        """Looks at each value of the record."""
        self.enough = True
        self._records += 1
        broken = [name for name in self.needs if not math.isfinite(now.values.get(name, 0.0))]
        if broken == ["grad_norm"]:
            if self._records <= WARM_UP:
                return None
            self._skipped += 1
            severity: Severity = "stop" if self._skipped >= IN_A_ROW else "note"
            text = f"grad_norm is {now.values['grad_norm']:g}: the step is skipped if the optimiser checks"
            return self.finding(now, now.step, broken, text, severity, value=now.values["grad_norm"])
        if not broken:
            self._skipped = 0
            return None
        text = ", ".join(f"{name} is {now.values[name]:g}" for name in broken)
        return self.finding(now, now.step, broken, text, value=now.values[broken[0]])
