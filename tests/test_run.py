"""`run.log`: cheap, and nothing is lost, whatever becomes of the process."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import torch

from midflight.errors import ConfigError, StoreError
from midflight.run import Run
from midflight.store import open_store


def points(path="midflight.db", key="x", name=None):
    store = open_store(str(path), create=False)
    found = store.read_points(store.runs(name=name)[0].id, key)
    return dict(zip(found.steps.tolist(), found.values.tolist(), strict=True))


def script(body: str, *arguments: str, **options) -> subprocess.Popen:
    code = f"import os, sys, time, signal, threading\nfrom midflight.run import Run\n{body}"
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )


def test_values_of_all_kinds():
    with Run("p", "r") as run:
        run.log(
            1,
            a=1,
            b=True,
            c=np.float32(0.5),
            d=torch.tensor(2.0),
            e=torch.tensor([3.0], requires_grad=True),
            f=float("nan"),
        )
        run.log(np.int64(2), **{"rewards/mean": 0.25, "step": 7.0})
        run.log(torch.tensor(3), x=float("-inf"))
    store = open_store(create=False)
    heads = {h.key: (h.step, h.value) for h in store.heads(1)}
    assert str(heads.pop("f")) == "(1, nan)"
    assert heads == {
        "a": (1, 1.0),
        "b": (1, 1.0),
        "c": (1, 0.5),
        "d": (1, 2.0),
        "e": (1, 3.0),
        "rewards/mean": (2, 0.25),
        "step": (2, 7.0),
        "x": (3, float("-inf")),
    }


@pytest.mark.parametrize(
    ("step", "values", "message"),
    [
        (1, {"x": "0.5"}, "log: x; got '0.5'; allowed: a number"),
        (1, {"ok": 1.0, "x": None}, "log: x; got None"),
        (1, {"x": torch.ones(2)}, "log: x; got tensor"),
        (1, {"x": [1.0]}, r"log: x; got \[1.0\]"),
        (-1, {"x": 1.0}, "log: step; got -1; allowed: a whole number from 0"),
        (1.5, {"x": 1.0}, "log: step; got 1.5"),
        ("a", {"x": 1.0}, "log: step; got 'a'"),
        (float("nan"), {"x": 1.0}, "log: step; got nan"),
    ],
)
def test_what_is_no_number_is_refused_at_the_call(step, values, message):
    with Run("p", "r") as run, pytest.raises(ConfigError, match=message):
        run.log(step, **values)


def test_a_tensor_is_read_when_it_is_logged():
    value = torch.tensor(1.0)
    with Run("p", "r") as run:
        run.log(1, x=value)
        value += 5
    assert points() == {1: 1.0}


def test_flush_makes_durable():
    run = Run("p", "r")
    for step in range(1000):
        run.log(step, x=float(step))
    run.flush()
    assert len(points()) == 1000
    run.finish()


def test_it_flushes_by_itself():
    run = Run("p", "r")
    run.log(1, x=1.0)
    deadline = time.monotonic() + 20
    while not points() and time.monotonic() < deadline:
        threading.Event().wait(0.02)
    assert points() == {1: 1.0}
    run.finish()


def test_many_threads_lose_nothing():
    with Run("p", "r") as run:
        threads = [
            threading.Thread(target=lambda i=i: [run.log(step, **{f"k{i}": float(step)}) for step in range(3000)])
            for i in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for i in range(4):
        assert points(key=f"k{i}") == {s: float(s) for s in range(3000)}


class TestLeaving:
    """2,000 steps are logged as fast as it goes; then the process leaves in some way."""

    body = "run = Run('p', 'r')\nfor step in range(2000):\n    run.log(step, x=float(step))\n"

    @pytest.mark.parametrize(
        ("end", "code", "status"),
        [
            ("", 0, "finished"),
            ("sys.exit(3)", 3, "finished"),
            ("raise ValueError('x')", 1, "failed"),
            ("os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)", -signal.SIGTERM, "failed"),
        ],
        ids=["end", "exit", "exception", "SIGTERM"],
    )
    def test_nothing_is_lost(self, end, code, status):
        process = script(self.body + end)
        process.communicate()
        assert process.returncode == code
        assert len(points()) == 2000
        assert open_store(create=False).runs()[0].status == status

    def test_a_handler_of_the_users_still_runs(self):
        handler = "signal.signal(signal.SIGTERM, lambda *a: (print('mine'), sys.exit(7)))\n"
        process = script(handler + self.body + "os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)")
        out, _ = process.communicate()
        assert (process.returncode, out.strip()) == (7, "mine")
        assert len(points()) == 2000

    def test_a_kill_costs_at_most_half_a_second(self):
        """The process says when it logged each step; all that is older than half a second has to be there."""
        body = (
            "run = Run('p', 'r')\nstep = 0\n"
            "while True:\n    run.log(step, x=time.time())\n    step += 1\n"
            "    if step % 100 == 0: print(step, time.time(), flush=True); time.sleep(0.01)\n"
        )
        process = script(body)
        said = []
        for line in process.stdout:
            said.append((int(line.split()[0]), float(line.split()[1])))
            if len(said) > 1 and said[-1][1] - said[0][1] > 2.0:
                break
        process.kill()
        killed = time.time()
        process.communicate()
        kept = points()
        must = max(step for step, at in said if at < killed - 0.5)
        assert len(kept) >= must
        assert sorted(kept) == list(range(len(kept)))

    def test_sigterm_in_the_middle_of_a_write_doubles_and_loses_nothing(self):
        """The signal arrives while the main thread is inside the transaction that writes the points."""
        body = (
            "run = Run('p', 'r')\n"
            "append = run.store.append_points\n"
            "def cut(*args):\n    os.kill(os.getpid(), signal.SIGTERM)\n    append(*args)\n    raise OSError('no')\n"
            "run._lock.acquire()\nfor step in range(100):\n    run.log(step, x=float(step))\n"
            "run.store.append_points = cut\nrun._lock.release()\nrun.flush()\ntime.sleep(60)"
        )
        process = script(body)
        process.communicate()
        assert process.returncode == -signal.SIGTERM
        assert points() == {s: float(s) for s in range(100)}

    @pytest.mark.parametrize("method", ["fork", "spawn"])
    def test_children_of_multiprocessing(self, method, tmp_path):
        (tmp_path / "job.py").write_text(
            "import multiprocessing, sys\nfrom midflight.run import Run\n"
            "def work(i):\n"
            "    run = Run('p', f'child{i}')\n"
            "    for step in range(500):\n        run.log(step, x=1.0)\n"
            "if __name__ == '__main__':\n"
            "    parent = Run('p', 'parent')\n    parent.log(1, x=2.0)\n"
            f"    context = multiprocessing.get_context('{method}')\n"
            "    jobs = [context.Process(target=work, args=(i,)) for i in range(2)]\n"
            "    [j.start() for j in jobs]; [j.join() for j in jobs]\n"
            "    sys.exit(max(j.exitcode for j in jobs))\n"
        )
        subprocess.run([sys.executable, "job.py"], check=True)
        assert points(name="parent") == {1: 2.0}
        assert [len(points(name=f"child{i}")) for i in range(2)] == [500, 500]

    def test_a_forked_child_logs_to_its_parents_run_without_doubling_anything(self):
        body = (
            "run = Run('p', 'r')\nrun.log(1, x=1.0)\n"
            "import multiprocessing\n"
            "def work():\n    run.log(2, x=2.0)\n"
            "job = multiprocessing.get_context('fork').Process(target=work); job.start(); job.join()\n"
            "run.log(3, x=3.0)\n"
        )
        process = script(body)
        _, err = process.communicate()
        assert process.returncode == 0, err
        assert points() == {1: 1.0, 2: 2.0, 3: 3.0}


class TestFaults:
    def test_a_store_that_cannot_be_written_to_never_stops_training(self, caplog):
        run = Run("p", "r")
        real, broken = run.store.append_points, True

        def append(*arguments):
            if broken:
                raise StoreError("the disk is full")
            real(*arguments)

        run.store.append_points = append
        for step in range(100):
            run.log(step, x=float(step))
        with pytest.raises(StoreError, match="the disk is full"):
            run.flush()
        broken = False
        run.log(100, x=100.0)
        run.finish()
        assert len(points()) == 101

    def test_what_could_not_be_written_is_said_at_the_end(self):
        run = Run("p", "r")

        def append(*arguments):
            raise StoreError("the disk is full")

        run.store.append_points = append
        run.log(1, x=1.0, y=2.0)
        with pytest.raises(StoreError, match="2 points of run 'r' could not be written: the disk is full"):
            run.finish()

    def test_memory_is_bounded_and_what_is_dropped_is_counted(self, monkeypatch):
        import midflight.run._run as module

        monkeypatch.setattr(module, "MAX_WAITING", 50)
        run = Run("p", "r")
        real = run.store.append_points

        def append(*arguments):
            raise StoreError("out of reach")

        run.store.append_points = append
        for step in range(40):
            run.log(step, x=1.0, y=1.0)
            with pytest.raises(StoreError):
                run.flush()
        run.store.append_points = real
        run.finish()
        info = open_store(create=False).runs()[0]
        assert info.lost_points == 30
        assert len(points()) == 25

    def test_logging_after_the_end(self):
        run = Run("p", "r")
        run.finish()
        run.finish()
        with pytest.raises(StoreError, match="run 'r' is finished"):
            run.log(1, x=1.0)


class TestWhichRun:
    def test_a_crashed_run_is_resumed_and_a_finished_one_is_not(self):
        script("run = Run('p', 'r')\nrun.log(1, x=1.0)\nrun.log(2, x=2.0)\nrun.flush()\nos._exit(1)").communicate()
        with Run("p", "r") as run:
            assert (run.id, run.attempt) == (1, 2)
            run.log(2, x=20.0)
        assert points() == {1: 1.0, 2: 20.0}
        with Run("p", "r") as run:
            assert (run.id, run.attempt) == (2, 1)

    def test_a_live_run_of_another_process_is_not_taken_over(self):
        process = script(
            "run = Run('p', 'r')\nrun.log(1, x=1.0)\nprint('up', flush=True)\nsys.stdin.read()", stdin=subprocess.PIPE
        )
        process.stdout.readline()
        with Run("p", "r") as run:
            assert run.id == 2
        with pytest.raises(ConfigError, match="is being written by another process"):
            script_run = open_store().runs(name="r")
            assert script_run
            open_store().database.connection.execute("DELETE FROM run WHERE id = 2")
            Run("p", "r", resume="must")
        attached = Run("p", "r", resume="attach")
        assert (attached.id, attached.attached) == (1, True)
        attached.finish()
        assert open_store().runs()[0].status == "running"  # it is not ours to end
        process.communicate("")
        assert open_store().runs()[0].status == "finished"

    def test_never_and_must(self):
        with Run("p", "r", resume="never") as first, Run("p", "r", resume="never") as second:
            assert (first.id, second.id) == (1, 2)
        with Run("p", "r", resume="must") as run:
            assert (run.id, run.attempt) == (2, 2)
        with pytest.raises(ConfigError, match="no run 'other' in project 'p' to resume"):
            Run("p", "other", resume="must")

    def test_only_the_first_rank_records(self, monkeypatch):
        monkeypatch.setenv("RANK", "1")
        monkeypatch.setenv("WORLD_SIZE", "2")
        with Run("p", "r") as run:
            run.log(1, x=1.0)
            run.flush()
        assert not os.path.exists("midflight.db")

    def test_configs_of_all_kinds(self):
        @dataclasses.dataclass
        class Config:
            lr: float = 0.1

        for config in ({"lr": 0.1}, Config(), argparse.Namespace(lr=0.1)):
            with Run("p", "r", config, resume="never", tags=["a"]):
                pass
        infos = open_store().runs()
        assert [info.config for info in infos] == [{"lr": 0.1}] * 3
        assert infos[0].tags == ["a"]
        assert json.dumps(infos[0].environment)
        with pytest.raises(ConfigError, match="config of a run; got 3"):
            Run("p", "r", 3)

    @pytest.mark.parametrize("name", ["", "  ", "a\nb", "x" * 201, "\x1b[31m", 5])
    def test_names(self, name):
        with pytest.raises(ConfigError, match="project of a run"):
            Run(name)


class TestTheStoreOfSomebodyElse:
    def test_whatever_it_raises_the_points_are_kept_and_written_later(self):
        run, fails = Run("p", "r"), True
        append = run.store.append_points

        def flaky(*args):
            if fails:
                raise ValueError("not today")
            append(*args)

        run.store.append_points = flaky
        run.log(1, x=1.0)
        with pytest.raises(StoreError, match="SQLiteStore failed: ValueError: not today"):
            run.flush()
        fails = False
        run.log(2, x=2.0)
        run.finish()
        assert points() == {1: 1.0, 2: 2.0}


class TestWhatCannotBeStored:
    @pytest.mark.parametrize("key", ["", "x" * 501, "\ud800"])
    def test_names(self, key):
        with Run("p", "r") as run:
            with pytest.raises(ConfigError, match="name of a series"):
                run.log(1, **{key: 1.0})
            run.log(2, fine=1.0)
        assert points(key="fine") == {2: 1.0}

    @pytest.mark.parametrize("step", [-1, 1.5, float("nan"), float("inf"), 2**62 + 1, "x"])
    def test_steps(self, step):
        with Run("p", "r") as run, pytest.raises(ConfigError, match="step"):
            run.log(step, x=1.0)


def test_a_key_in_several_sets_keeps_the_order_of_its_values():
    with Run("p", "r") as run, run._lock:
        run.log(1, x=1.0)
        run.log(1, x=2.0, y=0.0)
        run.log(1, x=3.0)
    assert points() == {1: 3.0}


def test_of_two_that_resume_at_once_one_goes_on_and_one_begins_anew(tmp_path):
    with Run("p", "r") as run:
        run.log(1, x=1.0)
    store = open_store()
    with store.database.writing() as db:
        db.execute("UPDATE run SET status = 'failed'")
    before = store.owner(1)
    numbers = [store.resume_run(1, owner=name, before=before) for name in ("a:1:1", "b:2:2")]
    assert numbers == [2, None]
