"""`midflight compare` and `midflight flips` as a user runs them."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from midflight.engines import Fake
from midflight.pipeline import evaluate_checkpoint
from midflight.records import Progress
from midflight.run import Run
from midflight.store import open_store
from midflight.tasks import Task

NASTY = "[bold red]x[/bold red]\x1b[31m\x1b]0;owned\x07\u202e second"


def midflight(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "midflight", *arguments], capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture
def runs(tmp_path):
    """Two runs in the default store: the tuned one solves other items, and is hostile."""
    store = open_store("midflight.db")
    rows = [{"a": a, "q": NASTY} for a in range(60)]
    task = Task("sums", rows, prompt="{{ q }}{{ a }}+1=", target="a + 1", metrics=["exact_match"])
    for name, first, last in (("base", 0, 25), ("tuned", 5, 50)):
        with Run("p", name, store=store) as run:
            for step, end in ((0, first + 3), (100, last)):

                def answer(request, first=first, end=end):
                    number = int(request.item_id)
                    return str(number + 1) if first <= number < end else NASTY

                engine = Fake(answer, version=f"{name}{step}")
                evaluate_checkpoint(task, engine, run=run, progress=Progress(step))


def test_a_table_with_the_difference_and_what_it_comes_to(runs):
    done = midflight("compare", "base", "tuned", "--items")
    assert done.returncode == 0, done.stderr
    assert "against base, step 100" in done.stdout
    row = next(line for line in done.stdout.split("\n") if "exact_match" in line)
    assert [cell.strip() for cell in row.split("│")[1:-1]] == [
        "sums", "exact_match", "0.4167", "0.75", "+0.33 [+0.17, +0.48]", "0.0003", "25 : 5", "60", "better",
    ]  # fmt: skip
    assert "25 learned, 5 forgotten" in done.stdout
    assert "10 of 30 items" in done.stdout
    assert "\x1b" not in done.stdout
    assert "\u202e" not in done.stdout


def test_json_for_machines(runs):
    found = json.loads(midflight("compare", "base@first", "tuned@last", "--items", "--json").stdout)
    assert found["differences"][0]["num_better"] == 45
    assert found["baseline"] == {**found["baseline"], "step": 0, "run": "base"}
    assert sum(flip["learned"] for flip in found["flips"]) == 45


def test_bad_input_is_a_line_and_exit_code_2(runs, tmp_path):
    (tmp_path / "odd.json").write_text("{")
    for arguments, said in (
        (("base",), "Missing argument"),
        (("base", "nobody"), "no run 'nobody'"),
        (("base", "odd.json"), "not a report"),
        (("base", "missing.json"), "cannot be read"),
        (("base", "tuned@7"), "allowed: first, last, 0, 100"),
        (("base", "tuned", "--full"), "beside --items"),
        (("base", "tuned", "--level", "95"), "between 0 and 1"),
    ):
        done = midflight("compare", *arguments)
        assert (done.returncode, said in done.stderr, "Traceback" in done.stderr) == (2, True, False), done.stderr


def test_flips_are_a_table_and_a_picture(runs, tmp_path):
    done = midflight("flips", "tuned", "--out", "flips.png")
    assert done.returncode == 0, done.stderr
    rows = [line.split("│")[1:-1] for line in done.stdout.split("\n") if "100" in line]
    assert [cell.strip() for cell in rows[0]] == ["100", "45", "+42", "−0", "45", "60"]
    assert (tmp_path / "flips.png").read_bytes().startswith(b"\x89PNG")
    assert midflight("flips", "tuned", "--metric", "acc").returncode == 2
    assert midflight("flips", "tuned", "--task", "sum").returncode == 2
