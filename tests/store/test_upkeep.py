"""Upkeep: damage is found and named, compacting changes no value, a copy is whole though others write."""

from __future__ import annotations

import socket
import sqlite3
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from midflight import environ
from midflight.cli import app
from midflight.errors import StoreError
from midflight.store import open_store
from midflight.store.base import Block


def log(store, run, count, start=0, attempt=1):
    for step in range(start, start + count):
        values = np.array([[step / 7], [1.0]])
        store.append_points(run, attempt, [Block(("x", "y"), np.array([step]), np.array([float(step)]), values)])


@pytest.fixture
def run(store):
    run = store.create_run("p", "r", owner=f"{socket.gethostname()}:{2**22 + 1}:1").id
    log(store, run, 30)
    return run


def test_a_whole_store_has_no_problems(store, run):
    assert store.check() == []
    store.finish_run(run, "finished")
    assert store.check() == []


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("UPDATE blob SET data = substr(data, 1, 20)", "cannot be read"),
        ("UPDATE blob SET data = zeroblob(length(data))", "is not what its row says"),
        ("UPDATE blob SET sketch = zeroblob(length(sketch))", "is not what its row says"),
        ("UPDATE chunk SET last = last + 1", "is not what its row says"),
        ("DELETE FROM blob", "cannot be read"),
        ("INSERT INTO flush VALUES (NULL, 1, 1, 3, x'01000000', x'00')", "flush 1 cannot be read"),
        ("INSERT INTO flush VALUES (NULL, 1, 1, 1, x'63000000', zeroblob(24))", "keys that are not known"),
        (
            "INSERT INTO evaluation VALUES ('e', 1, 1, 'i', 0, 't', 'f', 0, 'w', 'done', 0, 0, '{\"schema_version\": 1}')",
            "table evaluation, row e, column report (run 1): not a report",
        ),
    ],
)
def test_damage_is_named(store, run, damage, said):
    store.finish_run(run, "finished")
    db = sqlite3.connect(store.database.path)
    db.execute(damage)
    db.commit()
    assert said in store.check()[0]


def test_the_command_ends_with_1_if_something_is_damaged(store, run):
    store.finish_run(run, "finished")
    done = CliRunner().invoke(app, ["store", "check", "--store", store.location], standalone_mode=False)
    assert (done.return_value, "everything can be read" in done.output) == (0, True)
    db = sqlite3.connect(store.database.path)
    db.execute("DELETE FROM blob")
    db.commit()
    done = CliRunner().invoke(app, ["store", "check", "--store", store.location], standalone_mode=False)
    assert (done.return_value, "2 problems" in done.output) == (1, True)


def test_compacting_changes_no_value_and_leaves_the_living_alone(store, run):
    living = store.create_run("p", "living", owner=environ.owner()).id
    log(store, living, 5)
    before = [store.read_points(one, "x") for one in (run, living)]
    sizes = store.compact()
    assert sizes[1] <= sizes[0]
    with store.database.reading() as db:
        assert db.execute("SELECT DISTINCT run FROM flush").fetchall() == [(living,)]
    for one, was in zip((run, living), before, strict=True):
        points = store.read_points(one, "x")
        assert (points.steps.tolist(), points.values.tolist()) == (was.steps.tolist(), was.values.tolist())
    log(store, living, 5, start=5)
    assert store.check() == []


WRITER = """
import sys, numpy as np
from midflight.store import open_store
from midflight.store.base import Block
store = open_store(sys.argv[1])
run = store.create_run("p", "w", owner="w").id
for i in range(600):
    steps = np.arange(i * 20, (i + 1) * 20)
    store.append_points(run, 1, [Block(("a", "b"), steps, steps * 1.0, np.stack([steps * 1.0, steps * 2.0]))])
    print(i, flush=True)
"""


def test_a_copy_is_whole_though_others_write(tmp_path):
    path = tmp_path / "s.db"
    store = open_store(str(path))
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True)
    copies = []
    for line in writer.stdout:
        if int(line) % 150 == 50:
            copies.append(tmp_path / f"copy{line.strip()}.db")
            assert store.backup(copies[-1]) > 0
    assert writer.wait() == 0
    assert len(copies) == 4
    for copy in copies:
        opened = open_store(str(copy))
        assert opened.check() == []
        a, b = (opened.read_points(1, key) for key in "ab")
        assert a.steps.tolist() == b.steps.tolist() == list(range(len(a.steps)))
        assert (b.values == 2 * a.values).all()


def test_a_copy_replaces_nothing(store, run, tmp_path):
    target = tmp_path / "there.db"
    target.write_text("mine")
    with pytest.raises(StoreError, match="is there already"):
        store.backup(target)
    assert target.read_text() == "mine"
    with pytest.raises(StoreError, match="cannot be written"):
        store.backup(tmp_path / "nothing" / "x.db")
    assert list(tmp_path.glob("*.part")) == []
