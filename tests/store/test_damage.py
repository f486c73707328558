"""A damaged file: `store check` names table, row and column, and one damaged run hides no other."""

from __future__ import annotations

import json
import sqlite3
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from midflight.cli import app
from midflight.engines import Fake
from midflight.errors import StoreError
from midflight.panel.answers.base import ask
from midflight.panel.panel import Panel
from midflight.panel.top.feed import Feed
from midflight.pipeline import evaluate_checkpoint
from midflight.records import Finding, Progress
from midflight.run import Run
from midflight.store import open_store
from midflight.store.base import Block
from midflight.tasks import load_task


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A store with the runs `ill` and `healthy`: each with a series and an evaluation, and a finding and an event."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "rows.jsonl").write_text("".join(json.dumps({"q": f"{a}+1=", "a": a + 1}) + "\n" for a in range(3)))
    (folder / "sums.toml").write_text(
        'source = { kind = "file", path = "rows.jsonl" }\nprompt = "{{ q }}"\ntarget = "a"\nmetrics = ["exact_match"]\n'
    )
    task, store = load_task(str(folder / "sums.toml")), open_store(str(folder / "whole.db"))
    for name in ("ill", "healthy"):
        with Run("p", name, store=store) as run:
            evaluate_checkpoint(task, Fake("2"), run=run, progress=Progress(5))
            store.append_points(run.id, 1, [Block((f"{name}/x",), np.arange(3), np.arange(3.0), np.ones((1, 3)))])
    store.add_finding(1, 1, Finding("k", "note", 1, 1, ("x",), "text"))
    db = sqlite3.connect(store.database.path)
    db.execute("INSERT INTO audit VALUES (1, 0, 'w', '{}', 'e', '', 'begun', '{}')")
    db.execute("DROP TRIGGER audit_stays")
    db.commit()
    db.close()
    assert store.check() == []
    store.backup(folder / "copy.db")
    return folder / "copy.db"


@pytest.fixture
def damaged(whole):
    """A copy in which a column of the first row of a table has been set to something else."""

    def damaged(table: str, column: str, value: str) -> Path:
        path = Path("damaged.db")
        path.write_bytes(whole.read_bytes())
        db = sqlite3.connect(path)
        where = "run = 1" if table in ("head", "evaluation") else "1"
        where = "evaluation = (SELECT id FROM evaluation WHERE run = 1)" if table in ("output", "score") else where
        key = "rowid" if table in ("run", "key", "audit", "blob", "output") else column
        db.execute(
            f"UPDATE {table} SET {column} = {value} WHERE {where} AND {key} = (SELECT min({key}) FROM {table} WHERE {where})"
        )
        db.commit()
        db.close()
        return path

    return damaged


def call(*arguments: object) -> tuple[int | None, str]:
    """What a command gave back and printed; an error of ours is raised."""
    done = CliRunner().invoke(app, [*map(str, arguments)], standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done.return_value, done.output


DAMAGE = [
    (
        "run",
        "name",
        "CAST(x'72FF' AS TEXT)",
        "table run, row 1, column name: no UTF-8 (invalid start byte at byte 1: r",
    ),
    ("run", "project", "CAST(x'FE' AS TEXT)", "table run, row 1, column project: no UTF-8"),
    ("run", "config", "'{'", "table run, row 1, column config: no JSON"),
    ("run", "tags", "CAST(x'5B22FF225D' AS TEXT)", "table run, row 1, column tags: no UTF-8"),
    ("key", "name", "CAST(x'79FE' AS TEXT)", "table key, row 1, column name: no UTF-8"),
    ("head", "value", "x'00'", "table head, row 1 1, column value: 1 bytes, not 8"),
    ("evaluation", "report", "CAST(x'7BFF' AS TEXT)", ", column report (run 1): not a report of schema"),
    ("evaluation", "report", "'{'", ", column report (run 1): not a report of schema"),
    ("evaluation", "task", "CAST(x'73FF' AS TEXT)", ", column task: no UTF-8"),
    ("output", "content", "CAST(x'22FF22' AS TEXT)", "table output, row 1, column content: no UTF-8"),
    ("score", "samples", "'?'", " exact_match 000000, column samples: no JSON"),
    ("score", "note", "CAST(x'80' AS TEXT)", " exact_match 000000, column note: no UTF-8"),
    ("finding", "content", "'nonsense'", "table finding, row 1 1 k, column content: no JSON"),
    ("audit", "detail", "'{'", "table audit, row 1, column detail: no JSON"),
]


@pytest.mark.parametrize(("table", "column", "value", "said"), DAMAGE, ids=[f"{d[0]}.{d[1]}-{d[2]}" for d in DAMAGE])
class TestAValueOfOneRun:
    def test_is_named(self, damaged, table, column, value, said):
        code, out = call("store", "check", "--store", damaged(table, column, value))
        assert code == 1
        assert any(line.startswith(f"table {table}, row ") and said in line for line in out.splitlines()), out

    def test_hides_no_other_run(self, damaged, table, column, value, said):
        path = damaged(table, column, value)
        code, out = call("runs", "--store", path)
        assert (code, "healthy" in out) == (0, True)
        assert "healthy/x" in call("show", "healthy", "--store", path)[1]
        assert call("compare", "healthy", "healthy", "--store", path)[0] == 0
        assert call("diagnose", "healthy", "--store", path)[0] == 0

    def test_is_an_error_of_the_store_and_never_another(self, damaged, table, column, value, said):
        store = open_store(str(damaged(table, column, value)))
        reads = [
            lambda: store.heads(1),
            lambda: store.reports(1),
            lambda: store.evaluations([1]),
            lambda: store.unfinished(1),
            lambda: store.findings(1),
            lambda: store.audit(),
            lambda: [store.scores(report.id, "exact_match") for report in store.reports(1)],
            lambda: [store.outputs(report.id) for report in store.reports(1)],
            lambda: store.pulses(),
            lambda: store.series_counts([1, 2]),
            lambda: [store.read_points(1, key) for key in store.keys(1)],
        ]
        for read in reads:
            with suppress(StoreError):
                read()


def test_a_damaged_run_says_so_in_its_row(damaged):
    path = damaged("evaluation", "report", "'{'")
    (row,) = [row for row in json.loads(call("runs", "--json", "--store", path)[1]) if row["name"] == "ill"]
    assert row["state"] == "damaged"
    assert row["damage"].startswith("table evaluation, row ")
    with pytest.raises(StoreError, match="table evaluation, row .*, column report is damaged: not a report"):
        call("show", "ill", "--store", path)
    path = damaged("run", "config", "'[]'")
    assert "table run, row 1, column config is damaged: no dict" in call("show", "ill", "--store", path)[1]


def test_a_name_that_is_damaged_can_still_be_asked_for(damaged):
    path = damaged("key", "name", "CAST(x'79FE' AS TEXT)")
    store = open_store(str(path))
    assert store.keys(1) == ["y\\xfe"]
    assert store.read_points(1, "y\\xfe").values.tolist() == [1.0, 1.0, 1.0]
    assert store.read_overviews([1], ["y\\xfe"]).num_points.tolist() == [3]
    path = damaged("run", "name", "CAST(x'72FF' AS TEXT)")
    assert "p/r\\xff (run 1)" in call("show", "r\\xff", "--store", path)[1]


@pytest.mark.parametrize("damage", ["UPDATE flush SET data = x'00'", "UPDATE flush SET keys = x'00'"])
def test_damaged_points_are_an_error_of_the_store(whole, damage):
    path = Path("points.db")
    path.write_bytes(whole.read_bytes())
    store = open_store(str(path))
    store.append_points(1, 1, [Block(("z",), np.arange(3), np.arange(3.0), np.ones((1, 3)))])
    db = sqlite3.connect(path)
    db.execute(damage)
    db.commit()
    for read in (lambda: store.read_points(1, "z"), lambda: store.read_overviews([1], ["z"])):
        with pytest.raises(StoreError, match="table flush, row .*, column keys or data is damaged"):
            read()


def test_a_broken_page_ends_one_look_and_not_the_others(whole):
    path = Path("pages.db")
    db = sqlite3.connect(whole)
    ((page,),) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'output'").fetchall()
    db.close()
    data = bytearray(whole.read_bytes())
    data[(page - 1) * 16384 : page * 16384] = b"\xa5" * 16384
    path.write_bytes(data)
    db = sqlite3.connect(path)
    db.execute("UPDATE evaluation SET report = '{' WHERE run = 1")
    db.commit()
    db.close()
    code, out = call("store", "check", "--store", path)
    assert code == 1
    assert "SQLite: " in out
    assert "table evaluation, row " in out


@pytest.mark.parametrize(("table", "column", "value"), [damage[:3] for damage in DAMAGE])
def test_who_watches_a_store_sees_the_healthy_runs_of_it(damaged, table, column, value):
    store = open_store(str(damaged(table, column, value)), create=False, read_only=True)
    rows = {row["id"]: row for row in ask(Panel(store, background=False), "/api/runs")["runs"]}
    assert rows[2]["name"] == "healthy"
    assert (rows[2]["damage"], rows[2]["latest"][0]["estimate"]["n"]) == ("", 3)
    look = Feed(lambda: store, background=False).look()
    healthy = next(row for row in look.rows if row.info.id == 2)
    assert (look.error, healthy.damage, len(healthy.found.tasks)) == ("", "", 1)
    assert bool(rows[1]["damage"]) == (table in ("run", "finding") or (table, column) == ("evaluation", "report"))
