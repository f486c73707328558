"""Runs as tables in files: Parquet, CSV or JSON lines, for whoever reads those."""

from __future__ import annotations

import csv
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias

from midflight.errors import ConfigError, StoreError, missing_extra
from midflight.records import EvalReport
from midflight.schema import to_json
from midflight.store import RunInfo, Store

Format: TypeAlias = Literal["parquet", "csv", "jsonl"]
FORMATS: tuple[Format, ...] = ("parquet", "csv", "jsonl")
Kind: TypeAlias = Literal["int", "float", "text"]
Batch: TypeAlias = Sequence[Sequence[Any]]
"""Rows of a table."""

TABLES: Mapping[str, Mapping[str, Kind]] = {
    "runs": {
        "run": "int", "project": "text", "name": "text", "status": "text", "created": "float", "finished": "float",
        "attempts": "int", "config": "text", "tags": "text", "git": "text",
    },
    "points": {"run": "int", "key": "text", "step": "int", "wall": "float", "value": "float"},
    "estimates": {
        "run": "int", "evaluation": "text", "task": "text", "task_fingerprint": "text", "step": "int", "epoch": "float",
        "tokens": "int", "weights": "text", "seed": "int", "started": "float", "seconds": "float", "metric": "text",
        "slice": "text", "value": "float", "stderr": "float", "ci_low": "float", "ci_high": "float", "level": "float",
        "n": "int", "num_scored": "int", "clusters": "int", "method": "text", "unit": "text", "note": "text",
    },
    "scores": {
        "run": "int", "evaluation": "text", "step": "int", "task": "text", "metric": "text", "item": "text",
        "value": "float", "weight": "float", "state": "text",
    },
    "outputs": {
        "run": "int", "evaluation": "text", "step": "int", "task": "text", "request": "text", "text": "text",
        "logprob": "float", "reward": "float", "num_prompt_tokens": "int", "num_tokens": "int", "finish": "text",
        "error": "text",
    },
    "findings": {
        "run": "int", "kind": "text", "severity": "text", "onset": "int", "noticed": "int", "metrics": "text",
        "text": "text",
    },
}  # fmt: skip
"""Columns of each table, with what they hold. Texts of configurations, tags and the like are JSON."""

_ROWS = 65_536
"""Points of a batch."""


def export(store: Store, runs: Sequence[RunInfo], folder: Path, format: Format) -> dict[str, int]:
    """Writes a file for each table; all of them or, if it raises, none.

    Args:
        store: Where the runs are.
        runs: The runs.
        folder: Where the files go; made if it is not there.
        format: ``parquet``, ``csv`` or ``jsonl``. NaN and infinities are NaN and infinities in Parquet, the words
            ``nan``, ``inf`` and ``-inf`` in CSV, and texts in JSON; what is not there is null, or empty in CSV.

    Returns:
        Rows of each table.

    Raises:
        ConfigError: If there is no such format.
        StoreError: If a file is there already or cannot be written.
        MissingExtraError: If Parquet is asked for without pyarrow.
    """
    if format not in _WRITERS:
        raise ConfigError("format", got=format, allowed=", ".join(FORMATS))
    paths = {table: folder / f"{table}.{format}" for table in TABLES}
    there = next((path for path in paths.values() if path.exists()), None)
    if there is not None:
        raise StoreError(f"{there} is there already", hint="name another folder, or move it away")
    parts = {table: path.with_name(f"{path.name}.part") for table, path in paths.items()}
    counts = {}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for table, part in parts.items():
            counts[table] = _write(_WRITERS[format], part, table, store, runs)
        for table, part in parts.items():
            os.replace(part, paths[table])
    except OSError as error:
        raise StoreError(f"{folder} cannot be written to: {error.strerror or error}") from None
    finally:
        for part in parts.values():
            part.unlink(missing_ok=True)
    return counts


def _write(kind: type[_Writer], path: Path, table: str, store: Store, runs: Sequence[RunInfo]) -> int:
    writer, count = kind(path, TABLES[table]), 0
    try:
        for run in runs:
            for batch in _SOURCES[table](store, run):
                writer.write(batch)
                count += len(batch)
    finally:
        writer.close()
    return count


# -- rows ------------------------------------------------------------------------------------------------------------


def _run_rows(store: Store, run: RunInfo) -> Iterator[Batch]:
    texts = [to_json(dict(run.config)), to_json(list(run.tags)), to_json(dict(run.git))]
    yield [[run.id, run.project, run.name, run.status, run.created, run.finished, run.attempts, *texts]]


def _point_rows(store: Store, run: RunInfo) -> Iterator[Batch]:
    for key in store.keys(run.id):
        points = store.read_points(run.id, key)
        columns = points.steps.tolist(), points.walls.tolist(), points.values.tolist()
        rows = [[run.id, key, *row] for row in zip(*columns, strict=True)]
        for start in range(0, len(rows), _ROWS):
            yield rows[start : start + _ROWS]


def _estimate_rows(store: Store, run: RunInfo) -> Iterator[Batch]:
    for report in store.reports(run.id):
        where = report.progress
        head = [run.id, report.id, report.task, report.task_fingerprint, where.step, where.epoch, where.tokens]
        head += [report.weights, report.seed, report.started_at, report.cost.seconds]
        yield [
            [
                *head, one.metric, one.slice, one.value, one.stderr, one.ci_low, one.ci_high, one.level, one.n,
                one.num_scored, one.clusters, one.method, one.unit, one.note,
            ]
            for one in report.estimates
        ]  # fmt: skip


def _score_rows(store: Store, run: RunInfo) -> Iterator[Batch]:
    for report in store.reports(run.id):
        for metric in dict.fromkeys(one.metric for one in report.estimates):
            found = store.score_columns(report.id, metric)
            columns = found.items, found.values, found.weights, found.states
            head = [run.id, report.id, report.progress.step, report.task, metric]
            yield [[*head, *row] for row in zip(*columns, strict=True)]


def _output_rows(store: Store, run: RunInfo) -> Iterator[Batch]:
    def rows(report: EvalReport) -> Iterator[list[Any]]:
        head = [run.id, report.id, report.progress.step, report.task]
        for request, one in sorted(store.outputs(report.id).items()):
            numbers = [one.logprob, one.reward, one.num_prompt_tokens, one.num_tokens]
            yield [*head, request, one.text, *numbers, one.finish, one.error]

    for report in store.reports(run.id):
        yield list(rows(report))


def _finding_rows(store: Store, run: RunInfo) -> Iterator[Batch]:
    yield [
        [run.id, one.kind, one.severity, one.onset, one.noticed, to_json(list(one.metrics)), one.text]
        for one in store.findings(run.id)
    ]


_SOURCES: Mapping[str, Callable[[Store, RunInfo], Iterator[Batch]]] = {
    "runs": _run_rows,
    "points": _point_rows,
    "estimates": _estimate_rows,
    "scores": _score_rows,
    "outputs": _output_rows,
    "findings": _finding_rows,
}


# -- files -----------------------------------------------------------------------------------------------------------


class _Writer(ABC):
    """Writes a table."""

    def __init__(self, path: Path, columns: Mapping[str, Kind]) -> None:
        self.path, self.columns = path, columns
        self.open()

    @abstractmethod
    def open(self) -> None:
        """Begins the file."""

    @abstractmethod
    def write(self, rows: Batch) -> None:
        """Adds rows."""

    @abstractmethod
    def close(self) -> None:
        """Ends the file."""


class _Csv(_Writer):
    def open(self) -> None:
        self._file = self.path.open("w", encoding="utf-8", newline="")
        self._writer = csv.writer(self._file)
        self._writer.writerow(self.columns)

    def write(self, rows: Batch) -> None:
        self._writer.writerows(rows)

    def close(self) -> None:
        self._file.close()


class _JsonLines(_Writer):
    def open(self) -> None:
        self._file = self.path.open("w", encoding="utf-8")

    def write(self, rows: Batch) -> None:
        self._file.writelines(to_json(dict(zip(self.columns, row, strict=True))) + "\n" for row in rows)

    def close(self) -> None:
        self._file.close()


class _Parquet(_Writer):
    _TYPES: ClassVar[Mapping[Kind, str]] = {"int": "int64", "float": "float64", "text": "string"}

    def open(self) -> None:
        try:
            import pyarrow
            from pyarrow import parquet
        except ImportError as error:
            raise missing_extra("Parquet", "data", error) from error
        self._arrow = pyarrow
        types = {name: pyarrow.type_for_alias(self._TYPES[kind]) for name, kind in self.columns.items()}
        self._schema = pyarrow.schema(list(types.items()))
        self._writer = parquet.ParquetWriter(self.path, self._schema, compression="zstd")

    def write(self, rows: Batch) -> None:
        if rows:
            columns = [list(column) for column in zip(*rows, strict=True)]
            arrays = [
                self._arrow.array(column, field.type) for column, field in zip(columns, self._schema, strict=True)
            ]
            self._writer.write_table(self._arrow.Table.from_arrays(arrays, schema=self._schema))

    def close(self) -> None:
        self._writer.close()


_WRITERS: Mapping[str, type[_Writer]] = {"parquet": _Parquet, "csv": _Csv, "jsonl": _JsonLines}
