"""What goes wrong between ranks."""

from __future__ import annotations

from midflight.errors import MidflightError


class ContainerError(MidflightError, ValueError):
    """What a rank handed over cannot travel, arrived damaged, or contradicts what another rank handed over."""


class CollectiveError(MidflightError, RuntimeError):
    """The ranks of a process group could not speak to each other: one died, or did not come within the time limit."""
