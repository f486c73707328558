"""What steps do to the world: programs, functions, targets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from flows import checkpoint, command, events, executor, promote, python, verdict, workflow

from midflight.gate.workflow.artifact import weights_hash
from midflight.store import open_store


def only(*steps, path=None, said=None):
    workflow(*steps)
    return executor().run(path, said or verdict())


class TestCommand:
    def test_what_it_is_told(self):
        code = (
            "import json, os, sys; given = json.load(sys.stdin); "
            "assert given == json.load(open(os.environ['MIDFLIGHT_VERDICT'])); "
            "print(json.dumps([given['outcome'], dict(os.environ)]))"
        )
        path = checkpoint()
        execution = only(command("x", code, env={"EXTRA": "1"}), path=path)
        outcome, told = json.loads(execution.steps[0].result["output"])
        assert outcome == "pass"
        assert told["MIDFLIGHT_CHECKPOINT"] == str(path.absolute())
        assert told["MIDFLIGHT_WEIGHTS"] == execution.weights == weights_hash(path)
        assert (told["MIDFLIGHT_EXECUTION"], told["MIDFLIGHT_STEP"], told["EXTRA"]) == (execution.id, "x", "1")
        assert told["MIDFLIGHT_OUTCOME"] == "pass"
        assert not Path(told["MIDFLIGHT_VERDICT"]).exists()

    def test_without_a_verdict_it_reads_null(self):
        workflow(command("x", "import sys; print(sys.stdin.read())", when="always"))
        assert executor().run().steps[0].result["output"] == "null\n"

    def test_it_is_never_a_shell(self):
        execution = only(
            {"kind": "command", "run": [sys.executable, "-c", "import sys; print(sys.argv[1])", "$(id); `id`"]}
        )
        assert execution.steps[0].result["output"] == "$(id); `id`\n"

    @pytest.mark.parametrize(
        ("run", "reason"),
        [
            (["/no/such/program"], "/no/such/program: cannot be run: .*No such file"),
            (["a\0b"], "cannot be run: embedded null byte"),
            (python("import os; os.kill(os.getpid(), 11)"), "signal 11"),
            (python("raise SystemExit(7)"), "exit code 7"),
        ],
    )
    def test_how_it_fails(self, run, reason):
        import re

        run = [word.replace("\0", "\\u0000") for word in run]
        text = json.dumps(run).replace("\\\\u0000", "\\u0000")
        Path("workflow.toml").write_text(f"[[steps]]\nkind = 'command'\nrun = {text}\n")
        assert re.search(reason, executor().run(None, verdict()).reason)

    def test_a_time_limit_kills_the_whole_group(self):
        child = "import os, signal, time; signal.signal(15, signal.SIG_IGN); open('pid', 'w').write(str(os.getpid())); time.sleep(600)"
        parent = f"import subprocess, sys; print('began', flush=True); subprocess.run([sys.executable, '-S', '-c', {child!r}])"
        began = time.monotonic()
        execution = only(command("x", parent, timeout_s=3.0))
        assert time.monotonic() - began < 30
        assert "took more than 3 s and was killed" in execution.reason
        assert [e.detail["output"] for e in open_store("s.db").audit() if e.event == "failed"] == ["began\n"]
        pid = Path("pid").read_text()
        state = Path(f"/proc/{pid}/stat").read_text().split()[2] if Path(f"/proc/{pid}").exists() else "gone"
        assert state in ("Z", "gone")

    def test_what_it_leaves_in_the_background_holds_nothing_up(self):
        code = "import subprocess, sys; p = subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(20)']); print(p.pid)"
        began = time.monotonic()
        execution = only(command("x", code))
        assert execution.status == "done"
        assert time.monotonic() - began < 15
        os.kill(int(execution.steps[0].result["output"]), 9)

    def test_paths_start_at_the_folder_of_the_file(self):
        os.mkdir("flows")
        workflow(command("x", "import os; print(os.getcwd())"), promote("models/production"), path="flows/w.toml")
        execution = executor("flows/w.toml").run(checkpoint(), verdict())
        assert execution.steps[0].result["output"].strip() == str(Path("flows").absolute())
        assert Path("flows/models/production").is_symlink()


class TestPython:
    def run(self, code: str, **fields):
        Path("mine.py").write_text(code)
        return only({"name": "x", "kind": "python", "entry": "mine:go", **fields}, path=checkpoint())

    def test_it_is_called_with_a_context_in_a_process_of_its_own(self):
        execution = self.run(
            "import os\n"
            "def go(context, n):\n"
            "    print('said')\n"
            "    return {'pid': os.getpid(), 'n': n, 'outcome': context.verdict.outcome, 'name': context.checkpoint.name,"
            " 'key': context.key}\n",
            arguments={"n": 3},
        )
        result = execution.steps[0].result
        assert result["pid"] != os.getpid()
        assert (result["n"], result["outcome"], result["name"]) == (3, "pass", "checkpoint-5")
        assert result["key"] == f"{execution.id}/x"
        assert result["output"] == "said\n"

    @pytest.mark.parametrize(
        ("body", "reason"),
        [
            ("raise ValueError('no such host')", "exit code 1: ValueError: no such host"),
            ("import time; time.sleep(600)", "took more than 3 s and was killed"),
            ("import os; os._exit(0)", "its result is missing"),
            ("return 'x' * 1_000_000", "longer than 262,144 bytes of JSON"),
            ("import os, signal; os.kill(os.getpid(), 9)", "signal 9"),
        ],
    )
    def test_how_it_fails(self, body, reason):
        assert reason in self.run(f"def go(context):\n    {body}\n", timeout_s=3.0).reason

    def test_a_function_that_is_not_there(self):
        assert "AttributeError" in self.run("").reason
        Path("mine.py").unlink()
        workflow({"name": "x", "kind": "python", "entry": "mine:go"})
        assert "ModuleNotFoundError: No module named 'mine'" in executor().run(None, verdict()).reason

    def test_its_rollback(self):
        Path("mine.py").write_text("def go(context):\n    return 1\ndef back(context):\n    open('back', 'w')\n")
        step = {"name": "x", "kind": "python", "entry": "mine:go", "rollback": "mine:back"}
        execution = only(step, command("bad", "raise SystemExit(1)"))
        assert execution.steps[0].status == "rolled_back"
        assert Path("back").exists()


class TestPromote:
    def test_a_link_is_switched_and_the_earlier_one_known(self):
        workflow(promote())
        for step in (4, 5):
            executor().run(checkpoint(step), verdict(step=step))
        assert os.readlink("models/production") == "../ckpt/checkpoint-5"
        result = open_store("s.db").audit()[-2].detail
        assert (result["points_to"], result["previous"]) == ("../ckpt/checkpoint-5", "../ckpt/checkpoint-4")

    def test_a_copy_holds_the_model_and_stays_when_the_checkpoint_goes(self):
        import shutil

        path = checkpoint()
        execution = only(promote(mode="copy"), path=path)
        shutil.rmtree(path)
        now = Path("models/production")
        assert sorted(p.name for p in now.iterdir()) == ["config.json", "model.safetensors"]
        assert weights_hash(now) == execution.weights
        assert os.readlink(now) == f"production-checkpoint-5-{execution.weights[:16]}"

    def test_a_gguf_file(self):
        Path("model-7.gguf").write_bytes(b"GGUF" * 100)
        for mode in ("link", "copy"):
            only(promote(f"{mode}.gguf", mode=mode), path="model-7.gguf", said=verdict(step=7))
            assert Path(f"{mode}.gguf").read_bytes() == b"GGUF" * 100

    def test_weights_that_changed_since_are_refused(self):
        path = checkpoint()
        change = command("sneak", f"open({str(path / 'model.safetensors')!r}, 'a').write('x')")
        execution = only(change, promote(), path=path)
        assert "its files are no longer those that were judged" in execution.reason
        assert not Path("models/production").is_symlink()

    def test_a_damaged_copy_is_refused(self):
        path = checkpoint()
        execution = only(promote(mode="copy"), path=path)
        copy = Path("models") / os.readlink("models/production")
        (copy / "config.json").write_text("{}")
        again = executor().run(path, verdict(id="v2"))
        assert "its files are no longer those that were judged" in again.reason
        assert execution.status == "done"

    def test_a_real_folder_in_its_place_is_left_alone(self):
        Path("models/production").mkdir(parents=True)
        Path("models/production/mine").touch()
        assert "it is no link; move it away once" in only(promote(), path=checkpoint()).reason
        assert Path("models/production/mine").exists()

    def test_a_place_that_cannot_be(self):
        Path("models").touch()
        assert "cannot be switched" in only(promote(), path=checkpoint()).reason

    def test_an_earlier_step_does_not_replace_a_later_one(self):
        workflow(promote(only_newer=True, mode="copy"))
        for step in (5, 4, 12):
            executor().run(checkpoint(step), verdict(step=step))
        done = [event.detail for event in open_store("s.db").audit() if event.event == "done" and event.step]
        assert [("kept" in detail, "checkpoint-12" in detail["points_to"]) for detail in done] == [
            (False, False),
            (True, False),
            (False, True),
        ]

    def test_the_same_target_from_two_workflows_at_once(self):
        import fcntl

        workflow(promote(timeout_s=0.3))
        os.mkdir("models")
        with open("models/.production.lock", "w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            reason = executor().run(checkpoint(), verdict()).reason
        assert "another process promotes to it for 0.3 s already" in reason

    def test_a_full_disk_leaves_what_was_there(self):
        """A limit on the size of files stands for the full disk: the write fails half-way in the same place."""
        workflow(promote(mode="copy"))
        executor().run(checkpoint(4), verdict(step=4))
        checkpoint(5, size=3_000_000)
        code = (
            "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (1_500_000, 1_500_000));"
            "from flows import *; print(executor().run('ckpt/checkpoint-5', verdict()).reason)"
        )
        path = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
            timeout=60,
        )
        assert "cannot be switched: File too large" in done.stdout, done.stderr
        assert "checkpoint-4" in os.readlink("models/production")
        assert {p.name for p in Path("models").iterdir()} == {
            "production",
            ".production.lock",
            os.readlink("models/production"),
        }


def test_the_hash_is_what_sha256sum_says():
    path = checkpoint()
    names = ["config.json", "model.safetensors"]
    lines = subprocess.run(["sha256sum", *names], cwd=path, capture_output=True, check=True).stdout
    whole = subprocess.run(["sha256sum"], input=lines, capture_output=True, check=True).stdout
    assert weights_hash(path) == whole.decode().split()[0]


class TestGateAndEvaluate:
    def test_a_verdict_that_contradicts_its_exit_code_is_none(self):
        from midflight.errors import StepError
        from midflight.gate.workflow.processes import Finished
        from midflight.gate.workflow.steps.gate import read_verdict
        from midflight.schema import verdict_to_json

        out = Path("verdict.json")
        with pytest.raises(StepError, match="exit code 0, and no verdict"):
            read_verdict(out, Finished(0, ""))
        for outcome, code in (("pass", 0), ("fail", 1), ("inconclusive", 3)):
            out.write_text(verdict_to_json(verdict(outcome)))
            assert read_verdict(out, Finished(code, ""))["outcome"] == outcome
            with pytest.raises(StepError, match=f"exit code {(code + 1) % 2}, but the verdict is {outcome}"):
                read_verdict(out, Finished((code + 1) % 2, ""))
        with pytest.raises(StepError, match="midflight gate: exit code 2: midflight: no such policy") as caught:
            read_verdict(out, Finished(2, "midflight: no such policy\n"))
        assert caught.value.permanent

    @pytest.fixture
    def gate(self, monkeypatch):
        """Plays the gate's command by a program that writes a verdict where it is told to."""
        from midflight.gate.workflow.processes import run_program
        from midflight.gate.workflow.steps import gate
        from midflight.schema import verdict_to_json

        said = verdict()

        def played(name, words, context, timeout_s):
            assert (name, words[1], words[2]) == ("gate", "--candidate", "mt4@5")
            code = f"import sys; open(sys.argv[1], 'w').write({verdict_to_json(said)!r}); raise SystemExit({said.exit_code})"
            place = words[words.index("--out-dir") + 1] + "/verdict.json"
            return run_program([*python(code), place], timeout_s=timeout_s, environment={}, folder=context.folder)

        def says(found):
            nonlocal said
            said = found

        monkeypatch.setattr(gate, "run_midflight", played)
        return says

    def test_a_verdict_about_other_weights_is_a_failure(self, gate):
        gate(verdict(step=4))
        first = command("a", "pass", when="always", rollback=python("open('undone', 'w')"))
        workflow(first, {"kind": "gate", "policy": "policy.toml"}, promote())
        execution = executor().run(checkpoint(), run="mt4")
        assert "the verdict is about step 4 of mt4@5" in execution.reason
        assert [step.status for step in execution.steps] == ["rolled_back", "failed", "skipped"]
        assert Path("undone").exists()

    @pytest.mark.parametrize(("outcome", "after"), [("pass", "done"), ("fail", "skipped")])
    def test_later_steps_go_by_the_verdict_of_a_gate(self, outcome, after, gate):
        gate(verdict(outcome))
        workflow({"kind": "gate", "policy": "policy.toml"}, promote(), command("told", "pass", when="fail"))
        path = checkpoint()
        execution = executor().run(path, run="mt4")
        assert execution.step("promote").status == after
        assert {execution.step("promote").status, execution.step("told").status} == {"done", "skipped"}
        trail = [e for e in open_store("s.db").audit() if (e.step, e.event) == ("gate", "done")]
        assert trail[0].detail["evaluations"] == {"gsm8k": "e1"}
        executor().run(path, run="mt4")
        assert events(open_store("s.db")).count(("gate", "started")) == 1

    def test_evaluate_is_midflight_eval(self, word_tokenizer):
        from conftest import tiny_llama

        tiny_llama(word_tokenizer).save_pretrained("ckpt/checkpoint-7")
        word_tokenizer.save_pretrained("ckpt/checkpoint-7")
        Path("rows.jsonl").write_text('{"q": "some text"}\n')
        Path("text.toml").write_text(
            'kind = "loglikelihood"\nsource = { kind = "file", path = "rows.jsonl" }\ntext = "{{ q }}"\nmetrics = ["perplexity"]\n'
        )
        workflow({"kind": "evaluate", "tasks": ["text.toml"]})
        execution = executor(store="s.db").run("ckpt/checkpoint-7")
        assert execution.status == "done", execution.reason
        (run,) = open_store("s.db").runs()
        assert [(run.name, r.task, r.progress.step) for r in open_store("s.db").reports(run.id)] == [
            ("ckpt", "text", 7)
        ]
        workflow({"kind": "evaluate", "tasks": ["no_such_task"], "retries": 5})
        execution = executor(store="s.db").run("ckpt/checkpoint-7")
        assert execution.steps[0].attempts == 1
        assert "midflight eval: exit code 2: midflight: unknown key among tasks" in execution.reason

    def test_gate_is_midflight_gate(self, word_tokenizer):
        from conftest import tiny_llama

        tiny_llama(word_tokenizer).save_pretrained("ckpt/checkpoint-7")
        word_tokenizer.save_pretrained("ckpt/checkpoint-7")
        Path("rows.jsonl").write_text("".join(f'{{"q": "some text and {i} more"}}\n' for i in range(4)))
        Path("text.toml").write_text(
            'kind = "loglikelihood"\nsource = { kind = "file", path = "rows.jsonl" }\ntext = "{{ q }}"\nmetrics = ["perplexity"]\n'
        )
        Path("policy.toml").write_text('[[rules]]\ntask = "text"\nmetric = "perplexity"\nat_most = 1e6\n')
        evaluate, gate = {"kind": "evaluate", "tasks": ["text.toml"]}, {"kind": "gate", "policy": "policy.toml"}
        workflow(evaluate, gate, promote())
        execution = executor(store="s.db").run("ckpt/checkpoint-7")
        assert [step.status for step in execution.steps] == ["done"] * 3, execution.reason
        (kept,) = open_store("s.db").verdicts("default", "ckpt")
        assert (kept.outcome, kept.candidate.step, kept.policy) == ("pass", 7, "policy")
        assert Path("models/production/model.safetensors").exists()
