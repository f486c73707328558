"""Watches a folder for checkpoints: each one once, in step order, and none before it is wholly written.

A checkpoint is finished when its weights prove complete by their own headers (a safetensors file says how long it is,
an index says which shards belong to it) and nothing in its folder has changed between two looks, so that the tokenizer
and other files written after the weights are there too.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from dataclasses import dataclass
from pathlib import Path

from midflight.errors import ConfigError, is_text
from midflight.records import MAX_STEP

_STEP = re.compile(r"(\d+)(?!.*\d)")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A finished checkpoint.

    Attributes:
        path: Its folder, or its GGUF file.
        step: The last number in its name: ``checkpoint-500``, ``global_step_500``, ``iter_0000500``.
        digest: Changes when its weights are written anew.
    """

    path: Path
    step: int
    digest: str


class CheckpointWatcher:
    """Looks into a folder and gives the checkpoints that have come to an end since the last look.

    Args:
        folder: Where the training script writes its checkpoints; it may not exist yet.

    Raises:
        ConfigError: If `folder` is a file.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if self.folder.is_file():
            raise ConfigError(f"{folder} is a file", allowed="the folder that checkpoints are written to")
        self._seen: dict[Path, str] = {}  # listing at the last look
        self._given: dict[Path, str] = {}  # weights that were given
        self.waiting: dict[Path, str] = {}
        """Candidates that are not finished, and why; for showing."""

    def poll(self) -> list[Checkpoint]:
        """Finished checkpoints not given before, in step order. One that cannot be read waits, with the reason."""
        finished, seen = [], {}
        self.waiting = {}
        for path in self._candidates():
            if step_of(path) > MAX_STEP:
                self.waiting[path] = "the number in its name is too large for a step"
                continue
            try:
                seen[path] = listing = _digest(path, _all_files(path))
                reason = incomplete(path)
                digest = "" if reason else _digest(path, _weights(path))
            except FileNotFoundError:
                continue  # removed while we looked: retention is faster than we are
            except Exception as error:  # another program's folder holds anything; watching goes on
                self.waiting[path] = f"unreadable: {type(error).__name__}: {error}"
                continue
            if not reason and self._given.get(path) == digest:
                continue
            if not reason and self._seen.get(path) != listing:
                reason = "files are still changing"
            if reason:
                self.waiting[path] = reason
                continue
            finished.append(Checkpoint(path, step_of(path), digest))
            self._given[path] = digest
        self._seen = seen
        return sorted(finished, key=lambda c: (c.step, c.path.name))

    def _candidates(self) -> list[Path]:
        if not self.folder.is_dir():
            return []
        return [
            path
            for path in sorted(self.folder.iterdir())
            if not path.name.startswith((".", "tmp-"))
            and (path.is_dir() or path.suffix == ".gguf")
            and is_text(path.name)
            and _STEP.search(path.stem if path.is_file() else path.name)
        ]


def step_of(path: Path) -> int:
    """The last number in the name of a checkpoint.

    >>> step_of(Path("runs/epoch1-step200"))
    200
    """
    found = _STEP.search(path.stem if path.suffix == ".gguf" else path.name)
    if found is None:
        raise ConfigError("no step in the name of the checkpoint", got=path.name, allowed="e.g. checkpoint-500")
    return int(found.group(1))


def incomplete(path: Path) -> str:
    """Why a checkpoint cannot be read yet; empty if it can."""
    if path.suffix == ".gguf":
        return "" if path.stat().st_size > 0 else "empty file"
    if not (path / "config.json").is_file():
        return "no config.json"
    try:
        json.loads((path / "config.json").read_text(encoding="utf-8"))
        shards = _weights(path)
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        return "a JSON file is half-written"
    if not shards:
        return "no *.safetensors"
    for shard in shards:
        if not shard.is_file():
            return f"{shard.name} is missing"
        if not _is_whole(shard):
            return f"{shard.name} is half-written"
    return ""


def _weights(path: Path) -> list[Path]:
    if path.suffix == ".gguf":
        return [path]
    index = path / "model.safetensors.index.json"
    if index.is_file():
        names = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        return [path / name for name in sorted(names)]
    return sorted(path.glob("*.safetensors"))


def _is_whole(shard: Path) -> bool:
    """Whether a safetensors file is as long as its header says: 8 bytes of header length, header, data."""
    size = shard.stat().st_size
    with shard.open("rb") as file:
        head = file.read(8)
        if len(head) < 8:
            return False
        length = struct.unpack("<Q", head)[0]
        if length > size - 8:
            return False
        try:
            header = json.loads(file.read(length))
            ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
        except (ValueError, KeyError, AttributeError, TypeError, LookupError, RecursionError):
            return False
    return bool(size == 8 + length + max(ends, default=0))


def _all_files(path: Path) -> list[Path]:
    return sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]


def _digest(path: Path, files: list[Path]) -> str:
    """Digest over names, sizes and times of files in a checkpoint: any write changes it."""
    lines = []
    for file in files:
        stat = file.stat()
        lines.append(f"{file.relative_to(path.parent)}\t{stat.st_size}\t{stat.st_mtime_ns}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
