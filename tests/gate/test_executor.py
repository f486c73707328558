"""Conditions, tries, rollbacks, the trail, and several processes at once."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from flows import checkpoint, command, events, executor, midflight, promote, python, verdict, workflow, write_verdict

from midflight.errors import StoreError
from midflight.store import open_store


def statuses(execution) -> list[str]:
    return [step.status for step in execution.steps]


def append(word: str) -> str:
    return f"open('log', 'a').write({word!r} + chr(10))"


def log() -> list[str]:
    return Path("log").read_text().split() if Path("log").exists() else []


@pytest.mark.parametrize(
    ("outcome", "ran"),
    [("pass", ["p", "a", "pi"]), ("fail", ["f", "a"]), ("inconclusive", ["i", "a", "pi"])],
)
def test_conditions(outcome, ran):
    whens = {"p": "pass", "f": "fail", "i": "inconclusive", "a": "always", "pi": ["pass", "inconclusive"]}
    workflow(*[command(name, append(name), when=when) for name, when in whens.items()])
    execution = executor().run(None, verdict(outcome))
    assert (execution.status, log()) == ("done", ran)
    assert [step.name for step in execution.steps if step.status == "skipped"] == [n for n in whens if n not in ran]
    assert all(step.reason == f"the verdict is {outcome}" for step in execution.steps if step.status == "skipped")


def test_the_default_is_only_after_pass():
    workflow(command("x", append("x")))
    assert statuses(executor().run(None, verdict("fail"))) == ["skipped"]


def test_once_and_known_again_by_content_verdict_and_weights():
    path = checkpoint()
    workflow(command("x", append("x")))
    first, again = (executor().run(path, verdict()) for _ in range(2))
    assert (first, log()) == (again, ["x"])
    assert executor().run(path, verdict(id="v2")).id != first.id
    (path / "model.safetensors").write_bytes(b"new")
    assert executor().run(path, verdict()).id not in (first.id,)
    (path / "optimizer.pt").write_bytes(b"is no part of the model")
    assert log() == ["x"] * 3
    executor().run(path, verdict())
    assert log() == ["x"] * 3


class TestTries:
    def test_as_often_as_it_says_with_back_off(self):
        waits: list[float] = []
        code = append("x") + "; import os; os._exit(0 if os.environ['MIDFLIGHT_ATTEMPT'] == '3' else 4)"
        workflow(command("x", code, retries=3, backoff_s=2.0))
        execution = executor(sleep=waits.append).run(None, verdict())
        assert (statuses(execution), execution.steps[0].attempts, waits) == (["done"], 3, [2.0, 4.0])
        trail = [event for _, event in events(open_store("s.db"))]
        assert trail == ["begun", "started", "failed", "started", "failed", "started", "done", "done"]

    def test_then_it_fails_with_the_reason(self):
        late = "import sys; sys.stdout.write('so'); sys.stderr.write('no route to host\\n'); sys.exit(1)"
        workflow(command("x", late, retries=1))
        execution = executor().run(None, verdict())
        assert (execution.status, execution.steps[0].attempts) == ("failed", 2)
        assert execution.reason.startswith("step 'x' failed: ")
        assert execution.reason.endswith("exit code 1: no route to host")

    def test_on_failure_continue(self):
        workflow(command("x", "raise SystemExit(1)", on_failure="continue"), command("y", append("y")))
        execution = executor().run(None, verdict())
        assert (execution.status, statuses(execution), log()) == ("done", ["failed", "done"], ["y"])
        assert executor().run(None, verdict()) == execution

    def test_the_same_command_again_tries_what_did_not_succeed(self):
        workflow(command("x", append("x")), command("y", "open('wanted')"), command("z", append("z"), when="always"))
        assert statuses(executor().run(None, verdict())) == ["done", "failed", "skipped"]
        assert executor().run(None, verdict(), retry=False).status == "failed"
        Path("wanted").touch()
        assert statuses(executor().run(None, verdict())) == ["done", "done", "done"]
        assert log() == ["x", "z"]


class TestRollback:
    def test_in_reverse_order_and_recorded(self):
        old, new = checkpoint(4), checkpoint(5)
        workflow(promote())
        executor().run(old, verdict(step=4))
        steps = [command(name, append(name), rollback=python(append(f"un{name}"))) for name in "ab"]
        workflow(steps[0], promote(), steps[1], command("bad", "raise SystemExit(9)"), command("never", append("n")))
        execution = executor().run(new, verdict())
        assert execution.status == "failed"
        assert statuses(execution) == ["rolled_back", "rolled_back", "rolled_back", "failed", "skipped"]
        assert log() == ["a", "b", "unb", "una"]
        assert Path("models/production").resolve() == old.resolve()
        done = [pair for pair in events(open_store("s.db"), execution.id) if pair[1] == "rolled_back"]
        assert done == [("b", "rolled_back"), ("promote", "rolled_back"), ("a", "rolled_back")]

    def test_the_first_promotion_leaves_nothing(self):
        workflow(promote(), command("bad", "raise SystemExit(9)"))
        executor().run(checkpoint(), verdict())
        assert not Path("models/production").is_symlink()

    def test_one_that_fails_is_said_loudly_and_the_others_go_on(self):
        told: list[str] = []
        workflow(
            command("a", append("a"), rollback=python(append("una"))),
            command("b", append("b"), rollback=["/no/such/program"], retries=1),
            command("bad", "raise SystemExit(9)"),
        )
        execution = executor(tell=told.append).run(None, verdict())
        assert log() == ["a", "b", "una"]
        assert "ROLLBACK of step 'b' FAILED: /no/such/program: cannot be run" in execution.reason
        assert any(line.startswith("b: ROLLBACK FAILED") for line in told)
        assert events(open_store("s.db")).count(("b", "rollback_failed")) == 2
        assert statuses(execution) == ["rolled_back", "done", "failed"]

    def test_a_target_that_somebody_else_has_switched_is_left_alone(self):
        checkpoint(4)
        switch = "import os; os.unlink('models/production'); os.symlink('../ckpt/checkpoint-4', 'models/production')"
        workflow(promote(), command("bad", f"{switch}; raise SystemExit(9)"))
        execution = executor().run(checkpoint(5), verdict())
        assert "points to ../ckpt/checkpoint-4 by now, which somebody else made it: left as it is" in execution.reason
        assert os.readlink("models/production") == "../ckpt/checkpoint-4"


class TestTwoProcesses:
    def start(self, *extra: object) -> subprocess.Popen[str]:
        words = [
            sys.executable,
            "-m",
            "midflight",
            "act",
            "workflow.toml",
            "--verdict",
            "verdict.json",
            *map(str, extra),
        ]
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def test_one_wins_and_the_other_waits_or_says_so(self):
        os.mkfifo("gate")
        workflow(command("x", "open('began', 'a').write('x'); open('gate').read()"))
        write_verdict()
        first = self.start()
        deadline = time.monotonic() + 60
        while not Path("began").exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        refused = midflight("act", "workflow.toml", "--verdict", "verdict.json", "--wait", 0)
        assert refused.returncode == 2
        assert "another process is at it: " in refused.stderr
        second = self.start()
        assert "another process is at it" in second.stdout.readline()
        Path("gate").write_text("go")
        outs = [process.communicate(timeout=60) for process in (first, second)]
        assert [process.returncode for process in (first, second)] == [0, 0], outs
        assert "done before" in outs[1][0]
        assert Path("began").read_text() == "x"

    def test_many_at_once_promote_once(self):
        path = checkpoint()
        workflow(command("x", append("x")), promote(mode="copy"))
        write_verdict()
        processes = [self.start("--checkpoint", path) for _ in range(4)]
        outs = [process.communicate(timeout=120) for process in processes]
        assert [process.returncode for process in processes] == [0] * 4, outs
        assert log() == ["x"]
        assert events(open_store()).count(("promote", "noted")) == 1

    def test_a_holder_that_was_taken_for_dead_writes_no_more(self):
        from midflight.errors import LeaseLostError

        workflow(command("x", append("x")), command("y", append("y")))
        store = open_store("s.db")

        def overtake(text: str) -> None:
            if text == "y: command…":
                execution = store.execution(store.audit()[0].execution)
                store.begin_execution(execution, 99, store_by())

        with pytest.raises(LeaseLostError, match="another process carries out execution"):
            executor(store=store, tell=overtake).run(None, verdict())
        assert log() == ["x"]


def store_by():
    from midflight.records import Actor

    return Actor("other@host:1")


class TestTrail:
    def test_who_when_which_weights_on_which_evidence(self):
        path = checkpoint()
        workflow(promote())
        execution = executor().run(path, verdict(), run="mt4")
        first, *_ = store = open_store("s.db").audit("math")
        assert first.detail["verdict"] == "v1"
        assert first.detail["policy_digest"] == "d" * 64
        assert first.detail["evaluations"] == {"gsm8k": "e1"}
        assert {event.weights for event in store} == {execution.weights}
        assert all(f":{os.getpid()}" in event.who and "@" in event.who for event in store)
        assert [event.at for event in store] == sorted(event.at for event in store)
        assert open_store("s.db").audit("other") == []

    def test_it_only_grows(self):
        workflow(command("x", "pass"))
        executor().run(None, verdict())
        db = sqlite3.connect("s.db")
        for statement in ("UPDATE audit SET who = 'nobody'", "DELETE FROM audit"):
            with pytest.raises(sqlite3.IntegrityError, match="the audit trail only grows"):
                db.execute(statement)

    def test_a_full_store_stops_it_and_nothing_is_lost(self):
        workflow(command("x", "print('x' * 60_000)", idempotent=True), command("y", append("y")))
        store = open_store("s.db")
        db = store.database.connection
        db.execute(f"PRAGMA max_page_count={db.execute('PRAGMA page_count').fetchone()[0]}")
        with pytest.raises(StoreError, match="the disk is full"):
            for number in range(100):  # until the free room in the pages is used up
                executor(store=store).run(None, verdict(id=f"v{number}"))
        began = len(log())
        db.execute("PRAGMA max_page_count=100000")
        assert executor(store=store).run(None, verdict(id=f"v{number}")).status == "done"
        assert len(log()) == began + 1 == number + 1


def test_hostile_output_is_bounded_and_shown_as_data():
    noise = (
        "import sys; sys.stdout.write('x' * 300_000 + chr(27) + '[31m' + chr(10)); raise SystemExit(chr(27) + ']0;own')"
    )
    workflow(command("x", noise))
    write_verdict()
    done = midflight("act", "workflow.toml", "--verdict", "verdict.json")
    assert done.returncode == 1
    assert "\x1b" not in done.stdout + done.stderr
    shown = midflight("audit")
    assert "\x1b" not in shown.stdout
    kept = [event.detail["output"] for event in open_store().audit() if event.event == "failed"]
    assert 0 < len(kept[0]) <= 4_000
