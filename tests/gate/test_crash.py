"""kill -9 anywhere: what was begun is gone on with, and nothing is promoted twice."""

from __future__ import annotations

import os
import random
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flows import checkpoint, command, events, executor, midflight, promote, verdict, workflow, write_verdict

from midflight.errors import WorkflowError
from midflight.store import open_store
from midflight.store.sqlite import SQLiteStore

BOUNDARIES: list[tuple[Any, str]] = [
    *[(os, name) for name in ("replace", "rename", "symlink", "unlink", "fsync", "mkdir")],
    (shutil, "copyfile"),
    *[
        (SQLiteStore, name)
        for name in ("begin_execution", "record_step", "record_execution", "take_lease", "end_lease")
    ],
]
"""What a promotion does to the world and to the store."""


def dies_at(boundary: int, action: Callable[[], object]) -> bool:
    """Runs an action in a process that is killed before or after its n-th call of what is in BOUNDARIES.

    Returns:
        Whether it came so far.
    """
    child = os.fork()
    if child:
        return os.WIFSIGNALED(os.waitpid(child, 0)[1])
    passed = 0

    def deadly(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal passed
            for turn in range(2):
                passed += 1
                if passed == boundary:
                    os.kill(os.getpid(), signal.SIGKILL)
                if not turn:
                    found = function(*arguments, **options)
            return found

        return call

    try:
        for owner, name in BOUNDARIES:
            setattr(owner, name, deadly(getattr(owner, name)))
        action()
    finally:
        os._exit(0)


KILL = "import os, signal; os.kill(os.getppid(), signal.SIGKILL)"


def once(mark: str, code: str) -> str:
    """Does something the first time only."""
    return f"import os.path\nif not os.path.exists({mark!r}):\n  open({mark!r}, 'w').close()\n  {code}"


@pytest.fixture
def switches(monkeypatch):
    """How often the target was switched, in whichever process: counted where it happens."""
    counted = Path("switches").absolute()
    real = os.replace

    def replace(source: Any, destination: Any) -> None:
        real(source, destination)
        if Path(destination).name == "production":
            with counted.open("ab", buffering=0) as file:
                file.write(b"x")

    monkeypatch.setattr(os, "replace", replace)
    return lambda: counted.stat().st_size if counted.exists() else 0


@pytest.mark.parametrize("mode", ["link", "copy"])
def test_at_every_boundary_it_is_promoted_exactly_once(mode, switches, tmp_path):
    boundary, alive = 0, False
    while not alive:
        boundary += 1
        os.makedirs(tmp_path / str(boundary))
        os.chdir(tmp_path / str(boundary))
        before = switches()
        old, new = checkpoint(4), checkpoint(5)
        os.mkdir("models")
        os.symlink("../ckpt/checkpoint-4", "models/production")
        workflow(promote(mode=mode))
        store = open_store("s.db")
        alive = not dies_at(boundary, lambda store=store, new=new: executor(store=store).run(new, verdict()))
        now = Path("models/production").resolve()
        assert now == old.resolve() or (now / "model.safetensors").read_bytes() == bytes([5]) * 3_000  # never nothing
        execution = executor(store=store).run(new, verdict())
        assert (execution.status, execution.steps[0].status) == ("done", "done")
        assert (Path("models/production") / "model.safetensors").read_bytes() == bytes([5]) * 3_000
        assert switches() == before + 1, boundary
        assert execution.steps[0].result["previous"] == "../ckpt/checkpoint-4", boundary
        left = {p.name for p in Path("models").iterdir()} - {"production", ".production.lock"}
        assert len(left) == (mode == "copy"), (boundary, left)
    assert boundary > 20


def test_a_rollback_that_has_begun_is_brought_to_its_end(tmp_path):
    """Also where the step that failed would succeed by now; before it has begun, the step is tried again."""
    boundary, alive, stopped_once = 0, False, False
    while not alive:
        boundary += 1
        os.makedirs(tmp_path / str(boundary))
        os.chdir(tmp_path / str(boundary))
        old, new = checkpoint(4), checkpoint(5)
        os.mkdir("models")
        os.symlink("../ckpt/checkpoint-4", "models/production")
        workflow(promote(), command("bad", once("mark", "raise SystemExit(1)"), idempotent=True))
        store = open_store("s.db")
        alive = not dies_at(boundary, lambda store=store, new=new: executor(store=store).run(new, verdict()))
        stopped = ("", "stopped") in events(store)
        failed = stopped or not Path("mark").exists()
        execution = executor(store=store).run(new, verdict(), retry=False)
        assert [execution.status, *(step.status for step in execution.steps)] == (
            ["failed", "rolled_back", "failed"] if failed else ["done", "done", "done"]
        ), boundary
        assert Path("models/production").resolve() == (old if failed else new).resolve(), boundary
        stopped_once |= stopped and not alive
    assert stopped_once


@pytest.mark.parametrize("seed", range(3))
def test_steps_that_kill_the_program(seed):
    draw = random.Random(seed)
    killers = [command(f"kill{i}", once(f"mark{i}", KILL), idempotent=True) for i in range(3)]
    steps = [*killers, promote(), promote("models/other", name="copy", mode="copy")]
    draw.shuffle(steps)
    workflow(*steps)
    path = checkpoint()
    write_verdict()
    codes, inodes = [], set()
    for _ in range(5):
        done = midflight("act", "workflow.toml", "--verdict", "verdict.json", "--checkpoint", path)
        codes.append(done.returncode)
        inodes |= {p.lstat().st_ino for p in (Path("models/production"), Path("models/other")) if p.is_symlink()}
    assert codes == [-9, -9, -9, 0, 0]
    assert len(inodes) == 2  # a switch would have made another link
    trail = events(open_store())
    assert trail.count(("promote", "noted")) == trail.count(("copy", "noted")) == 1
    assert [trail.count((f"kill{i}", "started")) for i in range(3)] == [2, 2, 2]


class TestWhatCannotBeKnown:
    def begin(self) -> None:
        workflow(command("send", once("mark", KILL)), command("after", "open('after', 'w')"))
        write_verdict()
        assert self.act().returncode == -9

    def act(self, *extra: str):
        return midflight("act", "workflow.toml", "--verdict", "verdict.json", *extra)

    def test_it_stops_with_a_clear_word(self):
        self.begin()
        for _ in range(2):
            done = self.act()
            assert done.returncode == 2
            assert "step 'send' was begun and its process died: whether it took effect cannot be known" in done.stderr
            assert "--assume-done send or --run-again send" in done.stderr
        assert not Path("after").exists()

    @pytest.mark.parametrize(("word", "started"), [("--assume-done", 1), ("--run-again", 2)])
    def test_a_person_decides(self, word, started):
        self.begin()
        assert "step 'after' was not cut off: it is pending" in self.act(word, "after").stderr
        assert self.act(word, "send").returncode == 0
        assert Path("after").exists()
        trail = events(open_store())
        assert trail.count(("send", "started")) == started
        assert trail.count(("send", "assumed_done")) == (word == "--assume-done")

    def test_it_is_an_error_in_python(self):
        self.begin()
        with pytest.raises(WorkflowError, match="cannot be known"):
            executor(store=None).run(None, verdict())


def test_a_program_goes_with_the_executor_that_is_asked_to_end():
    """SIGTERM ends the process group of the step too, so that nothing goes on unseen."""
    import subprocess
    import sys
    import time

    os.mkfifo("never")
    code = "import os; open('pid', 'w').write(str(os.getpid())); os.rename('pid', 'pid2'); open('never').read()"
    workflow(command("x", code))
    write_verdict()
    words = [sys.executable, "-m", "midflight", "act", "workflow.toml", "--verdict", "verdict.json"]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not Path("pid2").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    pid = int(Path("pid2").read_text())
    process.terminate()
    assert process.wait(60) == -signal.SIGTERM
    while Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes():
        assert time.monotonic() < deadline
        time.sleep(0.02)
