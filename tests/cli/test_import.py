"""`midflight import` as a user runs it, on logs like real ones, in real processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from midflight.analyse.importers import read_any, store_runs
from midflight.errors import StoreError
from midflight.store import open_store

NASTY = "[bold red]x[/bold red]\x1b[31m\x1b]0;owned\x07\u202e"


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "midflight", *arguments]


def midflight(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def log(tmp_path) -> Path:
    """Two trials of one run, the second one with a NaN; hostile text between."""
    rows = [{"step": s, "train/loss": 3 - s / 100, "val_loss": 3.0} for s in range(10, 101, 10)]
    rows += [{"step": s, "train/loss": 2.0 if s < 30 else float("nan"), NASTY: 1} for s in range(10, 41, 10)]
    path = tmp_path / "my_run.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + NASTY + "\n")
    return path


def test_runs_are_in_the_store_and_shown_as_finished(log):
    done = midflight("import", str(log))
    assert done.returncode == 0, done.stderr
    assert "my_run-2" in done.stdout
    assert "run 2 in one file: begins again at step 10, after 100" in done.stdout
    assert "not read: 1 other lines" in done.stdout
    assert "\x1b]0;" not in done.stdout
    store = open_store("midflight.db")
    second, first = store.runs("imported")
    assert (first.name, first.status, first.tags) == ("my_run", "finished", ["imported"])
    assert first.environment["import"]["eval_keys"] == ["val_loss"]
    points = store.read_points(second.id, "train/loss")
    assert points.steps.tolist() == [10, 20, 30, 40]
    assert points.values[:2].tolist() == [2.0, 2.0]
    assert np.isnan(points.values[2:]).all()
    assert points.walls.tolist() == [log.stat().st_mtime] * 4
    assert "finished" in midflight("runs").stdout
    assert "train/loss" in midflight("show", "my_run").stdout


def test_the_same_content_is_imported_once(log, tmp_path):
    midflight("import", str(log))
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(log.read_bytes())
    again = midflight("import", str(copy), "--json")
    assert [(run["run"], run["name"], run["is_new"]) for run in json.loads(again.stdout)] == [
        (1, "my_run", False), (2, "my_run-2", False)
    ]  # fmt: skip
    assert len(open_store("midflight.db").runs()) == 2
    assert "already there" in midflight("import", str(log)).stdout
    with log.open("a") as file:
        file.write('{"step": 50, "train/loss": 1.0}\n')
    grown = json.loads(midflight("import", str(log), "--project", "imported", "--json").stdout)
    assert [run["is_new"] for run in grown] == [True, True]


def test_name_project_and_what_json_says(log):
    done = midflight("import", str(log), "--run", "mine", "--project", "p", "--json")
    first, second = json.loads(done.stdout)
    assert (first["name"], second["name"], first["project"]) == ("mine", "mine-2", "p")
    assert first["series"]["train/loss"] == {
        "canonical": "loss", "evaluation": False, "num_points": 10, "first_step": 10, "last_step": 100, "last_value": 2.0
    }  # fmt: skip
    assert second["series"]["train/loss"]["last_value"] == "NaN"
    assert first["unread"][0]["kind"] == "other lines"


@pytest.mark.parametrize(
    "arguments",
    [["absent.log"], ["empty.log"], ["empty"], ["a.jsonl", "--run", " "], ["a.jsonl", "--project", "x\ny"], ["a.jsonl", "absent.log"]],
)  # fmt: skip
def test_bad_input_ends_in_one_line_and_writes_nothing(tmp_path, arguments):
    (tmp_path / "empty.log").touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "a.jsonl").write_text('{"step": 1, "loss": 2.0}\n')
    done = midflight("import", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("midflight: ")
    assert done.stderr.count("\n") == 1
    assert not Path("midflight.db").exists() or open_store("midflight.db").runs() == []


KILLED = """
import os, signal, sys
from midflight.store.sqlite import SQLiteStore
SQLiteStore.append_points = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
from midflight.analyse.importers import read_any, store_runs
from midflight.store import open_store
store_runs(read_any(sys.argv[1]), open_store("midflight.db"), "imported")
"""


def test_an_import_that_was_killed_is_made_up_for(log):
    assert subprocess.run([sys.executable, "-c", KILLED, str(log)], check=False).returncode == -9
    store = open_store("midflight.db")
    assert [run.status for run in store.runs()] == ["running"]
    assert midflight("import", str(log)).returncode == 0
    assert [(run.id, run.status) for run in store.runs()] == [(2, "finished"), (1, "finished")]
    assert len(store.read_points(1, "train/loss").steps) == 10


def test_an_import_that_failed_is_made_up_for(log, store, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(type(store), "append_points", lambda *_: (_ for _ in ()).throw(StoreError("full")))
        with pytest.raises(StoreError, match="full"):
            store_runs(read_any(log), store, "p")
    assert [run.status for run in store.runs()] == ["failed"]
    assert [one.is_new for one in store_runs(read_any(log), store, "p")] == [True, True]
    assert [run.status for run in store.runs()] == ["finished", "finished"]


def test_processes_that_import_the_same_at_once_add_it_once(log):
    open_store("midflight.db").runs()
    processes = [subprocess.Popen(command("import", str(log)), stdout=-1, stderr=-1, text=True) for _ in range(3)]
    for process in processes:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0 or (process.returncode == 2 and "by another process" in err), out + err
    assert sorted(run.name for run in open_store("midflight.db").runs()) == ["my_run", "my_run-2"]


def test_a_run_of_that_name_that_trains_is_left_alone(log, store):
    info = store.create_run("p", "my_run", owner="somebody")
    stored = store_runs(read_any(log), store, "p")
    assert info.id not in [one.info.id for one in stored]
    assert store.keys(info.id) == []


@pytest.mark.data
def test_a_folder_of_real_logs(data):
    done = midflight("import", str(data / "runs" / "wordle_gemma3_sft_b"), str(data / "runs" / "orpo_recsys"))
    assert done.returncode == 0, done.stderr
    assert "10 – 1,080" in done.stdout
    assert [run.name for run in open_store("midflight.db").runs()] == ["orpo_recsys", "wordle_gemma3_sft_b"]
