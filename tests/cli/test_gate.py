"""`midflight gate` as a user runs it: exit codes, files, and one line for what is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest

from midflight.engines import Fake
from midflight.pipeline import evaluate_checkpoint
from midflight.records import Progress
from midflight.run import Run
from midflight.schema import verdict_schema
from midflight.store import open_store
from midflight.tasks import Task

N = 60
RULES = """
[[rules]]
task = "sums"
metric = "exact_match"
max_drop = 0.02

[[rules]]
task = "more"
metric = "exact_match"
at_least = 0.6

[[rules]]
task = "more"
metric = "exact_match"
slice = "kind=*"
at_least = 0.99
tier = "advisory"
"""


def gate(*arguments: object, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "midflight", "gate", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        **options,
    )


def task(name: str) -> Task:
    rows = [{"id": f"i{a}", "a": a, "kind": "even" if a % 2 == 0 else "odd"} for a in range(N)]
    return Task(
        name,
        rows,
        id="id",
        prompt=name + " {{ a }}+1=",
        target="a + 1",
        metrics=["exact_match"],
        slices={"kind": "kind"},
    )


@pytest.fixture(autouse=True)
def runs() -> None:
    """Three runs in the default store of the working directory, and a policy."""
    solved = {"base": range(12, N), "good": range(4, N), "bad": range(30, N), "near": range(11, N)}
    for name, right in solved.items():
        engine = Fake(
            lambda request, right=right: str(int(request.item_id[1:]) + 1 if int(request.item_id[1:]) in right else -1)
        )
        engine.version = name
        with Run("p", name, resume="attach") as run:
            for one in ("sums", "more"):
                evaluate_checkpoint(task(one), engine, run=run, progress=Progress(100))
    Path("release.toml").write_text(RULES)


@pytest.mark.parametrize(
    ("candidate", "word", "code"), [("good", "PASS", 0), ("bad", "FAIL", 1), ("near", "INCONCLUSIVE", 3)]
)
def test_the_word_on_the_screen_in_the_files_and_in_the_exit_code_is_one(candidate, word, code):
    done = gate("release.toml", "--candidate", f"{candidate}@100", "--baseline", "base", "--out-dir", "out")
    assert (done.returncode, done.stderr) == (code, "")
    assert done.stdout.rstrip().splitlines()[-1].startswith(f"{word} (α = 0.05, look 1)")
    found = json.loads(Path("out/verdict.json").read_text())
    jsonschema.validate(found, verdict_schema())
    assert found["outcome"] == word.lower()
    assert (found["candidate"]["run"], found["candidate"]["step"], found["baseline"]["run"]) == (candidate, 100, "base")
    root = ElementTree.parse("out/junit.xml").getroot()
    assert (int(root.get("failures")) + int(root.get("errors")) > 0) == (code != 0)
    assert [suite.get("name") for suite in root] == ["sums", "more", "release"]
    assert Path("out/summary.md").read_text().startswith(f"### {word}: ")
    (kept,) = open_store(create=False).verdicts("p", candidate)
    assert (kept.id, kept.outcome) == (found["id"], found["outcome"])


def test_json_is_all_that_is_printed_and_nothing_is_written_unasked():
    before = sorted(path.name for path in Path().iterdir() if not path.name.startswith("midflight.db"))
    done = gate("release.toml", "-c", "good", "-b", "base", "--json")
    assert json.loads(done.stdout)["outcome"] == "pass"
    assert sorted(path.name for path in Path().iterdir() if not path.name.startswith("midflight.db")) == before


def test_files_are_enough_without_a_store(tmp_path):
    from midflight.schema import report_to_json

    store = open_store(create=False)
    for name in ("base", "good"):
        for report in store.reports(store.runs(name=name)[0].id):
            Path(f"{name}-{report.task}.json").write_text(report_to_json(report))
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    arguments = ["../release.toml", "--report", "../good-sums.json", "--report", "../good-more.json"]
    done = gate(*arguments, "--baseline", "../base-sums.json", "--json", cwd=folder)
    found = json.loads(done.stdout)
    assert (done.returncode, found["look"], list(folder.iterdir())) == (0, 0, [])
    assert found["decisions"][0]["method"] == "unpaired (Newcombe)"
    done = gate("../release.toml", "-c", "../good-sums.json", "--report", "../good-sums.json", cwd=folder)
    assert done.stderr == "midflight: the candidate has more than one result of sums\n"


def test_the_same_weights_asked_again_are_the_same_look():
    Path("release.toml").write_text('looks = "every-checkpoint"\n' + RULES)
    looks = [json.loads(gate("release.toml", "-c", "good", "-b", "base", "--json").stdout)["look"] for _ in range(2)]
    assert looks == [1, 1]


@pytest.mark.parametrize(
    ("policy", "arguments", "told"),
    [
        (
            RULES.replace("max_drop", "max_dorp"),
            ["-c", "good"],
            "unknown key 'rules.0.max_dorp'; did you mean 'max_drop'?",
        ),
        (RULES, ["-c", "good"], "compares with a baseline, and none is given; --baseline RUN"),
        (RULES, ["-c", "good", "-b", "good"], "candidate and baseline are one and the same evaluation"),
        (RULES, ["-c", "goood", "-b", "base"], "no run 'goood'"),
        (RULES, ["-c", "good@7", "-b", "base"], "step of run 'good'; got '7'"),
        (RULES, ["-b", "base"], "no candidate; allowed: --candidate RUN@STEP, or --report FILE"),
        (RULES, ["-c", "good", "-b", "base", "--store", "nowhere.db"], "no store at"),
        (RULES, ["-c", "good", "-b", "base", "--out-dir", "release.toml"], "release.toml: cannot be written"),
        (
            RULES.replace("at_least = 0.6", "at_most = 0.6"),
            ["-c", "good", "-b", "base"],
            "higher is better; got 'at_most'",
        ),
        ("", ["-c", "good"], "rules: missing"),
    ],
)
def test_bad_input_ends_with_two_and_one_line(policy, arguments, told):
    Path("release.toml").write_text(policy)
    done = gate("release.toml", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_run_is_not_found_where_there_is_no_store(tmp_path):
    folder = tmp_path / "empty"
    folder.mkdir()
    done = gate("../release.toml", "-c", "good", "-b", "base", cwd=folder)
    assert done.returncode == 2
    assert "no store at" in done.stderr
    assert list(folder.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_store_without_write_permission_serves():
    Path("midflight.db").chmod(0o444)
    done = gate("release.toml", "-c", "good", "-b", "base")
    assert done.returncode == 0
