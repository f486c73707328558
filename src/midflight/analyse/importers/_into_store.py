"""Imported runs into a store: as finished runs, each content once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from midflight import environ
from midflight.analyse.importers.base import ImportedRun, Series
from midflight.errors import StoreError
from midflight.run import checked_name
from midflight.store.base import Block, RunInfo, Store

DETAILS = "import"
"""Key in a run's environment under which it stands where an imported run comes from."""


@dataclass(frozen=True)
class StoredRun:
    """An imported run in a store.

    Attributes:
        run: What was read.
        info: What the store has.
        is_new: False if the same content was imported before.
    """

    run: ImportedRun
    info: RunInfo
    is_new: bool


def store_runs(runs: Sequence[ImportedRun], store: Store, project: str, name: str | None = None) -> list[StoredRun]:
    """Writes runs, those whose files have the same content as an imported run of the project left out.

    Points without a time in the log get the time at which the file was last changed.

    Args:
        runs: From `read_any`.
        store: Where to.
        project: The project they belong to.
        name: What the run is called instead; several runs get ``-2``, ``-3`` behind it.

    Raises:
        ConfigError: If a name cannot be stored.
        StoreError: If the store cannot be written to, or another process is importing the same.
    """
    project = checked_name("project", project)
    stored: list[StoredRun] = []
    of_files: dict[tuple[str, ...], int] = {}
    for number, run in enumerate(runs, start=1):
        place = of_files[run.files] = of_files.get(run.files, 0) + 1
        wanted = run.name if name is None else name if number == 1 else f"{name}-{number}"
        stored.append(_store(run, f"{_digest(run.files)}-{place}", store, project, checked_name("run", wanted)))
    return stored


def _store(run: ImportedRun, digest: str, store: Store, project: str, name: str) -> StoredRun:
    known = next((one for one in store.runs(project) if import_details(one).get("digest") == digest), None)
    if known is not None and known.status == "finished":
        return StoredRun(run, known, False)
    info, attempt = _begun(run, digest, store, project, name) if known is None else _resumed(store, known)
    try:
        store.append_points(info.id, attempt, list(_blocks(run)))
        store.finish_run(info.id, "finished")
    except BaseException:
        with suppress(StoreError):
            store.finish_run(info.id, "failed")  # the next import of the same takes it over
        raise
    return StoredRun(run, next(one for one in store.runs(project) if one.id == info.id), True)


def _begun(run: ImportedRun, digest: str, store: Store, project: str, name: str) -> tuple[RunInfo, int]:
    details = {
        "digest": digest,
        "files": list(run.files),
        "formats": list(run.formats),
        "eval_keys": sorted(run.eval_keys),
        "planned_steps": run.planned_steps,
        "summary": dict(run.summary),
        "notes": list(run.notes),
    }
    what: dict[str, Any] = {"config": run.config, "tags": ["imported"], "environment": {DETAILS: details}}
    info = store.create_run(project, name, owner=environ.owner(), unless_named=True, **what)
    if import_details(info).get("digest") != digest:  # another run of that name
        info = store.create_run(project, name, owner=environ.owner(), **what)
    elif store.owner(info.id) != environ.owner():  # another process was faster
        return _resumed(store, info)
    return info, 1


def _resumed(store: Store, known: RunInfo) -> tuple[RunInfo, int]:
    """A run whose import was killed, to be written once more."""
    before = store.owner(known.id)
    alive = known.status == "running" and environ.is_alive(before, known.heartbeat)
    attempt = None if alive else store.resume_run(known.id, owner=environ.owner(), before=before)
    if attempt is None:
        raise StoreError(f"run {known.name!r} is being imported by another process", got=store.owner(known.id))
    return known, attempt


def import_details(info: RunInfo) -> dict[str, Any]:
    """Where an imported run comes from, and what its log tells beside series and configuration; empty for another."""
    details = info.environment.get(DETAILS)
    return details if isinstance(details, dict) else {}


def _blocks(run: ImportedRun) -> Iterator[Block]:
    """Series with the same steps and times together."""
    changed = max(Path(file).stat().st_mtime for file in run.files)
    groups: dict[tuple[bytes, bytes], list[str]] = {}
    for key, series in run.series.items():
        times = b"" if series.walls is None else series.walls.tobytes()
        groups.setdefault((hashlib.sha256(series.steps.tobytes()).digest(), hashlib.sha256(times).digest()), []).append(
            key
        )
    for keys in groups.values():
        first: Series = run.series[keys[0]]
        walls = np.full(len(first), changed) if first.walls is None else first.walls
        yield Block(tuple(keys), first.steps, walls, np.stack([run.series[key].values for key in keys]))


def _digest(files: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for file in files:
        with open(file, "rb") as handle:
            digest.update(hashlib.file_digest(handle, "sha256").digest())
    return digest.hexdigest()
