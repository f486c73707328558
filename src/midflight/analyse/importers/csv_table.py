"""CSV and TSV with any columns: exports of Weights & Biases and TensorBoard, tables of one's own."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence

from midflight.analyse.importers._numbers import is_missing, number, value_of
from midflight.analyse.importers._records import Records
from midflight.analyse.importers._source import MAX_LINE, Source
from midflight.analyse.importers._table import STEP_NAMES, Table
from midflight.analyse.importers.base import Importer

_SEPARATORS = ",\t;"
_WANDB_RANGE = re.compile(r"__(?:MIN|MAX)$")
_WANDB_RUN = re.compile(r"(.{1,200}?) - (\S.*)")
_TENSORBOARD = ["wall time", "step", "value"]
_TAG = re.compile(r"-tag-(.+)\.csv$")
_ENOUGH_COLUMNS = 2


class CSVTable(Importer):
    """A table with a heading. Columns ``RUN - NAME`` of several runs, as W&B exports them, are several runs."""

    label = "CSV"

    @classmethod
    def recognises(cls, source: Source) -> bool:
        """By a heading of names and a row of as many cells, one of them a number."""
        if source.is_binary:
            return False
        rows = []
        for row in csv.reader(_whole_lines(source.head_text), delimiter=_separator(source)):
            rows.append(row)
            if len(rows) > 1:
                break
        return len(rows) > 1 and _is_heading(rows[0]) and len(rows[0]) == len(rows[1]) and _has_number(rows[1])

    def read(self, source: Source, records: Records) -> None:
        """Reads row by row."""
        csv.field_size_limit(MAX_LINE)
        rows = _rows(source)
        names = _names(next(rows), source)
        runs = _runs(names)
        if len(runs) < 2:
            names = [_WANDB_RUN.sub(r"\2", name) for name in names] if runs else names
            _read_columns(rows, names, list(range(len(names))), source, records)
            return
        table = list(rows)  # an export for a plot: small
        shared = [place for place, name in enumerate(names) if not _WANDB_RUN.fullmatch(name)]
        for run, places in runs.items():
            records.begin_run("columns of several runs")
            records.name = run
            plain = [_WANDB_RUN.sub(r"\2", name) for name in names]
            _read_columns(iter(table), plain, [*shared, *places], source, records, needs=places)


def _separator(source: Source) -> str:
    heading = source.head_text.split("\n", 1)[0]
    return max(_SEPARATORS, key=heading.count)


def _whole_lines(text: str) -> list[str]:
    lines = text.splitlines(keepends=True)
    return lines if len(lines) < 3 else lines[:-1]


def _is_heading(row: Sequence[str]) -> bool:
    return (
        len(row) >= _ENOUGH_COLUMNS
        and all(name.strip() and len(name) < 500 for name in row[1:])
        and sum(number(name) is not None for name in row) == 0
        and not any(name.lstrip().startswith(("{", "<", "import ", "#!")) for name in row)
    )


def _has_number(row: Sequence[str]) -> bool:
    return any(number(cell) is not None for cell in row)


def _rows(source: Source) -> Iterator[list[str]]:
    reader = csv.reader(source.lines(keep_ends=True), delimiter=_separator(source))
    while True:
        try:
            yield next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            source.skip("broken rows", str(error))


def _names(heading: Sequence[str], source: Source) -> list[str]:
    names = [name.strip() or f"column {place}" for place, name in enumerate(heading)]
    if [name.lower() for name in names] == _TENSORBOARD and (tag := _TAG.search(source.path.name)) is not None:
        names[2] = tag[1]
    return names


def _runs(names: Sequence[str]) -> dict[str, list[int]]:
    """Columns by run, where all but the step's are called ``RUN - NAME``; a range around a mean is left out."""
    runs: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        found = _WANDB_RUN.fullmatch(name)
        if found is not None and not _WANDB_RANGE.search(name):
            runs.setdefault(found[1], []).append(place)
        elif found is None and place > 0 and name.lower() not in STEP_NAMES:
            return {}
    return runs


def _read_columns(
    rows: Iterator[list[str]],
    names: Sequence[str],
    places: Sequence[int],
    source: Source,
    records: Records,
    needs: Sequence[int] = (),
) -> None:
    table = Table(records)
    for row in rows:
        if len(row) < len(names):
            if row:
                source.skip("rows with too few cells", ",".join(row))
            continue
        if needs and all(is_missing(row[place]) for place in needs):
            continue
        values, texts = _cells(row, names, places, source)
        if texts:
            source.skip("texts among the values", str(texts))
        if values:
            table.add(values, texts)
    table.end()


def _cells(
    row: Sequence[str], names: Sequence[str], places: Sequence[int], source: Source
) -> tuple[dict[str, float], dict[str, str]]:
    """Numbers and texts of a row."""
    values, texts = {}, {}
    for place in places:
        cell = row[place]
        found = value_of(names[place], cell)
        if found is not None:
            values[names[place]] = found
        elif is_missing(cell):
            source.skip("missing values", f"{names[place]}: {cell or 'empty'}")
        elif cell.lower() in ("true", "false"):
            values[names[place]] = float(cell.lower() == "true")
        else:
            texts[names[place]] = cell
    return values, texts
