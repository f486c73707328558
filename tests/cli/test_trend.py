"""Trend, groups, scaling and plot --group as a user runs them: what they print, write and refuse."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from midflight.engines import Fake
from midflight.pipeline import evaluate_checkpoint
from midflight.records import Progress
from midflight.run import Run
from midflight.store import open_store
from midflight.store.base import Block
from midflight.tasks import Task

HOSTILE = "[red]evil[/red] \\[x] $\\frac$"


def midflight(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "midflight", *map(str, arguments)], capture_output=True, text=True, timeout=120
    )


@pytest.fixture
def trained():
    """Two strategies of two seeds, with four checkpoints each, and a run of a hostile name."""
    store = open_store("midflight.db")
    rows = [{"a": a} for a in range(20)]
    task = Task("sums", rows, prompt="{{ a }}", target="1", metrics=["exact_match"])
    for name, gain in (("sft-0", 2), ("sft-1", 3), ("dpo-0", 4), ("dpo-1", 4), (HOSTILE, 1)):
        with Run("p", name, store=store) as run:
            for step in range(0, 400, 100):
                right = gain * step // 100 + 2 + (step == 100)
                engine = Fake(lambda request, right=right: str(int(int(request.item_id) < right)), version=f"{step}")
                evaluate_checkpoint(task, engine, run=run, progress=Progress(step))


@pytest.fixture
def scaled():
    store = open_store("midflight.db")
    for workers in (1, 2, 4):
        info = store.create_run("p", f"n{workers}", owner="x", environment={"world_size": workers})
        steps = np.arange(10, 110, 10)
        walls = 1.7e9 + steps * (0.1 + 0.9 / workers)
        store.append_points(info.id, 1, [Block(("loss",), steps, walls, np.ones((1, 10)))])
        store.finish_run(info.id, "finished")


def cells(line: str) -> list[str]:
    return re.split(r" {2,}", line.strip())


@pytest.mark.usefixtures("trained")
class TestTrend:
    def test_prints_a_row_a_run(self):
        done = midflight("trend", "sft-0", "dpo-0")
        assert (done.returncode, done.stderr) == (0, "")
        row = cells(done.stdout.splitlines()[2])
        assert row[:6] == ["sft-0", "sums", "exact_match", "300", "0.40 [0.22, 0.61]", "4"]
        assert row[6].startswith("yes: 0.9")
        assert row[8].endswith("(runs)")
        assert row[9].startswith("300 (")

    def test_json_has_every_number_with_its_method(self):
        (found,) = json.loads(midflight("trend", "dpo-1", "--json", "--last", 3).stdout)
        assert (found["slope"]["n"], found["slope"]["num_items"], found["best"]["n"]) == (3, 20, 4)
        assert found["best"]["method"] == "shrunken bootstrap of items, 1024, seed 0"
        assert found["best"]["value"] <= found["best"]["measured"] == found["newest"]["value"]

    def test_a_run_without_evaluations_says_so(self):
        with Run("p", "empty", store="midflight.db"):
            pass
        done = midflight("trend", "empty")
        assert (done.returncode, done.stdout) == (0, "nothing was evaluated yet, or nothing has a finite value\n")

    def test_names_are_shown_not_obeyed(self):
        assert "[red]evil[/" in midflight("trend", HOSTILE).stdout
        assert HOSTILE in midflight("groups", "*evil*").stdout
        done = midflight("plot", "--group", "*evil*", "-m", "exact_match", "-o", "evil.svg")
        assert (done.returncode, Path("evil.svg").stat().st_size > 3000) == (0, True)


@pytest.mark.usefixtures("trained")
class TestGroups:
    def test_prints_runs_curves_and_differences(self):
        done = midflight("groups", r"(sft|dpo)-\d")
        assert (done.returncode, done.stderr) == (0, "")
        lines = [cells(line) for line in done.stdout.splitlines()]
        assert ["dpo", "2", "dpo-0, dpo-1"] in lines
        assert ["step", "dpo", "sft", "without a value"] in lines
        assert lines[-1][:4] == ["sums", "exact_match", "300", "sft − dpo"]
        assert "Welch's t" in lines[-1]
        assert ["100", "0.35 n=2", "0.28 [-0.04, 0.59] n=2"] in lines  # two equal seeds prove nothing

    def test_pairs_and_json(self):
        found = json.loads(midflight("groups", "sft-*", "dpo-*", "--paired", "--json").stdout)
        assert found["differences"][0]["difference"]["method"] == "paired t"
        assert found["curves"][0]["points"][1]["values"] == {"sft-0": 0.25, "sft-1": 0.3}
        assert found["aggregates"] == []

    def test_a_picture_of_groups(self):
        done = midflight("plot", "--group", "sft-*", "--group", "dpo-*", "-m", "exact_match", "-o", "g.svg")
        assert (done.returncode, done.stdout) == (0, "")
        drawn = Path("g.svg").read_text()
        for text in ("sums: exact_match", "sft-*", "dpo-*", "mean of 2 runs, 95% t-interval over them"):
            assert f"<!-- {text} -->" in drawn


@pytest.mark.usefixtures("scaled")
class TestScaling:
    def test_prints_the_runs_the_law_and_what_it_predicts(self):
        done = midflight("scaling", "n1", "n2", "n4", "-o", "s.png")
        assert (done.returncode, done.stderr) == (0, "midflight: s.png: runs: 3\n")
        lines = [cells(line) for line in done.stdout.splitlines()]
        assert ["n4", "4", "29 s", "3.077", "3.08", "77%"] in lines
        assert "serial fraction 0.1 " in done.stdout
        assert any(line[0] == "16" and line[-1].startswith("extrapolated") for line in lines)
        assert Path("s.png").stat().st_size > 10_000

    def test_two_runs_have_no_interval(self):
        done = midflight("scaling", "n1", "n2", "--nodes", "n1=2", "--nodes", "n2=4", "--at", 3, "--json")
        found = json.loads(done.stdout)
        assert (found["law"]["note"], found["law"]["ci_low"]) == ("two runs give no interval", None)
        assert [(p["count"], p["is_extrapolated"]) for p in found["predictions"]] == [(3, False)]
        assert "Amdahl's law needs times of two different counts" in midflight("scaling", "n1").stdout


BAD = [
    (["trend", "zzz"], "no run 'zzz'"),
    (["trend", "n1", "--last", "2"], "Invalid value for '--last'"),
    (["trend", "n1", "--seed", "-1"], "--seed; got -1"),
    (["trend", "n1", "--task", "t"], "evaluated tasks of these runs"),
    (["groups", "zzz*"], "no run has the name; got 'zzz"),
    (["groups", "n1", "--by", "age"], "--by; got 'age'"),
    (["plot", "n1", "--group", "n*", "-m", "x", "-o", "x.png"], "runs and --group"),
    (["plot", "-m", "x", "-o", "x.png"], "runs and --group"),
    (["plot", "--group", "n*", "-m", "x", "-o", "x.png", "--x", "epoch"], "--group; allowed: without --by"),
    (["plot", "--group", "n*", "-m", "loss", "-o", "x.png"], "metrics of these runs"),
    (["scaling", "n1", "--nodes", "n1"], "--nodes; got 'n1'"),
    (["scaling", "n1", "--nodes", "n1=0"], "--nodes; got 'n1=0'"),
    (["scaling", "n1", "--by", "nodes"], "workers of run 'n1': config key 'nodes'; got None"),
    (["scaling", "n1", "n2", "-o", "x.gif"], "ends in .png, .svg or .pdf"),
]


@pytest.mark.usefixtures("scaled")
@pytest.mark.parametrize(("arguments", "message"), BAD, ids=[" ".join(a) for a, _ in BAD])
def test_bad_input_is_one_line_and_exit_code_2(arguments, message):
    done = midflight(*arguments)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert message in done.stderr
    assert not list(Path().glob("x.*"))
