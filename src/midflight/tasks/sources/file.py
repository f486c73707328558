"""Local JSONL, JSON, CSV and Parquet files; a broken one is refused with file, line and cause."""

from __future__ import annotations

import codecs
import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from midflight.errors import TaskError, missing_extra
from midflight.tasks.sources.base import Format, Row, Source

FORMATS: dict[str, Format] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
}


class FileSource(Source):
    """Rows of a local file.

    Attributes:
        path: The file; relative to the task file where a task file names it. ``{split}`` in it is replaced.
        format: Its format; None = by its suffix.
        split: What replaces ``{split}``.
    """

    kind: Literal["file"] = "file"
    path: str
    format: Format | None = None
    split: str = ""

    def rows(self) -> Iterator[Row]:
        """All rows of the file, in order."""
        path = Path(self.path.replace("{split}", self.split)).expanduser()
        form = self.format or FORMATS.get(path.suffix.lower())
        if form is None:
            raise TaskError(
                f"{path}: unknown format {path.suffix!r}", allowed=", ".join(FORMATS), hint="or give `format`"
            )
        if not path.is_file():
            raise TaskError(f"{path}: no such file")
        read = {"jsonl": _jsonl, "json": _json, "csv": _csv, "parquet": _parquet}[form]
        empty = True
        for row in read(path):
            empty = False
            yield row
        if empty:
            raise TaskError(f"{path}: no rows in it")

    def with_split(self, split: str) -> FileSource:
        """The file of another split, where the path holds ``{split}``."""
        if "{split}" not in self.path:
            raise TaskError(
                f"the path {self.path!r} has no {{split}} to replace",
                got=split,
                hint="give [fewshot] a source table of its own",
            )
        return self.model_copy(update={"split": split})


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines of a UTF-8 file; a byte order mark is skipped."""
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            if number == 1:
                raw = raw.removeprefix(codecs.BOM_UTF8)
            try:
                yield number, raw.decode("utf-8")
            except UnicodeDecodeError as error:
                raise TaskError(
                    f"{path}:{number}: not UTF-8: byte 0x{raw[error.start]:02x} at column {error.start + 1}",
                    hint="convert it, e.g. iconv -f LATIN1 -t UTF-8",
                ) from None


def _record(value: Any, origin: str) -> Row:
    if not isinstance(value, dict):
        raise TaskError(f"{origin}: a row must be an object of named columns", got=value)
    return Row(value, origin)


def _jsonl(path: Path) -> Iterator[Row]:
    for number, line in _lines(path):
        if line.isspace():
            continue
        line = line.rstrip()  # its end of line would be counted as a line of the JSON text
        try:
            value = json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            raise TaskError(f"{path}:{number}: not valid JSON: {_json_reason(error)}") from None
        yield _record(value, f"{path}:{number}")


def _json_reason(error: json.JSONDecodeError | RecursionError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg.removesuffix(' at')} at column {error.colno}"
    return "nested too deeply"


def _json(path: Path) -> Iterator[Row]:
    text = "".join(line for _, line in _lines(path)).rstrip()
    try:
        value = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        line = error.lineno if isinstance(error, json.JSONDecodeError) else 1
        raise TaskError(f"{path}:{line}: not valid JSON: {_json_reason(error)}") from None
    if not isinstance(value, list):
        raise TaskError(f"{path}: must hold a list of objects", got=type(value).__name__)
    for index, row in enumerate(value):
        yield _record(row, f"{path}[{index}]")


def _csv(path: Path) -> Iterator[Row]:
    reader = csv.reader(
        (line for _, line in _lines(path)), delimiter="\t" if path.suffix == ".tsv" else ",", strict=True
    )
    try:
        header = next(reader, None)
        if header is None:
            return
        if len(set(header)) < len(header):
            raise TaskError(f"{path}:1: a column name stands twice", got=header)
        for cells in reader:
            origin = f"{path}:{reader.line_num}"
            if not cells:
                continue
            if len(cells) != len(header):
                raise TaskError(f"{origin}: {len(cells)} cells in a file of {len(header)} columns")
            yield Row(dict(zip(header, cells, strict=True)), origin)
    except csv.Error as error:
        raise TaskError(f"{path}:{reader.line_num}: not valid CSV: {error}") from None


def _parquet(path: Path) -> Iterator[Row]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise missing_extra("reading Parquet", "data", error) from None
    try:
        with pq.ParquetFile(path) as file:
            index = 0
            for batch in file.iter_batches():
                for row in batch.to_pylist():
                    yield Row(row, f"{path}[{index}]")
                    index += 1
    except (pa.ArrowException, OSError) as error:
        raise TaskError(f"{path}: not a readable Parquet file: {error}") from None
