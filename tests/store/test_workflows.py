"""Executions and their trail in the store; and stores of version 1, which knew neither."""

from __future__ import annotations

import dataclasses
import os
import sqlite3
from pathlib import Path

import pytest

from midflight.errors import LeaseLostError, StoreError
from midflight.records import Actor, Execution, WorkflowStep
from midflight.store import open_store
from midflight.store._database import VERSION
from midflight.store.leases import Leases

ME = Actor("me@host:1", {"commit": "c0ffee"})


def execution(id: str = "e1", **changes) -> Execution:
    steps = [WorkflowStep(0, "a", "command"), WorkflowStep(1, "b", "promote")]
    values = ("ship", "d" * 64, "math", "/ckpt/5", "f" * 64, "v1", "running", "", 1.0)
    return dataclasses.replace(Execution(id, *values, steps=steps), **changes)


def test_what_is_written_is_read(store):
    assert store.execution("e1") is None
    assert store.begin_execution(execution(), 1, ME) == execution()
    step = WorkflowStep(1, "b", "promote", "done", 2, "", {"previous": None}, {"x": float("inf"), "text": "ü\ud800"})
    store.record_step("e1", 1, step, "done", ME, {"n": 1})
    store.record_execution("e1", 1, "failed", "ended", ME, "because")
    found = store.execution("e1")
    assert (found.status, found.reason, found.step("a").status) == ("failed", "because", "pending")
    assert found.step("b") == dataclasses.replace(step, result={"x": "Infinity", "text": "ü\\ud800"})
    with pytest.raises(KeyError, match="ship has no step 'c'; it has a, b"):
        found.step("c")
    trail = store.audit()
    assert [(event.step, event.event) for event in trail] == [("", "begun"), ("b", "done"), ("", "ended")]
    assert {(event.who, event.git["commit"], event.weights) for event in trail} == {("me@host:1", "c0ffee", "f" * 64)}


def test_the_trail_of_a_project_or_an_execution(store):
    for id, project in (("e1", "math"), ("e2", "code"), ("e3", "math")):
        store.begin_execution(execution(id, project=project), 1, ME)
    assert [event.execution for event in store.audit("math")] == ["e1", "e3"]
    assert [event.execution for event in store.audit(execution="e2")] == ["e2"]
    assert len(store.audit()) == 3


def test_only_the_last_sitting_writes(store):
    store.begin_execution(execution(), 3, ME)
    with pytest.raises(LeaseLostError):
        store.begin_execution(execution(), 3, ME)
    store.begin_execution(execution(), 4, ME)
    before = store.audit()
    with pytest.raises(LeaseLostError, match="another process carries out execution e1"):
        store.record_step("e1", 3, WorkflowStep(0, "a", "command", "done"), "done", ME)
    with pytest.raises(LeaseLostError):
        store.record_execution("e1", 3, "done", "done", ME)
    assert (store.execution("e1"), store.audit()) == (execution(), before)


def test_a_lease_of_a_process_that_is_gone_is_free_at_once(store):
    child = os.fork()
    if not child:
        from midflight import environ

        store.take_lease("x", environ.owner())
        os._exit(0)
    os.waitpid(child, 0)
    leases = Leases(store, "me", dead_s=1e9)
    with leases.held("x") as lease:
        assert lease is not None
    store.take_lease("y", "another-host:1:1")
    with leases.held("y") as lease:
        assert lease is None


class TestVersion1:
    @pytest.fixture
    def old(self, tmp_path) -> Path:
        """A file made by the tables of version 1, as they were."""
        path = tmp_path / "old.db"
        db = sqlite3.connect(path)
        db.execute("PRAGMA journal_mode=WAL")
        db.executescript((Path(__file__).parent / "version_1.sql").read_text())
        db.close()
        return path

    def test_it_is_upgraded_and_keeps_what_it_has(self, old, tmp_path):
        for _ in range(2):
            store = open_store(str(old))
            assert [(run.project, run.name) for run in store.runs()] == [("math", "mt4")]
            assert store.lease_owner("x") == "host:1:1"
            store.close()
        store = open_store(str(old))
        store.begin_execution(execution(), 1, ME)
        assert len(store.audit()) == 1
        new = open_store(str(tmp_path / "new.db"))
        schema = "SELECT type, name, sql FROM sqlite_master ORDER BY name"
        same = [s.database.connection.execute(schema).fetchall() for s in (store, new)]
        assert same[0] == same[1]
        assert store.database.connection.execute("PRAGMA user_version").fetchone() == (VERSION,)

    def test_all_of_it_or_nothing(self, old):
        db = sqlite3.connect(old)
        db.execute("CREATE TABLE audit (x)")  # in the way of the last table
        db.commit()
        with pytest.raises(StoreError, match="audit"):
            open_store(str(old))
        names = {row[0] for row in db.execute("SELECT name FROM sqlite_master")}
        assert "execution" not in names
        assert db.execute("PRAGMA user_version").fetchone() == (1,)

    def test_many_processes_open_it_at_once(self, old):
        import multiprocessing

        with multiprocessing.get_context("spawn").Pool(4) as pool:
            assert pool.map(_open, [str(old)] * 8) == [1] * 8


def _open(path: str) -> int:
    return len(open_store(path).runs())
