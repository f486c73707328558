"""Which records are a run: restarts, resumes, late evaluations, steps that are written twice."""

from __future__ import annotations

import gzip
import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midflight.analyse.importers import ImportedRun, read_any


def runs_of(folder: Path, text: str, name: str = "my_run.log") -> list[ImportedRun]:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return read_any(path)


def points(run: ImportedRun, key: str) -> list[tuple[int, float]]:
    series = run.series[key]
    return list(zip(series.steps.tolist(), series.values.tolist(), strict=True))


def lines(*parts) -> str:
    return "".join(json.dumps({"step": step, "loss": value}) + "\n" for steps, value in parts for step in steps)


def test_a_resume_supersedes_what_was_behind_it(tmp_path):
    (run,) = runs_of(tmp_path, lines((range(10, 101, 10), 1), (range(55, 76, 5), 2)))
    assert points(run, "loss") == [(s, 1) for s in (10, 20, 30, 40, 50)] + [(s, 2) for s in (55, 60, 65, 70, 75)]
    assert run.num_superseded == 5
    assert "resumed once: at step 55 after 100" in run.notes


@pytest.mark.parametrize("first", [0, 1, 10])
def test_a_restart_is_another_run(tmp_path, first):
    runs = runs_of(tmp_path, lines((range(first, 51, 10), 1), (range(first, 31, 10), 2)))
    assert [len(run.series["loss"]) for run in runs] == [len(range(first, 51, 10)), len(range(first, 31, 10))]
    assert [run.series["loss"].values[0] for run in runs] == [1, 2]


def test_a_restart_after_an_evaluation_at_step_0(tmp_path):
    trial = '{"step": 0, "eval_loss": 9}\n' + lines((range(1, 6), 1))
    assert len(runs_of(tmp_path, trial + trial)) == 2
    assert len(runs_of(tmp_path, trial + lines((range(1, 4), 2)))) == 2


def test_late_evaluations_are_no_resume(tmp_path):
    text = lines((range(0, 400, 10), 1)) + "".join(
        json.dumps({"step": s, "eval_loss": s, "epoch": 0}) + "\n" for s in (300, 100, 0, 200)
    )
    (run,) = runs_of(tmp_path, text)
    assert run.series["eval_loss"].steps.tolist() == [0, 100, 200, 300]
    assert (len(run.series["loss"]), run.num_superseded) == (40, 0)
    assert len(runs_of(tmp_path, text + lines((range(0, 50, 10), 2)))) == 2  # a late one hides no restart


def test_a_step_written_twice_has_the_last_value(tmp_path):
    (run,) = runs_of(tmp_path, lines(([1, 2, 2, 3, 3, 3], 1), ([3], 9)))
    assert points(run, "loss") == [(1, 1), (2, 1), (3, 9)]
    assert run.num_superseded == 4


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)), min_size=1, max_size=60))
def test_steps_always_rise_and_each_value_was_logged(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("any") / "a.jsonl"
    path.write_text("".join(f'{{"step": {step}, "loss": {value}}}\n' for step, value in rows))
    runs = read_any(path)
    logged = {(step, float(value)) for step, value in rows}
    kept = 0
    for run in runs:
        found = points(run, "loss")
        kept += len(found) + run.num_superseded
        assert all(a[0] < b[0] for a, b in itertools.pairwise(found))
        assert set(found) <= logged
    assert kept == len(rows)
    last_step, last_value = rows[-1]
    assert (last_step, last_value) in points(runs[-1], "loss")


@given(st.lists(st.integers(1, 500), min_size=1, max_size=40, unique=True))
def test_a_run_logged_once_is_read_as_it_is(tmp_path_factory, steps):
    steps = sorted(steps)
    path = tmp_path_factory.mktemp("any") / "a.jsonl.gz"
    with gzip.open(path, "wt") as file:
        file.write("".join(f'{{"step": {step}, "loss": {step / 7}}}\n' for step in steps))
    (run,) = read_any(path)
    assert points(run, "loss") == [(step, step / 7) for step in steps]
