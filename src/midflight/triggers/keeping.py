"""Keeps a checkpoint for as long as it is evaluated: retention of the training script may delete it meanwhile.

Its files get a second name (a hard link) in a hidden folder beside it, which takes no room: a file leaves the disk with
its last name.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from midflight import environ

PREFIX = ".midflight-"


@contextmanager
def kept(path: Path) -> Iterator[Path]:
    """A folder or file with the content of a checkpoint that stays, whoever deletes the checkpoint.

    Where the disk has no hard links it is the checkpoint itself.

    Args:
        path: The checkpoint.
    """
    folder = path.parent / f"{PREFIX}{environ.owner().replace(os.sep, '_')}"
    try:
        folder.mkdir()
        copy = folder / path.name
        if path.is_dir():
            shutil.copytree(path, copy, copy_function=os.link)
        else:
            os.link(path, copy)
    except (OSError, shutil.Error):  # no hard links here, no right to write, or it is gone already
        shutil.rmtree(folder, ignore_errors=True)
        yield path
        return
    try:
        yield copy
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def tidy(folder: Path) -> None:
    """Removes what processes of this machine have left that were killed."""
    for left in folder.glob(f"{PREFIX}*") if folder.is_dir() else ():
        if not environ.is_alive(left.name.removeprefix(PREFIX), heartbeat=float("inf")):
            shutil.rmtree(left, ignore_errors=True)
