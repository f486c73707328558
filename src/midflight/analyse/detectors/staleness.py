"""What is trained on was sampled by a policy too old, or by an engine that computes something else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from midflight.analyse.detectors.base import Detector, Moment, Streak
from midflight.records import Finding, Severity

RATIO = 2.0
"""Mean importance ratio, or its inverse, beyond which trainer and sampler are different models (TRL's PPO guide)."""
LAG = 8.0
"""Versions between the policy that sampled and the one that is trained; AReaL and TRL allow 4 by default."""
IN_A_ROW = 5


class Staleness(Detector):
    """For five records a mean ratio outside 1/2 to 2, or samples more than 8 versions old."""

    severity: ClassVar[Severity] = "warn"
    needs: ClassVar[Sequence[str]] = ("importance_ratio", "version_lag")
    algorithms = frozenset({"rl"})
    meaning = "The gradient is that of another policy than the one it is applied to."
    advice = "Bound the lag, weight with truncated ratios, mask tokens that differ; compare both engines."
    confirm = "Is the ratio 1 at lag 0? If not, sampler and trainer disagree (precision, kernels, chat template)."

    def __init__(self) -> None:
        self._ratio, self._lag = Streak(), Streak()

    def update(self, now: Moment) -> Finding | None:
        """Looks at ratio and lag."""
        self.enough = True
        ratio, lag = now.values.get("importance_ratio"), now.values.get("version_lag")
        if ratio is not None:
            off = not 1 / RATIO <= ratio <= RATIO
            if self._ratio.hold(now.step, off) >= IN_A_ROW:
                text = f"mean importance ratio {ratio:.3g} for {IN_A_ROW} records"
                return self.finding(now, self._ratio.onset, ["importance_ratio"], text, value=ratio)
        if lag is not None and self._lag.hold(now.step, lag > LAG) >= IN_A_ROW:
            text = f"samples are {lag:.3g} versions old for {IN_A_ROW} records"
            return self.finding(now, self._lag.onset, ["version_lag"], text, value=lag)
        return None
