"""When a failed evaluation is tried again: after 1, 2, 4, … steps, so that a broken one does not take over training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from midflight.errors import ConfigError

LONGEST = 1024
"""Steps between two tries at most."""


class Backoff:
    """Keeps for each name how often it failed in a row, and the step at which it is tried again."""

    def __init__(self) -> None:
        self._failing: dict[str, tuple[int, int]] = {}  # failures in a row, step of the next try

    def __bool__(self) -> bool:
        return bool(self._failing)

    def failed(self, name: str, step: int) -> None:
        """It failed at a step."""
        failures = self._failing.get(name, (0, 0))[0] + 1
        self._failing[name] = failures, step + min(LONGEST, 2 ** (failures - 1))

    def succeeded(self, name: str) -> None:
        """It did not fail."""
        self._failing.pop(name, None)

    def due(self, step: int, names: Iterable[str]) -> list[str]:
        """Those of the names that failed and are to be tried again at a step."""
        return [name for name in names if name in self._failing and self._failing[name][1] <= step]

    def state_dict(self) -> dict[str, list[int]]:
        """All that a restart needs, as plain JSON."""
        return {name: list(pair) for name, pair in self._failing.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues where `state_dict` was taken.

        Raises:
            ConfigError: If it is not such a state.
        """
        try:
            self._failing = {name: (int(failures), int(step)) for name, (failures, step) in state.items()}
        except (AttributeError, TypeError, ValueError) as error:
            raise ConfigError(f"not a state of failed evaluations: {error!r}", got=state) from None
