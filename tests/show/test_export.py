"""Exports: what other tools read is what the store says, in each format; nothing is half-written."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

import midflight as mf
from midflight.cli import app
from midflight.engines import Fake
from midflight.errors import ConfigError, StoreError
from midflight.pipeline import evaluate_checkpoint
from midflight.run import Run
from midflight.show.export import FORMATS, TABLES, export
from midflight.tasks import Task

HOSTILE = 'a,"b"\n=1+1;\u202e é'


@pytest.fixture
def filled(store):
    rows = [{"id": f"i{n}", "q": n} for n in range(3)]
    task = Task("t", rows, id="id", prompt="{{ q }}", target="q", metrics=["exact_match"])
    with Run("p", 'a,"b"', {"lr": 0.1}, store=store, tags=["a"]) as run:
        for step, value in enumerate((1.5, float("nan"), float("-inf"))):
            run.log(step, loss=value)
        evaluate_checkpoint(task, Fake(HOSTILE), run=run)
    return store


def read(path):
    if path.suffix == ".parquet":
        return parquet.read_table(path).to_pylist()
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("format", FORMATS)
def test_what_is_read_is_what_the_store_says(filled, tmp_path, format):
    counts = export(filled, filled.runs(), tmp_path / "out", format)
    tables = {table: read(tmp_path / "out" / f"{table}.{format}") for table in TABLES}
    assert {table: len(rows) for table, rows in tables.items()} == counts
    assert all(list(row) == list(TABLES[table]) for table, rows in tables.items() for row in rows)
    assert tables["runs"][0]["name"] == 'a,"b"'
    assert json.loads(tables["runs"][0]["config"]) == {"lr": 0.1}
    values = np.array([float(row["value"]) for row in tables["points"]])
    np.testing.assert_array_equal(values, filled.read_points(1, "loss").values)
    assert [row["text"] for row in tables["outputs"]] == [HOSTILE] * 3
    (report,) = filled.reports(1)
    found = next(row for row in tables["estimates"] if row["metric"] == "exact_match")
    assert float(found["ci_high"]) == report.estimate("exact_match").ci_high
    assert [float(row["value"]) for row in tables["scores"]] == [0.0] * 3
    missing = [row["ci_low"] for row in tables["estimates"] if row["metric"] == "tokens_per_second"]
    assert missing == [""] if format == "csv" else [None]


def test_nothing_is_replaced_or_half_written(filled, tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match="allowed: parquet, csv, jsonl"):
        export(filled, filled.runs(), tmp_path / "out", "xlsx")
    export(filled, filled.runs(), tmp_path / "out", "csv")
    with pytest.raises(StoreError, match="is there already"):
        export(filled, filled.runs(), tmp_path / "out", "csv")
    monkeypatch.setattr(type(filled), "findings", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        export(filled, filled.runs(), tmp_path / "other", "csv")
    assert list((tmp_path / "other").iterdir()) == []


def test_the_command(filled, tmp_path):
    done = CliRunner().invoke(
        app, ["export", "1", "--store", filled.location, "--out", str(tmp_path / "x"), "-f", "csv"]
    )
    assert (done.exit_code, "points.csv: 3 rows" in done.output) == (0, True)
    assert mf.open_store(filled.location).check() == []
