"""Evaluations beside training, in real processes: same numbers, training untouched, whatever dies when."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
import torch

import midflight as mf
from conftest import tiny_llama
from midflight.dispatch import Process, process
from midflight.dispatch.shared_folder import shared_folder
from midflight.errors import CapabilityError, DispatchError, EvaluationError, StoreError
from midflight.evaluator import beside_training
from midflight.store import open_store

ROWS = [{"a": a, "b": a + 1} for a in range(8)]


def sums(name: str = "sums", rows=ROWS, **changes) -> mf.Task:
    fields = {"prompt": "{{ a }}+{{ b }}=", "target": "a + b", "metrics": ["exact_match"]}
    return mf.Task(name, rows, **{**fields, **changes})


class Gate:
    """An answer that waits until a file is there; says in another that it was asked, and by which process."""

    def __init__(self, folder: Path):
        self.folder = folder

    def __call__(self, request) -> str:
        with (self.folder / "asked").open("a") as file:
            file.write(f"{request.item_id} {os.getpid()}\n")
        while not (self.folder / "open").exists():
            time.sleep(0.01)
        return "1"

    def asked(self) -> list[str]:
        path = self.folder / "asked"
        return [line.split()[0] for line in path.read_text().splitlines()] if path.exists() else []

    def pid(self) -> int:
        """The process that waits at the gate."""
        deadline = time.monotonic() + 60
        while not self.asked():
            assert time.monotonic() < deadline, "no worker has begun"
            time.sleep(0.01)
        return int((self.folder / "asked").read_text().split()[-1])

    def open(self) -> None:
        (self.folder / "open").touch()


def evaluator(engine, tasks=None, **config) -> mf.Evaluator:
    config = {"async_mode": True, "freq_steps": 10, **config}
    return mf.Evaluator(mf.EvaluatorConfig(**config), tasks or [sums()], engine, config.pop("run", None), quiet=True)


class TestRealTraining:
    def train(self, tokenizer, run=None, **config) -> list[float]:
        """Twelve steps with dropout; the losses, exactly."""
        model = tiny_llama(tokenizer, attention_dropout=0.1).train()
        optimiser = torch.optim.AdamW(model.parameters(), 1e-2)
        torch.manual_seed(3)
        tokens = torch.randint(0, len(tokenizer), (4, 16), generator=torch.Generator().manual_seed(1))
        losses = []

        def update() -> None:
            loss = model(tokens, labels=tokens).loss
            loss.backward()
            optimiser.step()
            optimiser.zero_grad()
            losses.append(loss.item())

        if run is None:
            for _ in range(12):
                update()
            return losses
        task = sums(sampling={"max_tokens": 3}, metrics=["exact_match", "token_entropy"])
        settings = mf.EvaluatorConfig(freq_steps=4, eval_before_train=True, max_waiting=9, **config)
        with mf.Evaluator(settings, [task], mf.engines.HF(model, tokenizer), run, quiet=True) as ev:
            for step in range(1, 13):
                update()
                ev.step(step)
        run.finish()
        return losses

    def test_numbers_are_those_of_the_loop_and_losses_those_of_no_evaluation(self, word_tokenizer):
        none = self.train(word_tokenizer)
        waited = self.train(word_tokenizer, mf.Run("p", "loop"))
        beside = self.train(word_tokenizer, mf.Run("p", "beside"), async_mode=True)
        assert none == waited == beside
        store = mf.open_store()
        loop, apart = (
            [
                (r.progress.step, r.weights, r.task_fingerprint, e.metric, e.value, e.stderr, e.ci_low, dict(e.counts))
                for r in store.reports(store.runs(name=name)[0].id)
                for e in r.estimates
                if e.metric in ("exact_match", "token_entropy")
            ]
            for name in ("loop", "beside")
        )
        assert loop == apart
        assert {row[0] for row in apart} == {0, 4, 8, 12}
        assert len({row[1] for row in apart}) == 4
        shares = [r.cost.train_share for r in store.reports(store.runs(name="beside")[0].id)]
        assert all(0 <= share < 1 for share in shares)


class TestBusy:
    """The first weights are held at a gate; what becomes of those that come after?"""

    def steps(self, tmp_path, **config) -> tuple[list[int], list[tuple[str, int, str]], mf.Evaluator]:
        gate = Gate(tmp_path)
        with mf.Run("p", "r") as run:
            ev = mf.Evaluator(
                mf.EvaluatorConfig(async_mode=True, freq_steps=10, **config),
                [sums()],
                mf.engines.Fake(gate),
                run,
                quiet=True,
            )
            with ev:
                for step in range(1, 46):
                    ev.step(step)
                    if step == 10:
                        gate.pid()
                gate.open()
        store = mf.open_store()
        return [r.progress.step for r in store.reports(run.id)], store.missing(run.id), ev

    def test_queue(self, tmp_path):
        done, missing, _ = self.steps(tmp_path, max_waiting=2)
        assert done == [10, 20, 30, 45]
        assert missing == [("sums", 40, "skipped: 3 snapshots are in use or wait")]

    def test_latest(self, tmp_path):
        done, missing, _ = self.steps(tmp_path, when_busy="latest")
        assert done == [10, 45]
        assert missing == [
            ("sums", 20, "superseded: by the weights of step 30"),
            ("sums", 30, "superseded: by the weights of step 40"),
            ("sums", 40, "superseded: by the weights of step 45"),
        ]

    def test_skip(self, tmp_path):
        done, missing, _ = self.steps(tmp_path, when_busy="skip")
        assert done == [10, 45]
        assert [step for _, step, _ in missing] == [20, 30, 40]
        assert "earlier weights are still being evaluated" in missing[0][2]

    def test_the_loop_does_not_wait(self, tmp_path):
        gate = Gate(tmp_path)
        ev = evaluator(mf.engines.Fake(gate), max_waiting=3)
        ev.start()
        for step in range(1, 100):
            assert ev.step(step) == []
        gate.open()
        assert [r.progress.step for r in ev.finish()] == [10, 20, 30, 40, 99]

    def test_a_sentinel_comes_first(self, tmp_path):
        gate, order = Gate(tmp_path), []
        ev = mf.Evaluator(
            mf.EvaluatorConfig(async_mode=True, freq_steps=10, max_waiting=3, priorities={"sentinel": 1}),
            [sums("long"), sums("sentinel")],
            mf.engines.Fake(gate),
            on_report=lambda r: order.append((r.task, r.progress.step)),
            quiet=True,
        )
        ev.start()
        for step in range(1, 21):
            ev.step(step)
            if step == 10:
                gate.pid()
        gate.open()
        ev.finish()
        assert order == [("sentinel", 10), ("sentinel", 20), ("long", 10), ("long", 20)]

    def test_results_are_delivered_in_the_thread_of_the_loop(self):
        threads = []
        ev = mf.Evaluator(
            mf.EvaluatorConfig(async_mode=True, freq_steps=1),
            [sums()],
            mf.engines.Fake("1"),
            on_report=lambda report: threads.append(threading.current_thread()),
            quiet=True,
        )
        with ev:
            ev.step(1)
            while not (found := ev.poll()):
                time.sleep(0.01)
        assert [r.progress.step for r in found] == [1]
        assert threads == [threading.main_thread()]


class TestFaults:
    def test_a_worker_that_is_killed_costs_nothing(self, tmp_path):
        """kill -9 in the middle: what was committed is not asked again, and each item counts once."""
        gate = Gate(tmp_path)
        with mf.Run("p", "r") as run:
            ev = mf.Evaluator(mf.EvaluatorConfig(async_mode=True), [sums()], mf.engines.Fake(gate), run, quiet=True)
            ev.start()
            ev.step(1)
            ev._way.measure(ev.tasks, ev.freq_ctl.progress)
            os.kill(gate.pid(), signal.SIGKILL)
            gate.open()
            (report,) = ev.finish()
        assert (report.status, report.estimate("exact_match").n) == ("done", 8)
        asked = Counter(gate.asked())
        assert asked == {item.id: 2 if item.id == "000000" else 1 for item in sums().items}

    def test_one_that_dies_every_time_is_given_up(self, caplog):
        ev = evaluator(mf.engines.Fake(Suicide()), freq_steps=5)
        ev.start()
        for step in range(1, 6):
            ev.step(step)
        assert ev.finish() == []
        assert "evaluation at step 5 failed: sums: failed: its worker died, 4 times" in caplog.text

    def test_an_engine_that_hangs_gives_a_partial_result(self, tmp_path, monkeypatch):
        monkeypatch.setattr(beside_training, "GRACE_S", 0.5)
        gate = Gate(tmp_path)
        answers = HangAt("000005", gate)
        with mf.Run("p", "r") as run:
            ev = mf.Evaluator(
                mf.EvaluatorConfig(async_mode=True, limit_s=3.0), [sums()], mf.engines.Fake(answers), run, quiet=True
            )
            with ev:
                ev.step(1)
        (report,) = mf.open_store().reports(run.id)
        found = report.estimate("exact_match")
        assert (report.status, found.n, found.partial) == ("partial", 8, True)
        assert found.num_scored + found.counts["not_run"] == 8
        assert 2 <= found.num_scored <= 5  # what was committed: all but the last half second

    def test_what_is_slow_is_cut_at_the_limit(self):
        with mf.Run("p", "r") as run:
            ev = mf.Evaluator(
                mf.EvaluatorConfig(async_mode=True, limit_s=0.5),
                [sums(rows=[{"a": a, "b": 1} for a in range(1000)])],
                mf.engines.Fake("1", delay_s=0.01),
                run,
                quiet=True,
            )
            with ev:
                ev.step(1)
        (report,) = ev.reports
        assert report.status == "partial"
        assert 0 < report.estimate("exact_match").num_scored < 1000

    def test_what_raises_is_reported_and_training_goes_on(self, caplog):
        ev = evaluator(mf.engines.Fake(Raises()))
        ev.start()
        for step in range(1, 21):
            ev.step(step)
        ev.finish()
        assert "evaluation at step 10 failed: sums: failed: ZeroDivisionError" in caplog.text
        assert ev.state_dict()["evaluations"] == {"measured": {}, "open": []}
        strict = evaluator(mf.engines.Fake(Raises()), on_error="raise")
        strict.start()
        strict.step(10)
        with pytest.raises(EvaluationError, match="ZeroDivisionError"):
            strict.finish()

    def test_a_store_out_of_reach_is_waited_for(self, tmp_path, monkeypatch):
        monkeypatch.setattr(process, "STORE_S", 0.05)
        (report,) = self.with_store_out_of_reach(tmp_path, times=2)
        assert report.status == "done"

    def test_but_not_for_ever(self, tmp_path, monkeypatch, caplog):
        monkeypatch.setattr(process, "STORE_S", 0.05)
        assert self.with_store_out_of_reach(tmp_path, times=99) == []
        assert "StoreError: out of reach, 4 times" in caplog.text

    def with_store_out_of_reach(self, tmp_path, times: int):
        ev = evaluator(mf.engines.Fake(OutOfReach(tmp_path, times)))
        ev.start()
        for step in range(1, 11):
            ev.step(step)
        return ev.finish()

    def test_an_engine_that_no_other_process_can_have_is_refused_before_training(self):
        engine = mf.engines.Fake("1")
        engine.lock = threading.Lock()
        with pytest.raises(CapabilityError, match="Fake cannot be handed to another process"):
            evaluator(engine).start()

    def test_a_task_that_no_other_process_can_have(self):
        lock = threading.Lock()
        task = mf.Task(
            "held", lambda: [{"a": 1, "b": lock and 2}], prompt="{{ a }}", target="b", metrics=["exact_match"]
        )
        with pytest.raises(CapabilityError, match="task 'held' cannot be handed to another process"):
            evaluator(mf.engines.Fake("1"), [task]).start()

    def test_no_room_for_a_snapshot_is_said_and_training_goes_on(self, word_tokenizer, tmp_path, monkeypatch, caplog):
        model = tiny_llama(word_tokenizer)
        ev = evaluator(mf.engines.HF(model, word_tokenizer))
        ev.start()

        def full(*_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "posix_fallocate", full)
        for step in range(1, 16):
            ev.step(step)
        assert "evaluation at step 10 failed: sums: failed: DispatchError: no room for a snapshot" in caplog.text
        ev._way.close()

    def test_a_folder_that_is_not_there_is_refused_before_training(self):
        with pytest.raises(DispatchError, match="snapshot_dir: /nope is no folder; make it"):
            evaluator(mf.engines.Fake("1"), snapshot_dir="/nope").start()

    def test_finish_waits_no_longer_than_it_may(self, tmp_path, caplog):
        gate = Gate(tmp_path)
        ev = evaluator(mf.engines.Fake(gate), finish_s=0.5)
        ev.start()
        ev.step(1)
        assert ev.finish() == []
        assert "finish_s = 0.5 s are over" in caplog.text

    def test_a_model_that_changes_its_shape_and_a_program_that_moves(self, word_tokenizer, tmp_path, monkeypatch):
        model = tiny_llama(word_tokenizer)
        with mf.Run("p", "r") as run:
            config = mf.EvaluatorConfig(async_mode=True, freq_steps=1, max_waiting=3)
            ev = mf.Evaluator(
                config, [sums(sampling={"max_tokens": 2})], mf.engines.HF(model, word_tokenizer), run, quiet=True
            )
            with ev:
                ev.step(1)
                model.resize_token_embeddings(len(word_tokenizer) + 8)
                ev.step(2)
                monkeypatch.chdir(tmp_path.parent)
                ev.step(3)
        assert [(r.progress.step, r.status) for r in ev.reports] == [(1, "done"), (2, "done"), (3, "done")]
        assert [r.progress.step for r in run.store.reports(run.id)] == [1, 2, 3]
        assert len({r.weights for r in ev.reports[:2]}) == 2

    def test_after_finish_it_is_closed(self, caplog):
        ev = evaluator(mf.engines.Fake("1"), freq_steps=1)
        with ev:
            ev.step(1)
        ev.step(2)
        assert "the dispatcher was closed" in caplog.text
        assert [r.progress.step for r in ev.reports] == [1]

    def test_nothing_is_left_behind(self, tmp_path):
        folder = tmp_path / "snapshots"
        folder.mkdir()
        ev = evaluator(mf.engines.Fake("1"), snapshot_dir=str(folder))
        ev.start()
        ev.step(10)
        ev.finish()
        assert list(folder.iterdir()) == []
        assert not [t for t in threading.enumerate() if t.name == "midflight-dispatch" and t.is_alive()]


class Slow:
    """Right for every second item, after a moment; counts how often each was asked."""

    def __init__(self, folder: Path):
        self.folder = folder

    def __call__(self, request) -> str:
        with (self.folder / "asked").open("a") as file:
            file.write(f"{request.item_id} {os.getpid()}\n")
        time.sleep(0.02)
        return str(2 * int(request.item_id) + 1) if int(request.item_id) % 2 else "no"


@pytest.mark.parametrize("seed", range(2))
def test_kills_at_any_moment_change_no_number(tmp_path, seed):
    """Workers die at random moments of several evaluations; every item counts once, and estimates are those of calm."""
    draw, rows = random.Random(seed), [{"a": a, "b": a + 1} for a in range(60)]
    calm = mf.evaluate_lm(mf.engines.Fake(Slow(tmp_path)), sums(rows=rows)).estimate("exact_match")
    (tmp_path / "asked").unlink()
    stop = threading.Event()

    def kill() -> None:
        kills = 0
        while kills < 3 and not stop.wait(draw.uniform(0.2, 0.8)):
            asked = tmp_path / "asked"
            pid = int(asked.read_text().split()[-1]) if asked.exists() else 0
            if pid and Path(f"/proc/{pid}").exists():
                os.kill(pid, signal.SIGKILL)
                kills += 1

    with mf.Run("p", "r") as run:
        config = mf.EvaluatorConfig(async_mode=True, freq_steps=1, max_waiting=5)
        ev = mf.Evaluator(config, [sums(rows=rows)], mf.engines.Fake(Slow(tmp_path)), run, quiet=True)
        killer = threading.Thread(target=kill)
        killer.start()
        with ev:
            for step in range(1, 4):
                ev.step(step)
        stop.set()
        killer.join()
    reports = mf.open_store().reports(run.id)
    assert [r.progress.step for r in reports] == [1, 2, 3]
    for report in reports:
        found = report.estimate("exact_match")
        assert (report.status, found.n, found.value, found.stderr) == ("done", 60, calm.value, calm.stderr)
        assert len(mf.open_store().scores(report.id, "exact_match")) == 60


JOB = """
import sys, time, pathlib
import midflight as mf
from test_async import Gate, sums
folder = pathlib.Path(sys.argv[1])
run = mf.Run("p", "r", store=str(folder / "s.db"))
ev = mf.Evaluator(mf.EvaluatorConfig(async_mode=True, freq_steps=10), [sums()], mf.engines.Fake(Gate(folder)), run, quiet=True)
if (folder / "state").exists():
    import json
    ev.load_state_dict(json.loads((folder / "state").read_text()))
ev.start()
for step in range(ev.freq_ctl.progress.step + 1, 11):
    ev.step(step)
if not (folder / "state").exists():
    import json
    (folder / "state").write_text(json.dumps(ev.state_dict()))
    print("saved", flush=True)
    time.sleep(600)
ev.finish()
run.finish()
"""


def test_a_training_that_is_killed_takes_its_workers_with_it_and_resumes_where_they_were(tmp_path):
    gate = Gate(tmp_path)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])}
    first = subprocess.Popen([sys.executable, "-c", JOB, str(tmp_path)], stdout=subprocess.PIPE, env=env)
    assert first.stdout.readline() == b"saved\n"
    worker = gate.pid()
    first.kill()
    first.communicate()
    deadline = time.monotonic() + 30
    while Path(f"/proc/{worker}").exists() and "zombie" not in Path(f"/proc/{worker}/status").read_text():
        assert time.monotonic() < deadline, "the worker outlived its training"
        time.sleep(0.01)
    assert json.loads((tmp_path / "state").read_text())["evaluations"]["open"] == [["sums", 10]]
    gate.open()
    subprocess.run([sys.executable, "-c", JOB, str(tmp_path)], check=True, env=env, timeout=120)
    store = open_store(str(tmp_path / "s.db"))
    (report,) = store.reports(store.runs()[0].id)
    assert (report.progress.step, report.status, report.estimate("exact_match").n) == (10, "done", 8)
    assert Counter(gate.asked())["000007"] == 1


DRIVER = """
import json, os, pathlib, sys, time
import midflight as mf
from test_async import Slow, sums
folder = pathlib.Path(sys.argv[1])
store = mf.open_store(str(folder / "s.db"))
run = mf.Run("p", "r", store=store, resume="must" if store.runs() else "never")
config = mf.EvaluatorConfig(async_mode=True, freq_steps=10, max_waiting=3)
ev = mf.Evaluator(config, [sums(rows=[{"a": a, "b": a + 1} for a in range(20)])], mf.engines.Fake(Slow(folder)), run, quiet=True)
state = folder / "state"
if state.exists():
    ev.load_state_dict(json.loads(state.read_text()))
ev.start()
for step in range(ev.freq_ctl.progress.step + 1, 31):
    time.sleep(0.05)
    run.log(step, x=float(step))
    ev.step(step)
    (folder / "new").write_text(json.dumps(ev.state_dict()))
    os.replace(folder / "new", state)
ev.finish()
run.finish()
"""


@pytest.mark.parametrize("seed", range(2))
def test_training_that_is_killed_at_any_moment_loses_nothing_unsaid(tmp_path, seed):
    """Each evaluation that was due is whole, once, or recorded as missing; the last one is there."""
    draw = random.Random(seed)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])}
    for _ in range(3):
        job = subprocess.Popen([sys.executable, "-c", DRIVER, str(tmp_path)], env=env)
        try:
            job.wait(draw.uniform(1.0, 5.0))
        except subprocess.TimeoutExpired:
            job.kill()
            job.wait()
    subprocess.run([sys.executable, "-c", DRIVER, str(tmp_path)], check=True, env=env, timeout=120)
    store = open_store(str(tmp_path / "s.db"))
    (run,) = store.runs()
    reports = store.reports(run.id)
    steps = [r.progress.step for r in reports]
    assert len(set(steps)) == len(steps)
    assert {*steps, *(step for _, step, _ in store.missing(run.id))} == {10, 20, 30}
    assert 30 in steps
    for report in reports:
        assert (report.status, report.estimate("exact_match").n, report.estimate("exact_match").value) == (
            "done",
            20,
            0.5,
        )
    assert store.read_points(run.id, "x").steps.tolist() == list(range(1, 31))


def test_what_a_killed_training_left_in_memory_is_removed(tmp_path):
    code = "import os, sys\nfrom midflight.dispatch.shared_folder import shared_folder\nprint(shared_folder(sys.argv[1]))\n"
    for end in ("", "sys.stdout.flush()\nos.kill(os.getpid(), 9)\n"):
        subprocess.run([sys.executable, "-c", code + end, str(tmp_path)], check=False)
    mine = shared_folder(tmp_path)
    assert list(tmp_path.iterdir()) == [mine]
    assert shared_folder(tmp_path) != mine
    assert mine.is_dir()  # of a process that lives


class TestBudget:
    def test_what_would_take_too_much_time_is_left_out_but_not_the_last(self, monkeypatch):
        with mf.Run("p", "r") as run:
            ev = mf.Evaluator(
                mf.EvaluatorConfig(freq_steps=10, max_eval_share=0.21), [sums()], mf.engines.Fake("1"), run, quiet=True
            )
            now = [0.0]
            ev._setting.budget._clock = lambda: now[0]
            ev._setting.budget._began = 0.0
            whole = ev._between._evaluate

            def evaluate(task, progress):
                now[0] += 10.0
                report = whole(task, progress)
                ev._setting.budget.spent_s, ev._setting.budget._last_s = ev._setting.budget.spent_s + 10.0, 10.0
                return report

            ev._between._evaluate = evaluate
            with ev:
                for step in range(1, 96):
                    now[0] += 1.0
                    ev.step(step)
        # 10 s of training and 10 s of evaluation; the next one fits when 20 s are 21 %: at 95 s
        assert [r.progress.step for r in ev.reports] == [10, 90, 95]
        assert [step for _, step, _ in mf.open_store().missing(run.id)] == [20, 30, 40, 50, 60, 70, 80]


class Suicide:
    def __call__(self, request) -> str:
        os.kill(os.getpid(), signal.SIGKILL)
        return ""


class Raises:
    def __call__(self, request) -> str:
        return str(1 / 0)


class OutOfReach:
    """Raises what a store does that cannot be reached, so often."""

    def __init__(self, folder: Path, times: int):
        self.folder, self.times = folder, times

    def __call__(self, request) -> str:
        tries = self.folder / "tries"
        with tries.open("a") as file:
            file.write(".")
        if len(tries.read_text()) <= self.times:
            raise StoreError("out of reach")
        return "1"


class HangAt:
    def __init__(self, item: str, gate: Gate):
        self.item, self.gate = item, gate

    def __call__(self, request) -> str:
        if request.item_id == self.item:
            return self.gate(request)
        time.sleep(0.2)  # so that what came before is committed
        return "1"


def test_limits_bind_the_worker(tmp_path):
    asked = tmp_path / "nice"

    def tell(request) -> str:
        asked.write_text(f"{os.nice(0)} {os.environ['OMP_NUM_THREADS']} {len(os.sched_getaffinity(0))}")
        return "1"

    cpu = min(os.sched_getaffinity(0))
    limits = mf.environ.Limits(nice=7, threads=1, cpus=(cpu,))
    ev = evaluator(mf.engines.Fake(tell), limits=limits)
    with ev:
        ev.step(1)
    assert asked.read_text() == f"{os.nice(0) + 7} 1 1"


def test_a_worker_that_takes_too_much_memory_fails_and_training_goes_on(caplog):
    def greedy(request) -> str:
        return str(len(bytearray(4_000_000_000)))

    ev = evaluator(mf.engines.Fake(greedy), limits=mf.environ.Limits(memory_gb=2.0))
    with ev:
        ev.step(1)
    assert "evaluation at step 1 failed: sums: failed: MemoryError" in caplog.text


def test_pause_and_resume():
    dispatcher = Process(max_waiting=5)
    ev = mf.Evaluator(
        mf.EvaluatorConfig(async_mode=True, freq_steps=1),
        [sums()],
        mf.engines.Fake("1"),
        dispatcher=dispatcher,
        quiet=True,
    )
    ev.start()
    dispatcher.pause()
    ev.step(1)
    assert not dispatcher.wait(0.2)
    dispatcher.resume()
    assert [r.progress.step for r in ev.finish()] == [1]
