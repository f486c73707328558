"""Makes a name, e.g. models/production, point to the checkpoint or to a copy of it; switched atomically."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Literal

from midflight.errors import ConfigError, StepError
from midflight.gate.workflow.artifact import model_files, weights_hash
from midflight.gate.workflow.steps.base import Note, Step, StepContext
from midflight.triggers.checkpoints import step_of

LOOK_S = 0.1
"""Seconds between two looks at a lock that another process holds."""


class PromoteStep(Step):
    """The target is a symbolic link that `rename` replaces: whoever opens it sees the old weights or the new ones.

    Attributes:
        target: The name. What it pointed to before stays where it is, for the rollback.
        mode: `link` = it points to the checkpoint itself; `copy` = to a copy of the model's files beside it, called
            ``TARGET-CHECKPOINT-HASH``, for where a training script deletes old checkpoints.
        only_newer: Whether a checkpoint of an earlier step than the one that the target points to is left alone: of
            several evaluated at once, the one that ends last need not be the newest.
        timeout_s: Seconds to wait for another process that promotes to the same target.
    """

    kind: Literal["promote"] = "promote"
    target: str
    mode: Literal["link", "copy"] = "link"
    only_newer: bool = False
    idempotent: Literal[True] = True

    needs_checkpoint: ClassVar[bool] = True

    @property
    def can_undo(self) -> bool:
        """Always: the earlier target is known and stays."""
        return True

    def carry_out(self, context: StepContext, note: Note) -> Mapping[str, Any]:
        """Switches the target; if it was switched before the process died, nothing is done again."""
        checkpoint, target = context.needed_checkpoint(), context.path(self.target)
        with _errors(target), _locked(target, self.timeout_s):
            _check(checkpoint, context.weights)
            before, new = points_to(target), self._destination(checkpoint, target, context.weights)
            previous = context.state.get("previous", before)
            if before not in (previous, new):
                raise StepError(f"{target}: it was switched to {before} by somebody else meanwhile")
            if self.only_newer and _step(before) > _step(new):
                return {"target": str(target), "points_to": before, "previous": before, "kept": "it is newer"}
            note({"previous": previous, "new": new})
            if self.mode == "copy":
                _copy(checkpoint, target.parent / new, context.weights)
            if before != new:
                _switch(target, new)
            try:
                _check(target, context.weights)
            except StepError:
                _switch(target, previous)
                raise
        return {"target": str(target), "points_to": new, "previous": previous}

    def _destination(self, checkpoint: Path, target: Path, weights: str) -> str:
        """What the link says: relative, so that it holds wherever the tree is mounted."""
        if self.mode == "copy":
            return f"{target.name}-{checkpoint.name}-{weights[:16]}"
        return os.path.relpath(checkpoint.resolve(), target.parent.resolve())

    def undo(self, context: StepContext, result: Mapping[str, Any]) -> Mapping[str, Any]:
        """Switches back to what the target pointed to before."""
        target, previous, new = Path(result["target"]), result["previous"], result["points_to"]
        with _errors(target), _locked(target, self.timeout_s):
            now = points_to(target)
            if now not in (previous, new):
                raise StepError(f"{target}: it points to {now} by now, which somebody else made it: left as it is")
            if previous is not None and not (target.parent / previous).exists():
                raise StepError(f"{target}: what it pointed to before is gone: {previous}")
            if now != previous:
                _switch(target, previous)
        return {"points_to": previous}


def _step(points_to: str | None) -> int:
    """The step of the checkpoint, or of the copy, that a link points to; −1 where its name has none."""
    try:
        return step_of(Path(re.sub(r"-[0-9a-f]{16}$", "", points_to or "")))
    except ConfigError:
        return -1


def points_to(target: Path) -> str | None:
    """What a target points to; None if there is nothing.

    Raises:
        StepError: If something else than a link stands in its place.
    """
    if target.is_symlink():
        return os.readlink(target)
    if target.exists():
        raise StepError(f"{target}: it is no link", hint="move it away once; a target is a link that is switched")
    return None


def _switch(target: Path, new: str | None) -> None:
    """Makes the target point elsewhere, or nowhere, in one step."""
    if new is None:
        target.unlink()
    else:
        part = target.parent / f".{target.name}.part"  # the lock is held: nobody else's
        with contextlib.suppress(FileNotFoundError):
            part.unlink()
        part.symlink_to(new)
        part.replace(target)
    _sync(target.parent)


def _copy(checkpoint: Path, destination: Path, weights: str) -> None:
    """Copies the model's files; the copy has its name once it is whole, and on the disk."""
    if destination.exists():
        _check(destination, weights)
        return
    part = destination.parent / f".{destination.name}.part"
    _remove(part)  # of a process that was killed
    try:
        if checkpoint.is_file():
            _copy_file(checkpoint, part)
        else:
            for file in model_files(checkpoint):
                _copy_file(file, part / file.relative_to(checkpoint))
        _check(part, weights)
        part.rename(destination)
    except BaseException:
        _remove(part)
        raise
    _sync(destination.parent)


def _copy_file(source: Path, destination: Path) -> None:
    destination.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, destination)
    _sync(destination)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _check(path: Path, weights: str) -> None:
    try:
        found = weights_hash(path)
    except ConfigError as error:
        raise StepError(error.message) from None
    if found != weights:
        raise StepError(f"{path}: its files are no longer those that were judged: {found[:16]}, not {weights[:16]}")


@contextmanager
def _locked(target: Path, wait_s: float) -> Iterator[None]:
    """One process at a time, whichever workflow it carries out; the lock goes with the process that holds it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    ends = time.monotonic() + wait_s
    with (target.parent / f".{target.name}.lock").open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > ends:
                    raise StepError(f"{target}: another process promotes to it for {wait_s:g} s already") from None
                time.sleep(LOOK_S)
        yield


@contextmanager
def _errors(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        place = f": {error.filename}" if error.filename else ""
        raise StepError(f"{target}: cannot be switched: {error.strerror or error}{place}") from None
