"""From a path to runs: which format a file is of, and which files of a folder are one run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from midflight import catalog
from midflight.analyse.importers._join import join
from midflight.analyse.importers._records import Records
from midflight.analyse.importers._source import Source
from midflight.analyse.importers._table import STEP_IN_TEXT
from midflight.analyse.importers.base import ImportedRun, Importer, LineImporter
from midflight.errors import ConfigError, shorten

_PACKAGE = "midflight.analyse.importers"
_FEW, _ENOUGH, _CLEARLY, _AT_MOST = 3, 20, 3, 1000
_MAX_FILES = 2000
_SUFFIXES = frozenset(
    {"", ".log", ".txt", ".out", ".err", ".md", ".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".gz", ".db"}
)
_EVENTS = re.compile(r"events\.out\.tfevents")
_COMMON = re.compile(
    r"(?:trainer_state|trainer_log|metrics|output|log|logs|main|train|console|stdout|history|wandb-summary"
    r"|results.*|checkpoint-\d+|golden_values|events\.out\.tfevents.*|debug)",
    re.IGNORECASE,
)
_LOG = "log"
_COMMON_FOLDERS = frozenset({"files", "logs", "log", "tb", "tensorboard", "runs", "output", "outputs"})


def read_any(path: Path | str) -> list[ImportedRun]:
    """The runs in a training log, of whatever format, or in a folder of logs.

    Files of a folder that tell of one run are joined: event files of TensorBoard, parts that go on where the one before
    ends, and logs that hold the same values at the same steps.

    Args:
        path: A file, plain or gzipped, or a folder, read with its subfolders.

    Returns:
        Runs in the order of files, then as they stand in a file.

    Raises:
        ConfigError: If there is no such path, or no training log in it.
    """
    path = Path(path)
    if path.is_dir():
        return _read_folder(path)
    if not path.is_file():
        raise ConfigError(f"log {shorten(str(path))}", allowed="a file or a folder", hint="there is nothing")
    return _read_file(path)


def _read_folder(folder: Path) -> list[ImportedRun]:
    found: list[ImportedRun] = []
    skipped = 0
    for parent, files in _by_folder(folder):
        runs: list[ImportedRun] = []
        for file in files:
            try:
                runs += _read_file(file)
            except ConfigError:
                skipped += 1
        found += join(runs, _name(parent / _LOG))
    if not found:
        raise ConfigError(f"folder {shorten(str(folder))}: no training log in it", got=f"{skipped} other files")
    return found


def _by_folder(folder: Path) -> Iterator[tuple[Path, list[Path]]]:
    """Files that may be logs, folder by folder, in the order of their names with numbers as numbers."""
    files = islice((path for path in folder.rglob("*") if path.is_file() and _may_be_log(path)), _MAX_FILES + 1)
    folders: dict[Path, list[Path]] = {}
    for number, path in enumerate(files):
        if number == _MAX_FILES:
            raise ConfigError(f"folder {shorten(str(folder))}", got="more", allowed=f"{_MAX_FILES:,} files")
        folders.setdefault(_of_run(path.parent, folder), []).append(path)
    for parent in sorted(folders, key=_natural):
        yield parent, sorted(folders[parent], key=_natural)


def _of_run(parent: Path, top: Path) -> Path:
    """The folder of the run whose checkpoint a folder is, or the folder itself."""
    while parent != top and STEP_IN_TEXT.search(parent.name) is not None:
        parent = parent.parent
    return parent


def _may_be_log(path: Path) -> bool:
    return path.suffix.lower() in _SUFFIXES or _EVENTS.match(path.name) is not None


def _natural(path: Path) -> list[tuple[int, int, str]]:
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d{1,18})", str(path))]


def _read_file(path: Path) -> list[ImportedRun]:
    source = Source(path)
    key, importer = _importer(source)
    records = Records(source, _name(path))
    importer.read(source, records)
    runs = records.runs(key)
    if not runs:
        unread = "; ".join(f"{one.count:,} {one.kind}, first: {one.example}" for one in source.unread()[:3])
        raise ConfigError(
            f"log {shorten(str(path))}: {importer.label} without a record of a training in it",
            allowed="records with numbers, of which one is a step, a time or a quantity with a known name",
            hint=f"not read: {unread}" if unread else "",
        )
    return runs


def _importer(source: Source) -> tuple[str, Importer]:
    """The format of a file.

    Raises:
        ConfigError: If it is of none.
    """
    base: type[Importer] = Importer  # type: ignore[type-abstract]  # the classes that are loaded are not abstract
    classes = {key: catalog.load(_PACKAGE, key, base) for key in catalog.keys(_PACKAGE)}
    lines: dict[str, LineImporter] = {}
    for key, kind in classes.items():
        if issubclass(kind, LineImporter):
            if kind.recognises(source):
                lines[key] = kind()
        elif kind.recognises(source):
            return key, kind()
    found = _most_lines(source, lines)
    if found is None:
        labels = ", ".join(sorted(kind.label for kind in classes.values()))
        raise ConfigError(f"log {shorten(str(source.path))}: of no format that can be read", allowed=labels)
    return found, type(lines[found])()


def _most_lines(source: Source, importers: dict[str, LineImporter]) -> str | None:
    """The line format of which a file holds the most records, as far as one has to read to be sure."""
    probe = Source(source.path)
    tries = {key: Records(probe, "") for key in importers}
    hits = dict.fromkeys(importers, 0)
    for text in probe.lines() if importers else ():
        for key, importer in importers.items():
            if importer.line(text, tries[key]):
                hits[key] += 1
                if hits[key] == _AT_MOST:
                    return _best(hits, importers)
                others = [count for one, count in hits.items() if one != key and importers[one].specific]
                if importer.specific and hits[key] >= _ENOUGH and hits[key] > _CLEARLY * max(others, default=0):
                    return key
    return _best(hits, importers)


def _best(hits: dict[str, int], importers: dict[str, LineImporter]) -> str | None:
    """The key of the most records; a format that is not specific needs some, for any text may hold one by chance."""
    found = [
        (importers[key].specific, count, not importers[key].is_part, key)
        for key, count in hits.items()
        if count >= (1 if importers[key].specific else _FEW)
    ]
    return max(found)[-1] if found else None


def _name(path: Path) -> str:
    """Name of a run, from its file, or from the folder where the file is called as all of its kind."""
    stem = path.name.removesuffix(".gz")
    stem = stem if _EVENTS.match(stem) else stem.rsplit(".", 1)[0] or stem
    parts = [stem, *reversed(path.absolute().parent.parts)]
    named = (part for part in parts if not _COMMON.fullmatch(part) and part.lower() not in _COMMON_FOLDERS)
    name = next(named, stem)
    return "".join(c if c.isprintable() else "�" for c in name)[:150] or "run"
