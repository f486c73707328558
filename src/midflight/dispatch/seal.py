"""Seals on copies of weights: where a process was killed, the next one sees by them which copies are whole, and whose.

A seal is a file beside the copy: a digest of it and a note, written once both are right and removed before the copy is
written over. A copy without one may be half a copy.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SUFFIX = ".seal.json"
CHUNK = 1 << 24
"""Bytes that are read at once."""


class Seal:
    """Seals a copy, in a thread of its own: training does not wait for the digest.

    Args:
        path: The copy.
        note: What it is; plain enough for JSON.
    """

    def __init__(self, path: Path, note: Mapping[str, Any]) -> None:
        self.path, self.note = path, note
        self._broken = threading.Event()
        self._thread = threading.Thread(target=self._write, name="midflight-seal", daemon=True)
        self._thread.start()

    def _write(self) -> None:
        with contextlib.suppress(OSError):  # e.g. a full disk: then this copy is lost if the process is killed
            digest = _digest(self.path, self._broken)
            new = self.path.with_suffix(".new")
            new.write_text(json.dumps({"digest": digest, "note": self.note}))
            if not self._broken.is_set():
                os.replace(new, self.path.with_suffix(SUFFIX))

    def open(self) -> None:
        """Removes it: the copy may be written over."""
        self._broken.set()
        self._thread.join()
        self.path.with_suffix(SUFFIX).unlink(missing_ok=True)


def seals(folder: Path) -> dict[Path, dict[str, Any]]:
    """Copies in a folder that are sealed, with their notes; whether a seal is right, `is_right` says."""
    found: dict[Path, dict[str, Any]] = {}
    for seal in sorted(folder.glob(f"*{SUFFIX}")):
        path = seal.with_name(seal.name.removesuffix(SUFFIX)).with_suffix(".safetensors")
        with contextlib.suppress(OSError, ValueError, LookupError, TypeError):  # another process was faster; no seal
            note = json.loads(seal.read_text())["note"]
            if path.is_file():
                found[path] = dict(note)
    return found


def is_right(path: Path) -> bool:
    """Whether a copy is what was sealed; it may not be where the machine, not the process, has failed."""
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
        wanted = json.loads(path.with_suffix(SUFFIX).read_text())["digest"]
        return bool(wanted == _digest(path, threading.Event()))
    return False


def _digest(path: Path, stop: threading.Event) -> str:
    """SHA-256 of a file; of a part of it if it is stopped."""
    found, chunk = hashlib.sha256(), memoryview(bytearray(CHUNK))
    with path.open("rb") as file:
        while not stop.is_set() and (size := file.readinto(chunk)):
            found.update(chunk[:size])
    return found.hexdigest()
