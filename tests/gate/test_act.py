"""`midflight act`, `midflight audit` and `midflight watch --then`, as a user runs them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from flows import checkpoint, command, midflight, promote, workflow, write_verdict

from conftest import tiny_llama
from midflight.store import open_store


class TestAct:
    @pytest.mark.parametrize(("outcome", "code"), [("pass", 0), ("fail", 1), ("inconclusive", 3)])
    def test_the_exit_code_is_the_verdict_s(self, outcome, code):
        workflow(promote())
        write_verdict(outcome)
        done = midflight("act", "workflow.toml", "--verdict", "verdict.json", "--checkpoint", checkpoint(), "--json")
        assert done.returncode == code
        execution = json.loads(done.stdout)
        assert execution["status"] == "done"
        assert execution["steps"][0]["status"] == ("done" if code == 0 else "skipped")
        told = ["midflight: promote…", "midflight: promote: done"] if code == 0 else [
            f"midflight: promote: skipped: the verdict is {outcome}",
            f"midflight: workflow: nothing failed; the verdict is {outcome}",
        ]  # fmt: skip
        assert [line[: len(start)] for line, start in zip(done.stderr.splitlines(), told, strict=True)] == told
        again = midflight("act", "workflow.toml", "--verdict", "verdict.json", "--checkpoint", "ckpt/checkpoint-5")
        assert again.returncode == code
        state = "promote done" if code == 0 else f"promote skipped (the verdict is {outcome})"
        assert again.stdout == f"midflight: workflow: done before (execution {execution['id']}): {state}\n"
        assert again.stderr.splitlines() == told[2:] if code == 0 else told[1:]

    def test_a_step_that_fails_is_told(self):
        workflow(promote(), command("bad", "raise SystemExit('no route')"))
        write_verdict()
        done = midflight("act", "workflow.toml", "--verdict", "verdict.json", "--checkpoint", checkpoint())
        assert done.returncode == 1
        assert done.stderr.startswith("midflight: workflow: step 'bad' failed: ")
        assert done.stderr.count("\n") == 1
        assert "promote: rolled back" in done.stdout
        assert not Path("models/production").is_symlink()
        shown = midflight("audit").stdout
        assert "no route" in shown
        assert "rolled_back" in shown

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["nowhere.toml"], "nowhere.toml: cannot be read as TOML: No such file or directory"),
            (["workflow.toml"], "step 'promote' needs a checkpoint; name it: --checkpoint DIR"),
            (
                ["workflow.toml", "--checkpoint", "ckpt/checkpoint-5"],
                "step 'promote' needs a verdict; name it: --verdict",
            ),
            (["workflow.toml", "--verdict", "workflow.toml"], "--verdict workflow.toml: not a verdict of schema 1"),
            (["workflow.toml", "--verdict", "no.json"], "--verdict no.json: No such file or directory"),
            (["workflow.toml", "--wait", "-1"], "--wait; got -1.0; allowed: seconds from 0"),
        ],
    )
    def test_bad_input_is_one_line(self, words, message):
        workflow(promote())
        checkpoint()
        done = midflight("act", *words)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert message in done.stderr

    def test_nobody_acted_yet(self):
        open_store()
        assert midflight("audit").stdout == "no workflow was carried out yet\n"
        assert midflight("audit", "--json").stdout == "[]\n"
        assert midflight("audit", "--store", "no.db").returncode == 2

    def test_the_catalog_knows_the_steps(self):
        assert "promote" in midflight("catalog").stdout
        assert "only_newer" in midflight("catalog", "promote").stdout


class TestWatch:
    @pytest.fixture(autouse=True)
    def _folder(self, word_tokenizer):
        Path("rows.jsonl").write_text('{"q": "some text"}\n')
        Path("text.toml").write_text(
            'kind = "loglikelihood"\nsource = { kind = "file", path = "rows.jsonl" }\ntext = "{{ q }}"\nmetrics = ["perplexity"]\n'
        )
        for step in (3, 10, 20):
            tiny_llama(word_tokenizer, step).save_pretrained(f"ckpt/checkpoint-{step}")
            word_tokenizer.save_pretrained(f"ckpt/checkpoint-{step}")

    def watch(self, *extra: object):
        words = ["watch", "ckpt", "-t", "text.toml", "--once", "--interval", 0.05, "--run", "w"]
        return midflight(*words, "--then", "workflow.toml", *extra)

    def test_each_evaluated_checkpoint_is_delivered_once_in_step_order(self):
        tell = "import os; open('log', 'a').write(os.path.basename(os.environ['MIDFLIGHT_CHECKPOINT']) + chr(10))"
        workflow(promote(when="always", only_newer=True), command("tell", tell, when="always"))
        done = self.watch()
        assert (done.returncode, done.stderr) == (0, "")
        assert Path("log").read_text().split() == ["checkpoint-3", "checkpoint-10", "checkpoint-20"]
        assert os.readlink("models/production") == "../ckpt/checkpoint-20"
        assert {event.project for event in open_store().audit()} == {"default"}
        again = self.watch()
        assert again.stdout.count("done before (execution") == 3
        assert len(Path("log").read_text().split()) == 3

    def test_a_workflow_that_fails_does_not_stop_the_watch(self):
        fail = "import os; raise SystemExit(os.environ['MIDFLIGHT_CHECKPOINT'].endswith('-10'))"
        workflow(promote(when="always"), command("check", fail, when="always"))
        done = self.watch()
        assert done.returncode == 1
        assert [r.progress.step for r in open_store().reports(1)] == [3, 10, 20]
        assert os.readlink("models/production") == "../ckpt/checkpoint-20"
        ends = [
            (Path(e.checkpoint).name, e.event)
            for e in open_store().audit()
            if e.event in ("done", "ended") and not e.step
        ]
        assert ends == [("checkpoint-3", "done"), ("checkpoint-10", "ended"), ("checkpoint-20", "done")]
        again = self.watch()  # what has ended is left as it ended: an old checkpoint does not replace a newer one
        assert again.returncode == 1
        assert "failed before (execution" in again.stdout
        assert os.readlink("models/production") == "../ckpt/checkpoint-20"

    def test_one_that_waits_for_a_verdict_is_refused_before_anything_runs(self):
        workflow(promote())
        done = self.watch()
        assert done.returncode == 2
        assert '--then workflow.toml: nothing in it makes a verdict; give it a step of kind "gate"' in done.stderr
        assert open_store().reports(1) == []
