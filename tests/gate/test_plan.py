"""A workflow's file: what is wrong with it is told by file, step and field, before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from flows import checkpoint, command, executor, promote, verdict, workflow

from midflight import catalog
from midflight.errors import ConfigError
from midflight.gate.workflow import load_workflow
from midflight.gate.workflow.plan import STEPS


def refused(text: str) -> str:
    Path("w.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_workflow("w.toml")
    assert "w.toml" in str(caught.value)
    return str(caught.value)


def test_the_folder_is_the_registry():
    assert catalog.keys(STEPS) == [
        "command",
        "evaluate",
        "gate",
        "mlflow",
        "promote",
        "push_hub",
        "python",
        "webhook",
    ]
    assert all(catalog.summary(STEPS, key) for key in catalog.keys(STEPS))


def test_steps_in_order_with_the_file_s_name():
    found = load_workflow(workflow(command("a", "pass"), promote(), path="ship.toml"))
    assert (found.name, [step.name for step in found.steps]) == ("ship", ["a", "promote"])
    assert [step.when for step in found.steps] == ["pass", "pass"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no steps; allowed: tables [[steps]]"),
        ("steps = 3", "no steps"),
        ("steps = [3]", "steps[1]; got 3; allowed: a table"),
        ("[[steps]]\nrun = ['x']", "steps[1]: kind; got None; allowed: command, evaluate, gate"),
        ("[[steps]]\nkind = 'comand'", "steps[1]: kind: unknown key among steps; got 'comand'; did you mean 'command'?"),
        ("[[steps]]\nkind = 'command'\nrun = 'rm -rf /'", "steps[1] (command): run: input should be a valid list"),
        ("[[steps]]\nkind = 'command'\nrun = []", "run: list should have at least 1 item"),
        ("[[steps]]\nkind = 'command'\nrun = ['x']\ntimeout = 3", "unknown key 'timeout'; did you mean 'timeout_s'?"),
        ("[[steps]]\nkind = 'command'\nrun = ['x']\ntimeout_s = -1", "timeout_s: input should be greater than 0 (got -1)"),
        ("[[steps]]\nkind = 'command'\nrun = ['x']\nname = 'a b'", "steps[1] (a b): name: string should match"),
        ("[[steps]]\nkind = 'command'\nrun = ['x']\nwhen = 'passed'", "when"),
        ("[[steps]]\nkind = 'command'\nrun = ['x']\nwhen = []", "when: an empty list is never"),
        ("[[steps]]\nkind = 'command'\nrun = ['x']\nretries = 1.5", "retries: input should be a valid integer"),
        ("[[steps]]\nkind = 'promote'\ntarget = 'x'\nmode = 'move'", "mode: input should be 'link' or 'copy'"),
        ("[[steps]]\nkind = 'promote'\ntarget = 'x'\nidempotent = false", "idempotent: input should be True"),
        ("[[steps]]\nkind = 'python'\nentry = 'os.system'", "entry: string should match pattern"),
        ("[[steps]]\nkind = 'webhook'\nurl = 'http://example.org/x'", "url http://example.org/x; allowed: https://"),
        ("[[steps]]\nkind = 'webhook'\nurl = 'https://me:pw@example.org/'", "a name and password in it"),
        ("[[steps]]\nkind = 'webhook'\nurl = 'https://[::1'", "url: url https://[::1: "),
        ("[[steps]]\nkind = 'webhook'\nurl = 'https://x'\ntext = '${verdict}'", "text: ${verdict} is none of workflow"),
        ("[[steps]]\nkind = 'push_hub'\nrepo = 'a/b'\ntoken = 'hf_secret'", "token: string should match pattern"),
        ("[[steps]]\nkind = 'command'\nrun = ['x']\n" * 2, "two steps are called 'command'"),
        ("[[steps]]\nkind = 'command'\nrun = ['x']\n[[steps]]\nkind = 'gate'\npolicy = 'p.toml'", "waits for a verdict"),
        ("nam = 'x'\n[[steps]]\nkind = 'command'\nrun = ['x']", "unknown key 'nam'; got"),
        ("name = 3\n[[steps]]\nkind = 'command'\nrun = ['x']", "name; got 3; allowed: a text"),
        ("[[steps]]\nkind = ", "cannot be read as TOML"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_by_step_and_field(text, message):
    assert message.split("; got")[0] in refused(text)


def test_nothing_runs_if_something_is_missing(monkeypatch):
    ran = Path("ran")
    steps = [command("first", "open('ran', 'w')", when="always"), promote()]
    workflow(*steps)
    path = checkpoint()
    with pytest.raises(ConfigError, match="step 'promote' needs a checkpoint; name it: --checkpoint DIR"):
        executor().run(None, verdict())
    with pytest.raises(ConfigError, match="step 'promote' needs a verdict; name it: --verdict FILE"):
        executor().run(path)
    with pytest.raises(ConfigError, match="checkpoint .*nowhere: no such file or folder"):
        executor().run("nowhere", verdict())
    with pytest.raises(ConfigError, match="no step 'third'; allowed: first, promote"):
        executor().run(path, verdict(), assume_done=["third"])
    workflow(*steps, {"kind": "webhook", "url": "https://example.org", "headers": {"X": "${env:NO_SUCH_TOKEN}"}})
    with pytest.raises(ConfigError, match="the environment variable NO_SUCH_TOKEN is not set"):
        executor().run(path, verdict())
    monkeypatch.setenv("NO_SUCH_TOKEN", "")
    with pytest.raises(ConfigError, match="NO_SUCH_TOKEN is not set"):
        executor().run(path, verdict())
    workflow({"kind": "gate", "policy": "p.toml"}, promote())
    with pytest.raises(ConfigError, match="two verdicts"):
        executor().run(path, verdict())
    assert not ran.exists()
    assert not Path("models").exists()


class TestEvidence:
    def test_a_verdict_about_another_step(self):
        workflow(promote())
        with pytest.raises(
            ConfigError, match=r"the verdict is about step 5 of mt4@5, not about .*checkpoint-6 of step 6"
        ):
            executor().run(checkpoint(6), verdict())
        assert executor().run(checkpoint(7), verdict(step=None)).status == "done"

    def test_a_verdict_about_another_folder_or_older_weights(self, tmp_path):
        import dataclasses
        import os

        from midflight.engines import Fake
        from midflight.pipeline import evaluate_checkpoint
        from midflight.records import Progress, Subject
        from midflight.run import Run
        from midflight.store import open_store
        from midflight.tasks import Task

        judged, other = checkpoint(5).absolute(), checkpoint(5, folder="else").absolute()
        for file in judged.iterdir():
            os.utime(file, (1, 1))

        class Loaded(Fake):
            def fingerprint(self):
                return {**super().fingerprint(), "model": str(judged)}

        task = Task("sums", [{"q": "1+1", "a": 2}], prompt="{{ q }}", target="a", metrics=["exact_match"])
        with Run("math", "mt4", store=open_store("s.db")) as run:
            report = evaluate_checkpoint(task, Loaded(answers={"000000": "2"}), run=run, progress=Progress(5))
        said = verdict(candidate=Subject("mt4@5", "math", "mt4", 5, "", {"sums": report.id}))
        workflow(promote())
        with pytest.raises(ConfigError, match=f"the verdict is about {judged}, not about {other}"):
            executor().run(other, said)
        assert executor().run(judged, said).status == "done"
        os.utime(judged / "model.safetensors")
        with pytest.raises(ConfigError, match="written after it was evaluated on sums; evaluate it again"):
            executor().run(judged, dataclasses.replace(said, id="v2"))
