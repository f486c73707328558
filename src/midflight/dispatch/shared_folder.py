"""Where copies of weights lie: in shared memory, in a folder of this process; and what killed processes left there."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from midflight import environ
from midflight.dispatch.seal import seals
from midflight.errors import DispatchError

PREFIX = "midflight-"
KEEP_S = 3600.0
"""Seconds that whole copies of a killed process are kept for the one that goes on with its run."""


def shared_folder(wanted: str | Path | None = None) -> Path:
    """A new folder, readable for this user only: in shared memory, or in the temporary folder where there is none.

    What processes of this machine have left there that were killed is removed, since weights take memory; whole copies
    only after a while.

    Args:
        wanted: Where to make it instead.

    Raises:
        DispatchError: If `wanted` is no folder.
    """
    place = Path(wanted) if wanted is not None else Path("/dev/shm")
    if wanted is not None and not place.is_dir():
        raise DispatchError(f"snapshot_dir: {place} is no folder", hint="make it, or leave snapshot_dir out")
    parent = place if place.is_dir() and os.access(place, os.W_OK) else Path(tempfile.gettempdir())
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{environ.owner()}-", dir=parent))
    for left in left_beside(folder):
        if not any(_age(path) < KEEP_S for path in seals(left)):
            shutil.rmtree(left, ignore_errors=True)
    return folder


def left_beside(folder: Path) -> Iterator[Path]:
    """Folders beside one's own whose processes are gone."""
    for left in folder.parent.glob(f"{PREFIX}*:*:*-*"):
        owner = left.name.removeprefix(PREFIX).rpartition("-")[0]
        if not environ.is_alive(owner, heartbeat=float("inf")):
            yield left


def _age(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return KEEP_S
