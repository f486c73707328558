"""The program as a user runs it: what it prints, what it writes, how it ends."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from midflight.run import Run
from midflight.schema import report_schema
from midflight.store import open_store
from midflight.triggers import CheckpointWatcher

ROWS = [{"q": f"{a}+1=", "a": a + 1, "set": "ab"[a % 2]} for a in range(12)]


def midflight(*arguments: object, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "midflight", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        **options,
    )


@pytest.fixture(autouse=True)
def sums() -> Path:
    path = Path("sums.toml")
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    path.write_text(
        'source = { kind = "file", path = "rows.jsonl" }\nprompt = "{{ q }}"\ntarget = "a"\n'
        'metrics = ["exact_match", "response_length"]\nslices = { set = "set" }\n'
    )
    return path


def save_model(folder: str, word_tokenizer, seed=0) -> None:
    from conftest import tiny_llama

    tiny_llama(word_tokenizer, seed).save_pretrained(folder)
    word_tokenizer.save_pretrained(folder)


class TestEval:
    def test_prints_a_table_and_writes_a_report(self):
        done = midflight("eval", "fake:4", "-t", "sums.toml", "--out", "r.json", "--step", 7, "--run", "mine")
        assert (done.returncode, done.stderr) == (0, "")
        assert "sums · mine step 7" in done.stdout
        assert "exact_match" in done.stdout
        assert "0.083 [0.015, 0.354]" in done.stdout
        assert "set=b" in done.stdout
        (report,) = json.loads(Path("r.json").read_text())
        jsonschema.validate(report, report_schema())
        assert (report["run"], report["progress"]["step"]) == ("mine", 7)

    def test_json_is_all_that_goes_to_standard_output(self):
        done = midflight("eval", "fake:4", "-t", "sums.toml", "-t", "reasoning_gym:chain_sum", "--limit", 3, "--json")
        reports = json.loads(done.stdout)
        assert [r["task"] for r in reports] == ["sums", "reasoning_gym:chain_sum"]
        assert reports[0]["estimates"][0]["n"] == 3

    def test_a_seeded_limit_draws_items(self):
        first, again, other = (
            json.loads(
                midflight(
                    "eval", "fake:4", "-t", "sums.toml", "-n", 3, "--seed", seed, "--json", "--store", f"{i}.db"
                ).stdout
            )[0]
            for i, seed in enumerate((1, 1, 2))
        )
        assert first["task_fingerprint"] == again["task_fingerprint"] != other["task_fingerprint"]

    def test_what_was_evaluated_is_read_from_the_store(self):
        ids = {json.loads(midflight("eval", "fake:4", "-t", "sums.toml", "--json").stdout)[0]["id"] for _ in range(2)}
        assert len(ids) == 1
        assert len(open_store().runs()) == 1

    def test_evaluations_of_other_steps_stand_beside_each_other(self):
        for step in (200, 100, 300):
            midflight("eval", "fake:4", "-t", "sums.toml", "--run", "r", "--step", step)
        assert [r.progress.step for r in open_store().reports(1)] == [100, 200, 300]

    def test_items_without_a_score_are_exit_code_1(self, word_tokenizer):
        save_model("m", word_tokenizer)
        long = [{**row, "q": row["q"] * (60 if row["a"] == 3 else 1)} for row in ROWS]
        Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in long))
        done = midflight("eval", "m", "-t", "sums.toml", "--no-chat", "--batch-tokens", 512)
        assert done.returncode == 1
        assert "exceed the context of 128" in done.stdout
        assert "12 error" in done.stdout  # 256 new tokens are asked for, and do not fit

    def test_a_model_folder(self, word_tokenizer):
        save_model("m", word_tokenizer)
        Path("text.toml").write_text(
            'kind = "loglikelihood"\nsource = { kind = "file", path = "rows.jsonl" }\ntext = "{{ q }}{{ a }}"\n'
            'metrics = ["perplexity", "bits_per_byte"]\n'
        )
        done = midflight("eval", "m", "-t", "text.toml", "--dtype", "bfloat16", "--json")
        (report,) = json.loads(done.stdout)
        assert report["engine"]["dtype"] == "bfloat16"
        assert report["estimates"][0]["value"] > 10
        assert len(report["weights"]) == 16

    def test_ctrl_c_leaves_a_state_that_the_same_command_completes(self):
        Path("slow.py").write_text(
            "import sys\nfrom midflight.engines import Fake\nimport midflight.engines as engines\n"
            "class Slow(Fake):\n"
            "    def run(self, requests):\n"
            "        import time\n"
            "        for i, output in enumerate(super().run(requests)):\n"
            "            if i == 5 and len(requests) == 12:\n"
            "                print('here', file=sys.stderr, flush=True); time.sleep(60)\n"
            "            yield output\n"
            "engines.open_engine = lambda model, **options: Slow('4')\n"
            "import midflight.cli\nmidflight.cli.main()\n"
        )
        command = [sys.executable, "slow.py", "eval", "fake:4", "-t", "sums.toml"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert process.stderr.readline().strip() == "here"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 130
        assert "stopped; the same command goes on where it stopped" in err
        assert "Traceback" not in err
        shown = midflight("show", "fake").stdout
        assert "(run 1): interrupted" in shown
        assert "sums at step 0: interrupted, 5 of 12 items answered" in shown
        done = subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=60)
        (report,) = json.loads(done.stdout)
        assert (done.returncode, report["cost"]["num_requests"]) == (0, 12)
        assert done.stderr == ""
        assert "(run 1): finished" in midflight("show", "fake").stdout

    def test_a_run_that_was_killed_is_lost(self):
        Path("killed.py").write_text(
            "import os, signal, midflight\nrun = midflight.Run(name='r')\nrun.log(1, x=1.0)\nrun.flush()\n"
            "os.kill(os.getpid(), signal.SIGKILL)\n"
        )
        assert subprocess.run([sys.executable, "killed.py"]).returncode == -signal.SIGKILL
        assert "(run 1): lost" in midflight("show", "r").stdout


BAD = [
    (["eval", "nowhere", "-t", "sums.toml"], "model 'nowhere': no such file or folder"),
    (["eval", "fake:4", "-t", "gsm8"], "did you mean 'gsm8k'"),
    (["eval", "fake:4"], "Missing option '--task'"),
    (["eval", "fake:4", "-t", "sums.toml", "-n", "0"], "limit; got 0"),
    (["eval", "fake:4", "-t", "sums.toml", "-n", "x"], "Invalid value for '--limit'"),
    (["eval", "fake:4", "-t", "sums.toml", "--step", "-1"], "--step; got -1"),
    (["eval", "fake:4", "-t", "sums.toml", "--out", "no/r.json"], "--out no/r.json: its folder does not exist"),
    (["eval", "fake:4", "-t", "sums.toml", "--store", "no/s.db"], "its folder does not exist"),
    (["eval", "fake:4", "-t", "sums.toml", "--store", "rows.jsonl"], "rows.jsonl: it is no SQLite file"),
    (["eval", "openai:http://127.0.0.1:9/v1", "-t", "sums.toml"], "cannot list its models"),
    (["eval", "fake:4", "-t", "rewardbench@rows.jsonl"], "no column 'subset'|no column 'chosen'"),
    (["show", "nothing"], "no store at .*midflight.db"),
    (["plot", "r", "-m", "x", "-o", "x.png"], "no store at"),
    (["schema", "reprot"], "did you mean 'report'"),
    (["nonsense"], "No such command 'nonsense'"),
    (["watch", "rows.jsonl", "-t", "sums.toml"], "is a file"),
    (["watch", ".", "-t", "sums.toml", "--interval", "0"], "--interval; got 0"),
    (["demo", "--steps", "0"], "Invalid value for '--steps'"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD, ids=[" ".join(a) for a, _ in BAD])
def test_bad_input_is_one_clear_line_and_exit_code_2(arguments, message):
    import re

    done = midflight(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("midflight: ")
    assert done.stderr.count("\n") == 1, done.stderr
    assert re.search(message, done.stderr), done.stderr
    assert done.stdout == ""


def test_a_broken_file_shows_before_a_model_is_loaded():
    Path("rows.jsonl").write_text('{"q": "1+1=", "a": 2, "set": "a"}\n{"q": broken\n')
    done = midflight("eval", "fake:4", "-t", "sums.toml")
    assert (done.returncode, done.stdout) == (2, "")
    assert "rows.jsonl:2: not valid JSON" in done.stderr
    assert not Path("midflight.db").exists()  # nothing half-written


class TestShowing:
    @pytest.fixture(autouse=True)
    def _evaluated(self):
        for run, answer in (("one", "4"), ("two", "5")):
            for step in (0, 50):
                midflight("eval", f"fake:{answer}", "-t", "sums.toml", "--run", run, "--project", "p", "--step", step)

    def test_runs(self):
        done = midflight("runs")
        assert (done.returncode, done.stderr) == (0, "")
        lines = done.stdout.splitlines()
        assert [line.split()[2] for line in lines[2:]] == ["two", "one"]
        assert "exact_match 0.083 [0.015, 0.354]" in lines[2]
        assert [r["name"] for r in json.loads(midflight("runs", "--json").stdout)] == ["two", "one"]
        assert "1 of 2 runs" in midflight("runs", "--last", 1).stdout
        assert midflight("runs", "--project", "other").stdout.count("\n") <= 2

    def test_show(self):
        done = midflight("show", "one")
        assert done.returncode == 0
        assert "p/one (run 1): finished" in done.stdout
        assert [line.split()[0] for line in done.stdout.splitlines()[3:]] == ["0", "50"]
        assert len(json.loads(midflight("show", "p/one", "--json").stdout)) == 2
        assert "p/one" in midflight("show", "1").stdout
        bad = midflight("show", "three")
        assert (bad.returncode, "there are: two, one" in bad.stderr) == (2, True)

    @pytest.mark.parametrize("name", ["c.png", "c.svg", "c.pdf"])
    def test_plot(self, name):
        done = midflight(
            "plot", "one", "two", "-m", "exact_match", "-m", "sums/response_length", "--slice", "set=a", "-o", name
        )
        assert (done.returncode, done.stdout) == (0, "")
        assert Path(name).stat().st_size > 3000
        if name.endswith("svg"):
            assert "sums: exact_match [set=a]" in Path(name).read_text()

    def test_plot_of_what_is_not_there(self):
        done = midflight("plot", "one", "-m", "exact_mach", "-o", "c.png")
        assert (done.returncode, "did you mean 'sums/exact_match'" in done.stderr) == (2, True)
        done = midflight("plot", "one", "-m", "exact_match", "-o", "c.gif")
        assert (done.returncode, "ends in .png, .svg or .pdf" in done.stderr) == (2, True)
        done = midflight("plot", "one", "-m", "exact_match", "--x", "time", "-o", "c.png")
        assert (done.returncode, "--x; got 'time'" in done.stderr) == (2, True)

    def test_a_pipe_that_closes_early_is_no_error(self):
        done = subprocess.run(
            f"{sys.executable} -m midflight catalog | head -1", shell=True, capture_output=True, text=True
        )
        assert (done.stdout, done.stderr) == ("tasks\n", "")


class TestWatch:
    def write(self, word_tokenizer, *steps):
        for step in steps:
            save_model(f"ckpt/checkpoint-{step}", word_tokenizer, seed=step)

    def watch(self, *extra):
        return midflight("watch", "ckpt", "-t", "text.toml", "--once", "--interval", 0.05, "--run", "w", *extra)

    @pytest.fixture(autouse=True)
    def _text(self):
        Path("text.toml").write_text(
            'kind = "loglikelihood"\nsource = { kind = "file", path = "rows.jsonl" }\ntext = "{{ q }}{{ a }}"\nmetrics = ["perplexity"]\n'
        )

    def test_each_finished_checkpoint_once_in_step_order_and_restartable(self, word_tokenizer):
        self.write(word_tokenizer, 20, 3)
        weights = Path("ckpt/checkpoint-20/model.safetensors")
        whole = weights.read_bytes()
        weights.write_bytes(whole[: len(whole) // 2])
        first = self.watch()
        assert first.returncode == 0
        assert "w, step 3: text: perplexity" in first.stdout
        assert "checkpoint-20: not finished: model.safetensors is half-written" in first.stdout
        weights.write_bytes(whole)
        second = self.watch()
        assert "checkpoint-3: done before" in second.stdout
        assert "w, step 20: text: perplexity" in second.stdout
        assert [r.progress.step for r in open_store().reports(1)] == [3, 20]

    def test_new_weights_of_the_same_step_are_evaluated_anew_and_told_apart(self, word_tokenizer):
        self.write(word_tokenizer, 3)
        self.watch()
        save_model("ckpt/checkpoint-3", word_tokenizer, seed=99)
        second = self.watch()
        assert "w, step 3: text: perplexity" in second.stdout
        weights = [report.weights for report in open_store().reports(1)]
        assert len(set(weights)) == 2
        shown = midflight("show", "w").stdout
        assert all(f"weights={digest[:8]}" in shown for digest in weights)

    def test_several_watchers_share_the_work_and_do_nothing_twice(self, word_tokenizer):
        self.write(word_tokenizer, *range(1, 7))
        done = self.watch("--workers", 3)
        assert (done.returncode, done.stderr) == (0, "")
        lines = [line for line in done.stdout.splitlines() if "text: perplexity" in line]
        assert sorted(int(line.split("step ")[1].split(":")[0]) for line in lines) == list(range(1, 7))
        (run,) = open_store().runs()
        assert [r.progress.step for r in open_store().reports(run.id)] == list(range(1, 7))

    def test_what_a_watcher_that_was_killed_had_begun_is_taken_over(self, word_tokenizer):
        self.write(word_tokenizer, 1)
        store = open_store()
        run = Run("default", "w", resume="attach")
        watcher = CheckpointWatcher("ckpt")
        watcher.poll()
        (checkpoint,) = watcher.poll()
        name = f"{checkpoint.path.absolute()} {checkpoint.digest} for run {run.id}"
        run.finish()
        assert store.take_lease(name, "dead:1:1") == 1
        done = self.watch("--dead-after", 0.5)
        assert (done.returncode, done.stderr) == (0, "")
        assert [r.progress.step for r in store.reports(run.id)] == [1]
        assert store.lease(name) is None

    def test_retention_deletes_it_while_it_is_evaluated(self, word_tokenizer):
        from rich.console import Console

        from midflight.cli._checkpoints import CheckpointEvaluator
        from midflight.engines import HF
        from midflight.tasks import load_task
        from midflight.triggers import Checkpoint

        self.write(word_tokenizer, 4)
        path = Path("ckpt/checkpoint-4")

        def load(where: Path, name: str) -> HF:
            shutil.rmtree(path)
            return HF.load(where, name_or_path=name)

        with Run("default", "w") as run:
            watcher = CheckpointWatcher("ckpt")
            watcher.poll()
            (checkpoint,) = watcher.poll()
            assert isinstance(checkpoint, Checkpoint)
            evaluator = CheckpointEvaluator([load_task("text.toml")], run, 0, load, Console(quiet=True))
            assert evaluator.evaluate(checkpoint)
        (report,) = open_store().reports(run.id)
        assert (evaluator.failed, report.status, report.engine["model"]) == ([], "done", str(path))

    def test_one_that_cannot_be_read_does_not_stop_the_others(self, word_tokenizer):
        self.write(word_tokenizer, 3, 5)
        Path("ckpt/checkpoint-3/config.json").write_text('{"model_type": "nothing"}')
        done = self.watch()
        assert done.returncode == 1
        assert "checkpoint-3: ckpt/checkpoint-3: cannot be loaded as a model" in done.stdout
        assert "w, step 5: text: perplexity" in done.stdout

    def test_it_ends_when_nothing_comes(self):
        os.mkdir("ckpt")
        done = midflight("watch", "ckpt", "-t", "text.toml", "--interval", 0.05, "--idle", 0.2)
        assert (done.returncode, done.stderr) == (0, "")


def test_catalog():
    done = midflight("catalog")
    assert "gsm8k" in done.stdout
    assert "pass@k" in done.stdout
    content = json.loads(midflight("catalog", "--json").stdout)
    assert all(text for section in content.values() for text in section.values())


def test_schema_and_example():
    schema = json.loads(midflight("schema", "report").stdout)
    example = json.loads(midflight("schema", "report", "--example").stdout)
    jsonschema.validate(example, schema)
    assert example["status"] == "partial"


def test_hostile_names_are_shown_as_data():
    Path("rows.jsonl").write_text(json.dumps({"q": "x", "a": "1", "set": "[red]\x1b[31m[/red]\u202e"}) + "\n")
    done = midflight("eval", "fake:\x1b]0;owned\x07", "-t", "sums.toml")
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    assert "[red]" in done.stdout
