"""What a killed training has copied and not evaluated is evaluated by the one that goes on with its run."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import midflight as mf
from midflight.dispatch import seal, shared_folder
from midflight.engines._weights import weights_digest
from midflight.store import open_store

ROWS = [{"a": a} for a in range(40)]


class Weighed(mf.engines.Fake):
    """Answers as many items right as its weight says, so that a result tells which weights it is of."""

    def __init__(self, delay_s: float = 0.0):
        super().__init__("", delay_s=delay_s)
        self.model = torch.nn.Linear(1000, 1, bias=False)
        self.train(0)

    def train(self, step: int) -> None:
        with torch.no_grad():
            self.model.weight.fill_(float(step))

    def modules(self):
        return [self.model]

    def weights(self) -> str:
        return weights_digest(self.model)

    def run(self, requests):
        right = int(self.model.weight[0, 0].item())
        self.answers = lambda request: request.item_id if int(request.item_id) < right else "wrong"
        return super().run(requests)


def task() -> mf.Task:
    return mf.Task("t", ROWS, id="a", prompt="{{ a }}", target="a", metrics=["exact_match"])


TRAIN = """
import json, os, pathlib, sys, time
import midflight as mf
from midflight.dispatch import Process
from test_seal import Weighed, task
folder, mode, run_name = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
store = mf.open_store(str(folder / "s.db"))
run = mf.Run("p", run_name, store=store, resume="must" if store.runs(name=run_name) else "never")
engine = Weighed(0.0 if mode == "held" else 0.005)
dispatcher = Process(max_waiting=9, snapshot_dir=folder / "copies")
ev = mf.Evaluator(mf.EvaluatorConfig(async_mode=True, freq_steps=10), [task()], engine, run, dispatcher=dispatcher, quiet=True)
state = folder / "state"
if state.exists():
    ev.load_state_dict(json.loads(state.read_text()))
engine.train(ev.freq_ctl.progress.step)
held = mode == "held" and run.attempt == 1
if held:
    dispatcher.pause()
ev.start(step=5 if mode == "again" else None)
for step in range(ev.freq_ctl.progress.step + 1, 37):
    engine.train(step)
    if not held:
        time.sleep(0.02)
    ev.step(step)
    (folder / "new").write_text(json.dumps(ev.state_dict()))
    os.replace(folder / "new", state)
    if held and step == 35:
        while len(list((folder / "copies").glob("*/*.seal.json"))) < 3:
            time.sleep(0.01)
        print("held", flush=True)
        time.sleep(600)
ev.finish()
run.finish()
"""


def train(folder: Path, mode: str, run: str = "r") -> subprocess.Popen:
    (folder / "copies").mkdir(exist_ok=True)
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    words = [sys.executable, "-c", TRAIN, str(folder), mode, run]
    return subprocess.Popen(words, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE)


def kill_with_three_copies(folder: Path) -> dict[Path, dict]:
    job = train(folder, "held")
    assert job.stdout.readline() == b"held\n"
    job.kill()
    job.communicate()
    (left,) = (folder / "copies").iterdir()
    return seal.seals(left)


def go_on(folder: Path, run: str = "r", mode: str = "free") -> None:
    job = train(folder, mode, run)
    job.communicate(timeout=120)
    assert job.returncode == 0


def results(folder: Path) -> list[tuple]:
    """Step, weights, value and counts of each evaluation."""
    store = open_store(str(folder / "s.db"))
    found = [report for run in store.runs() for report in store.reports(run.id)]
    return [(r.progress.step, r.weights, r.estimate("exact_match").value, r.estimate("exact_match").n) for r in found]


def wanted(*steps: int) -> list[tuple]:
    found = []
    for step in steps:
        engine = Weighed()
        engine.train(step)
        found.append((step, engine.weights(), step / len(ROWS), len(ROWS)))
    return found


def lost(folder: Path) -> list[int]:
    store = open_store(str(folder / "s.db"))
    return [step for run in store.runs() for _, step, _ in store.missing(run.id)]


def test_copies_of_a_killed_training_are_evaluated_by_the_next(tmp_path):
    copies = kill_with_three_copies(tmp_path)
    assert sorted(note["progress"]["step"] for note in copies.values()) == [10, 20, 30]
    go_on(tmp_path)
    assert results(tmp_path) == wanted(10, 20, 30, 36)
    assert lost(tmp_path) == []
    assert list((tmp_path / "copies").iterdir()) == []


def test_what_is_not_whole_or_not_wanted_is_lost_and_said_to_be(tmp_path):
    """The first has no seal, the second is damaged, of the third the shape is not that of the model."""
    (first, second, third) = sorted(kill_with_three_copies(tmp_path), key=lambda path: path.name)
    first.with_suffix(seal.SUFFIX).unlink()
    with second.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\x07")
    third.write_bytes(third.read_bytes() + b"\0")
    go_on(tmp_path)
    assert results(tmp_path) == wanted(36)
    assert lost(tmp_path) == [10, 20, 30]
    assert list((tmp_path / "copies").iterdir()) == []


def test_weights_of_a_future_that_is_trained_again_are_not_adopted(tmp_path):
    """The job goes on from the weights of step 5: what came after them comes again."""
    kill_with_three_copies(tmp_path)
    (tmp_path / "state").unlink()
    go_on(tmp_path, mode="again")
    assert results(tmp_path) == wanted(10, 20, 30, 36)
    assert list((tmp_path / "copies").iterdir()) == []


def test_another_run_leaves_them_alone_for_an_hour(tmp_path, monkeypatch):
    copies = kill_with_three_copies(tmp_path)
    (tmp_path / "state").rename(tmp_path / "kept")
    go_on(tmp_path, "other")
    assert all(map(seal.is_right, copies))
    assert len(results(tmp_path)) == 4
    monkeypatch.setattr(shared_folder, "KEEP_S", 0.0)
    mine = shared_folder.shared_folder(tmp_path / "copies")
    assert list((tmp_path / "copies").iterdir()) == [mine]


def test_a_seal_is_gone_before_the_copy_is_written_over(tmp_path):
    path = tmp_path / "a.safetensors"
    path.write_bytes(b"weights" * 1000)
    first = seal.Seal(path, {"run": "r"})
    first._thread.join()
    assert seal.seals(tmp_path) == {path: {"run": "r"}}
    assert seal.is_right(path)
    path.write_bytes(b"weights" * 1001)
    assert not seal.is_right(path)
    first.open()
    assert seal.seals(tmp_path) == {}
    (tmp_path / f"b{seal.SUFFIX}").write_text("[1, 2")
    (tmp_path / f"c{seal.SUFFIX}").write_text('{"note": {}}')  # its copy is gone
    assert seal.seals(tmp_path) == {}


@pytest.mark.parametrize("seed", range(2))
def test_kills_at_any_moment_give_no_wrong_number(tmp_path, seed):
    """Each evaluation that was due is there once, of its own weights, or recorded as lost; nothing is left behind."""
    draw = random.Random(seed)
    for _ in range(4):
        job = train(tmp_path, "free")
        begun = time.monotonic()
        while not (tmp_path / "state").exists() and time.monotonic() - begun < 30:
            time.sleep(0.01)
        try:
            job.wait(draw.uniform(0.0, 4.0))
        except subprocess.TimeoutExpired:
            job.kill()
        job.communicate()
    go_on(tmp_path)
    found = results(tmp_path)
    steps = [step for step, *_ in found]
    assert found == wanted(*steps)
    assert len(set(steps)) == len(steps)
    assert {*steps, *lost(tmp_path)} == {10, 20, 30, 36}
    assert 36 in steps
    assert list((tmp_path / "copies").iterdir()) == []
