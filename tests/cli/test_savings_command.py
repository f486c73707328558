"""`midflight savings` and `midflight sweep` as a user runs them."""

from __future__ import annotations

import itertools
import json
import math
import random
import subprocess
import sys

import pytest

from midflight.analyse.history import histories
from midflight.analyse.savings import savings_of
from midflight.cli import main
from midflight.run import Run
from midflight.store import open_store

NASTY = "[bold red]x[/bold red]$\\alpha"


def midflight(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "midflight", *arguments], capture_output=True, text=True, timeout=120, check=False
    )


def train(store, name, config=None, level=0.5, end=400, breaks=10**9):
    draw = random.Random(name)
    with Run("p", name, config=config, store=store) as run:
        for step in range(1, end + 1):
            loss = level + 2 * math.exp(-step / 100) + draw.gauss(0, 0.02)
            run.log(step, loss=loss if step < breaks else math.nan)


@pytest.fixture
def runs():
    """A healthy run and one whose loss breaks in the middle, in the default store."""
    store = open_store("midflight.db")
    train(store, NASTY, {"max_steps": 400})
    train(store, "broken", {"max_steps": 1000}, breaks=200)
    return store


def test_a_table_of_what_would_have_been_saved(runs):
    done = midflight("savings", NASTY, "broken")
    assert done.returncode == 0, done.stderr
    row = next(line.split() for line in done.stdout.splitlines() if line.startswith("broken"))
    assert row[:6] == ["broken", "400", "of", "1000", "200", "nonfinite"]
    assert "80%" in row
    assert "[bold red]x[/bold red]" in done.stdout
    assert "1 of 2 runs stopped" in done.stdout
    assert "no held-out metric" in done.stdout


def test_json_and_a_picture(runs, tmp_path):
    done = midflight("savings", NASTY, "broken", "--json", "--out", "s.png")
    found = json.loads(done.stdout)
    healthy, broken = found["runs"]
    assert (healthy["finding"], healthy["saved"], healthy["cost"]) == (None, 0.0, 0.0)
    assert (broken["finding"]["kind"], broken["stopped_at"], broken["unit"]) == ("nonfinite", 200, "seconds")
    assert 0 < broken["share"] < 1
    assert broken["planned_share"] == pytest.approx(0.8)
    assert found["total"]["num_stopped"] == 1
    assert (tmp_path / "s.png").read_bytes()[:4] == b"\x89PNG"


def test_a_run_that_was_resumed_is_counted_in_steps(runs):
    with Run("p", "broken", store=runs, resume="must") as run:
        for step in range(401, 500):
            run.log(step, loss=math.nan)
    row = savings_of(histories(["broken"])[0])
    assert (row.unit, row.spent, row.last_step) == ("steps", 499.0, 499)


def test_held_out_scores_of_the_store_are_what_it_is_judged_by(runs):
    from midflight.engines import Fake
    from midflight.pipeline import evaluate_checkpoint
    from midflight.records import Progress
    from midflight.tasks import Task

    task = Task("sums", [{"a": a} for a in range(20)], prompt="{{ a }}", target="1", metrics=["exact_match"])
    with Run("p", "broken", store=runs, resume="attach") as run:
        for step, solved in ((100, 4), (200, 10), (300, 16)):
            engine = Fake(lambda request, n=solved: str(int(int(request.item_id) < n)), version=str(step))
            evaluate_checkpoint(task, engine, run=run, progress=Progress(step))
    row = savings_of(histories(["broken"])[0])
    assert (row.metric, row.held_out) == ("sums/exact_match", True)
    assert (row.best.value, row.best_before.value, row.cost) == (0.8, 0.5, pytest.approx(0.3))


def test_logs_of_other_trainers_are_read(tmp_path):
    history = [{"step": step, "loss": 1.0 if step < 50 else float("nan")} for step in range(1, 101)]
    (tmp_path / "run1").mkdir()
    state = {"global_step": 100, "max_steps": 200, "log_history": history}
    (tmp_path / "run1" / "trainer_state.json").write_text(json.dumps(state))
    (row,) = json.loads(midflight("savings", "run1/trainer_state.json", "--json").stdout)["runs"]
    assert (row["run"], row["finding"]["kind"], row["unit"], row["planned_steps"]) == (
        "run1",
        "nonfinite",
        "steps",
        200,
    )
    assert row["planned_share"] == pytest.approx((200 - row["stopped_at"]) / 200)


def test_files_that_are_no_logs_are_named_and_the_others_counted(runs, tmp_path):
    (tmp_path / "notes.md").write_text("# nothing\n")
    (tmp_path / "other.csv").write_text("step,loss\n" + "".join(f"{step},{3 - step / 200}\n" for step in range(1, 200)))
    done = midflight("savings", "broken", "notes.md", "other.csv", "broken", "--json")
    assert (done.returncode, [row["run"] for row in json.loads(done.stdout)["runs"]]) == (0, ["broken", "other"])
    assert "not looked at: log notes.md" in done.stderr
    alone = midflight("savings", "notes.md")
    assert (alone.returncode, "of no format" in alone.stderr) == (2, True)
    gone = midflight("savings", "broken", "nobody")
    assert (gone.returncode, "no run 'nobody'" in gone.stderr) == (2, True)


def test_what_was_said_while_it_trained_changes_no_hindsight(runs):
    before = savings_of(histories([NASTY])[0])
    finding = savings_of(histories(["broken"])[0]).finding
    (healthy,) = [run for run in runs.runs("p") if run.name == NASTY]
    runs.add_finding(healthy.id, 1, finding)
    assert before == savings_of(histories([NASTY])[0])
    assert before.stopped_at is None


def test_a_log_in_the_store_keeps_its_plan_and_its_trainer(tmp_path):
    """llm.c says on each line how many steps there are; what fine-tunes with it is still told as pre-training."""
    lines = [
        f"step {n:4d}/1000 | loss {3 - n / 500:.6f} | norm 1.0 | lr 3.00e-04 | 100.00 ms | 1 tok/s"
        for n in range(1, 301)
    ]
    (tmp_path / "main.log").write_text("\n".join(lines))
    assert midflight("import", "main.log", "--run", "gpt2").returncode == 0
    (stored,) = histories(["gpt2"])
    (logged,) = histories(["main.log"])
    assert (stored.facts.planned_steps, stored.facts.algorithm) == (1000, "pretrain")
    assert (stored.facts, stored.formats) == (logged.facts, list(logged.formats))
    assert savings_of(stored).planned_steps == 1000
    (found,) = json.loads(midflight("diagnose", "gpt2", "--json").stdout)
    assert found["algorithm"] == "pretrain"


@pytest.mark.data
def test_a_real_run_without_a_reward_would_have_been_stopped_when_its_label_says(data):
    """Reward 0 at each of 50 steps: the label has the onset from step 10 on, the run's own breaker waited for 50."""
    row = savings_of(histories([str(data / "runs" / "areal_a40_breaker")])[0])
    assert row.finding.kind in ("grad_vanish", "no_signal")  # both at the same record
    assert (row.cost, row.unit) == (0.0, "seconds")
    assert 10 <= row.stopped_at <= 25
    assert 0.5 < row.share < 0.9


@pytest.mark.data
def test_real_healthy_runs_are_stopped_for_nothing_but_what_engineers_argue_about(data):
    labels = [label for label in json.loads((data / "runs" / "labels.json").read_text()) if label["healthy"]]
    assert len(labels) > 20
    for label in labels:
        for history in histories([str(data / "runs" / label["run_id"])]):
            found = savings_of(history).finding
            assert found is None or found.kind in {one["kind"] for one in label["findings"]}, label["run_id"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("savings", "broken", "--on", "note"), "--on"),
        (("savings", "nobody"), "no run"),
        (("savings", "broken", "--out", "x.txt"), "--out"),
        (("sweep",), "--project"),
        (("sweep", "broken"), "2 or more"),
        (("sweep", "--project", "p", "--pick", "first"), "--pick"),
        (("sweep", "--project", "p", "--metric", "accuracy"), "loss"),
        (("sweep", "--project", "p", "--eta", "1"), "eta; got 1.0"),
        (("sweep", "--project", "none"), "no project 'none'"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(runs, arguments, said, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["midflight", *arguments])
    with pytest.raises(SystemExit, match="2"):
        main()
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert err.count("\n") == 1


@pytest.fixture
def swept():
    store = open_store("midflight.db")
    for rate, batch, seed in itertools.product((1e-4, 1e-3), (16, 32), (0, 1)):
        config = {"lr": rate, "batch": batch, "warmup": batch * 2, "seed": seed, NASTY: NASTY + str(batch)}
        end = 200 if (rate, batch, seed) == (1e-3, 32, 1) else 400
        train(store, f"lr{rate:g}-b{batch}-{seed}", config, 0.5 - 0.3 * (rate == 1e-3), end)
    return store


def test_a_sweep_tells_what_matters_what_is_confounded_and_who_was_cut_short(swept):
    done = midflight("sweep", "--project", "p", "--out", "s.png")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    rate = next(line for line in lines if line.startswith("lr ") and "→" in line)
    assert "0.0001 → 0.001 (log)" in rate
    assert rate.split()[-1] == "better"
    assert sum("not estimable" in line and "→" in line for line in lines) == 3
    assert any(line.startswith("cannot be told apart:") and "batch" in line and "warmup" in line for line in lines)
    assert any("only 200" in line and line.startswith("lr0.001-b32-1") for line in lines)
    assert "1 of 8 runs end before step 400: all are compared at step 200" in done.stdout
    assert "none of the runs is running" in done.stdout
    assert "\x1b" not in done.stdout


def test_json_of_a_sweep_and_one_whose_runs_are_named_in_another_order(swept):
    names = [run.name for run in swept.runs("p")]
    found = [json.loads(midflight("sweep", *order, "--json").stdout) for order in (names, names[::-1])]
    assert found[0] == found[1]
    assert (found[0]["step"], found[0]["metric"], len(found[0]["trials"])) == (200, "loss", 8)
    effect = next(one for one in found[0]["effects"]["effects"] if one["parameter"] == "lr")
    assert effect["ci_low"] < -0.3 < effect["ci_high"]
    assert [rung["step"] for rung in found[0]["rungs"]] == [10, 30, 90, 270]
