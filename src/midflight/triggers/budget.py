"""What share of wall time evaluations may take."""

from __future__ import annotations

import time
from collections.abc import Callable


class Budget:
    """Says whether there is time for another evaluation that takes as long as the last one.

    Args:
        max_share: Share of wall time that evaluations may take; None = any.
        clock: Monotonic clock, in seconds.
    """

    def __init__(self, max_share: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self.max_share, self._clock = max_share, clock
        self._began = clock()
        self.spent_s = 0.0
        """Seconds that evaluations took."""
        self._last_s = 0.0

    def spend(self, seconds: float) -> None:
        """An evaluation took so long."""
        self.spent_s += seconds
        self._last_s = seconds

    @property
    def share(self) -> float:
        """Share of wall time that evaluations took so far."""
        return self.spent_s / max(1e-9, self._clock() - self._began)

    def allows(self) -> bool:
        """Whether the share stays within its ceiling with one more evaluation."""
        if self.max_share is None:
            return True
        return self.spent_s + self._last_s <= self.max_share * (self._clock() - self._began)
