"""Where copies of weights lie: in shared memory, in a folder of this process, which is removed if it is killed."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from midflight import environ
from midflight.errors import DispatchError

PREFIX = "midflight-"


def shared_folder(wanted: str | Path | None = None) -> Path:
    """A new folder, readable for this user only: in shared memory, or in the temporary folder where there is none.

    What processes of this machine have left there that were killed is removed: weights take memory.

    Args:
        wanted: Where to make it instead.

    Raises:
        DispatchError: If `wanted` is no folder.
    """
    place = Path(wanted) if wanted is not None else Path("/dev/shm")
    if wanted is not None and not place.is_dir():
        raise DispatchError(f"snapshot_dir: {place} is no folder", hint="make it, or leave snapshot_dir out")
    parent = place if place.is_dir() and os.access(place, os.W_OK) else Path(tempfile.gettempdir())
    for left in parent.glob(f"{PREFIX}*:*:*-*"):
        owner = left.name.removeprefix(PREFIX).rpartition("-")[0]
        if not environ.is_alive(owner, heartbeat=float("inf")):
            shutil.rmtree(left, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{PREFIX}{environ.owner()}-", dir=parent))
