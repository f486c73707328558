"""Whether a run still goes on."""

from __future__ import annotations

from typing import Literal, TypeAlias

from midflight import environ
from midflight.store import Pulse, Store

State: TypeAlias = Literal["running", "finished", "failed", "interrupted", "lost"]


def state_of(store: Store, pulse: Pulse) -> State:
    """The state of a run: `lost` if its process is gone and has said nothing."""
    if pulse.status != "running" or environ.is_alive(store.owner(pulse.run), pulse.heartbeat):
        return pulse.status
    is_evaluated = pulse.num_evaluations and not pulse.num_series and not pulse.num_unfinished
    return "finished" if is_evaluated else "lost"  # nothing was trained, and what was to be evaluated is done
