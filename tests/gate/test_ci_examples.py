"""The templates for CI: they are what GitHub and GitLab read, and their commands do what they say."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from flows import Hook, write_verdict

from conftest import ROOT, tiny_llama
from midflight.cli import app
from midflight.gate.workflow import load_workflow

CI = ROOT / "examples" / "ci"
COMMANDS = [command.name for command in app.registered_commands]


def github() -> list[str]:
    (job,) = yaml.safe_load((CI / "github-actions.yml").read_text())["jobs"].values()
    return [step["run"] for step in job["steps"] if "run" in step]


def gitlab() -> list[str]:
    jobs = yaml.safe_load((CI / "gitlab-ci.yml").read_text())
    parts = [jobs["default"]["before_script"], jobs["judge"]["script"], jobs["release"]["script"]]
    return [line for part in [*parts, jobs["release"]["after_script"]] for line in part]


@pytest.fixture
def place(word_tokenizer, monkeypatch) -> Path:
    """A folder with the templates, and a checkpoint."""
    for file in [*CI.iterdir(), ROOT / "examples" / "own_task.toml", ROOT / "examples" / "capitals.jsonl"]:
        shutil.copy(file, ".")
    tiny_llama(word_tokenizer).save_pretrained("ckpt/checkpoint-5")
    word_tokenizer.save_pretrained("ckpt/checkpoint-5")
    os.mkdir("bin")
    for name, words in (("midflight", ["-m", "midflight"]), ("python", [])):
        Path("bin", name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {" ".join(words)} "$@"\n')
        Path("bin", name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{Path('bin').absolute()}:{os.environ['PATH']}")
    for name, value in (("CHECKPOINT", "ckpt/checkpoint-5"), ("RUN", "mt4"), ("STEP", "5")):
        monkeypatch.setenv(name, value)
    return Path()


def run(command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-ec", command], capture_output=True, text=True, timeout=120)


def commands(lines: list[str], name: str) -> list[str]:
    return [line for line in lines if line.startswith(f"midflight {name} ")]


def test_they_say_the_same():
    ours = [[line for line in lines if line.startswith("midflight")] for lines in (github(), gitlab())]
    assert ours[0] == ours[1]
    assert [line.split()[1] for line in ours[0]] == ["eval", "gate", "act", "audit"]
    triggers = yaml.safe_load((CI / "github-actions.yml").read_text())[True]  # YAML 1.1 reads `on` as true
    assert set(triggers["workflow_dispatch"]["inputs"]) == {"checkpoint", "run", "step"}


def test_the_workflow_is_one():
    assert [step.name for step in load_workflow(CI / "workflow.toml").steps] == ["production", "smoke", "tell"]


@pytest.mark.parametrize("lines", [github(), gitlab()], ids=["github", "gitlab"])
def test_their_commands_run(lines, place, monkeypatch):
    (evaluate,), (act,), (audit,) = (commands(lines, name) for name in ("eval", "act", "audit"))
    done = run(evaluate)
    assert done.returncode == 0, done.stderr
    write_verdict()
    with Hook((200, {}, b"ok")).running() as hook:
        monkeypatch.setenv("SLACK_WEBHOOK_URL", hook.url)
        done = run(act)
    assert done.returncode == 0, done.stderr
    assert re.match(r"\*pass\* by policy release: mt4, .*/ckpt/checkpoint-5", hook.bodies[0]["text"])
    assert (Path("models/production") / "model.safetensors").is_file()
    assert run(audit).returncode == 0
    assert [e["event"] for e in json.loads(Path("audit.json").read_text())][-1] == "done"
    assert hook.url not in Path("audit.json").read_text() + done.stdout


@pytest.mark.parametrize("lines", [github(), gitlab()], ids=["github", "gitlab"])
@pytest.mark.skipif("gate" not in COMMANDS, reason="needs midflight gate")
def test_their_gate_judges(lines, place):
    (evaluate,), (gate,) = (commands(lines, name) for name in ("eval", "gate"))
    assert run(evaluate).returncode == 0
    done = run(gate)
    assert done.returncode in (0, 1, 3), done.stderr
    assert json.loads(Path("verdict.json").read_text())["policy"] == "release"
