"""`midflight diagnose` as a user runs it: runs of the store and logs of others."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from midflight.run import Run


def midflight(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "midflight", *arguments], capture_output=True, text=True, timeout=120)


@pytest.fixture
def run():
    """A run that diverges, in the default store, and a log of it."""
    values = [(s, 1 + 3 * math.exp(-s / 30) if s < 150 else 1 + (s - 150) / 20) for s in range(1, 300)]
    with Run("p", "bad", watch=False) as run:
        for step, loss in values:
            run.log(step, loss=loss, learning_rate=1e-4)
    lines = [json.dumps({"step": step, "loss": loss, "learning_rate": 1e-4}) for step, loss in values]
    Path("bad.jsonl").write_text("\n".join(lines))
    return "bad"


def test_a_run_and_its_log_are_told_the_same(run):
    stored, logged = (json.loads(midflight("diagnose", name, "--json").stdout)[0] for name in ("bad", "bad.jsonl"))
    assert [f["kind"] for f in stored["findings"]] == [f["kind"] for f in logged["findings"]]
    assert "divergence" in {f["kind"] for f in stored["findings"]}


def test_words_say_what_it_is_what_it_means_and_what_to_try(run):
    done = midflight("diagnose", "bad")
    assert done.returncode == 0, done.stderr
    assert "divergence stop at" in done.stdout
    assert "means   Training undoes what it had learned" in done.stdout
    assert midflight("diagnose", "bad", "--fail-on", "stop").returncode == 1
    assert midflight("diagnose", "bad", "--kind", "overfit", "--fail-on", "note").returncode == 0


def test_files_that_are_no_logs_are_named_and_the_others_looked_at(run):
    Path("README.md").write_text("# nothing\n")
    done = midflight("diagnose", "README.md", "bad.jsonl", "--brief")
    assert (done.returncode, "divergence" in done.stdout) == (0, True)
    assert "not looked at: log README.md" in done.stderr
    alone = midflight("diagnose", "README.md")
    assert (alone.returncode, "of no format" in alone.stderr) == (2, True)


def test_bad_input_is_a_line(run):
    for arguments, said in (
        (("nobody",), "no run 'nobody'"),
        (("bad", "--fail-on", "stp"), "allowed: note, warn, stop"),
        (("bad", "--kind", "divergense"), "divergence"),
    ):
        done = midflight("diagnose", *arguments)
        assert (done.returncode, said in done.stderr, "Traceback" in done.stderr) == (2, True, False), done.stderr
