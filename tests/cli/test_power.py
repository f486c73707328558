"""`midflight power`, and `--baseline` of eval and watch: what they print, what they refuse."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from test_cli import midflight, save_model

from midflight.cli._checkpoints import CheckpointEvaluator
from midflight.engines import Fake
from midflight.errors import ConfigError
from midflight.pipeline import evaluate_checkpoint
from midflight.records import Progress
from midflight.run import Run
from midflight.sequential import SequentialRule
from midflight.show.tables import console
from midflight.store import open_store
from midflight.tasks import load_task
from midflight.triggers import Checkpoint

N = 300


@pytest.fixture(autouse=True)
def task():
    rows = [{"q": f"{a}+1=", "a": a + 1, "family": a // 3} for a in range(N)]
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    Path("sums.toml").write_text(
        'source = { kind = "file", path = "rows.jsonl" }\nprompt = "{{ q }}"\ntarget = "a"\nmetrics = ["exact_match"]\n'
    )
    return load_task("sums.toml")


def answers(share: float, seed: int):
    """Right on this share of the items."""
    right = {f"{index:06d}" for index in random.Random(seed).sample(range(N), round(share * N))}
    return lambda request: str(int(request.prompt.split("+")[0]) + 1) if request.item_id in right else "x"


@pytest.fixture
def run(task):
    with Run("math", "base") as run:
        for step, seed in ((0, 1), (100, 1), (200, 2)):
            engine = Fake(answers(0.6 if step else 0.5, seed), version=str(step))
            evaluate_checkpoint(task, engine, run=run, progress=Progress(step))
    return run


class TestPower:
    def test_prints_what_it_takes_and_what_the_task_can_show(self, run):
        done = midflight("power", "-t", "sums", "--detect", 0.05)
        assert (done.returncode, done.stderr) == (0, "")
        assert "sums · exact_match · 300 items · math/base step 100 and step 200" in done.stdout
        assert "these 300 items can show 0.1" in done.stdout
        assert "half of the evaluations have decided that an equal model is not worse" in done.stdout

    def test_json(self, run):
        found = json.loads(
            midflight("power", "-t", "sums.toml", "--detect", 0.1, "--baseline", "base@0", "--json").stdout
        )
        assert (found["task"], found["items"], found["source"]) == ("sums", 300, "math/base step 0 and step 200")
        assert found["variance"] == pytest.approx(0.5, abs=0.06)
        assert found["correlation"] == pytest.approx(0.0, abs=0.15)
        assert found["items_needed"] == pytest.approx(7.849 * found["variance"] / 0.01, abs=1)
        assert found["detectable"] == pytest.approx(2.8016 * (found["variance"] / 300) ** 0.5, rel=1e-3)
        assert found["decided_if_equal"] <= 300

    def test_samples_and_clusters(self):
        task = load_task("sums.toml")
        own = type(task)(
            "sampled", "rows.jsonl", prompt="{{ q }}", target="a", metrics=["exact_match"], samples=4, cluster="family",
            sampling={"temperature": 1.0},
        )  # fmt: skip

        def by_family(seed):
            draw = random.Random(seed)
            chances = {family: draw.random() for family in range(N // 3)}

            def answer(request):
                number = int(request.item_id)
                return str(number + 1) if draw.random() < chances[number // 3] else "x"

            return answer

        with Run("math", "families") as run:
            for step in (0, 1):
                evaluate_checkpoint(own, Fake(by_family(step), version=str(step)), run=run, progress=Progress(step))
        few, many = (
            json.loads(midflight("power", "-t", "sampled", "--detect", 0.05, "--samples", k, "--json").stdout)
            for k in (1, 64)
        )
        assert few["design_effect"] == many["design_effect"] > 1.5
        assert few["items_needed"] > 1.3 * many["items_needed"]
        assert many["variance"] == pytest.approx(many["between"] * many["design_effect"], rel=0.1)
        assert many["decided_if_equal"] is None

    def test_without_a_store(self):
        done = midflight("power", "-t", "sums.toml", "--detect", 0.05, "--accuracy", 0.6, "--correlation", 0.5)
        assert "variance of the difference 0.24 an item (correlation 0.50)" in done.stdout
        assert "to see 0.05: 754 items" in done.stdout
        assert not Path("midflight.db").exists()

    @pytest.mark.parametrize("task", [[], ["-t", "nobody-has-this"]])
    def test_without_a_task_that_can_be_loaded(self, task):
        given = ["power", *task, "--detect", 0.05, "--accuracy", 0.6, "--correlation", 0.5]
        found = json.loads(midflight(*given, "--json").stdout)
        assert (found["items_needed"], found["items"], found["detectable"]) == (754, None, None)
        done = midflight(*given)
        assert done.returncode == 0
        assert ("what its items can show is not known: unknown key among tasks" in done.stdout) is bool(task)
        assert "can show 0" not in done.stdout

    def test_one_evaluation_needs_a_correlation(self, task):
        with Run("math", "once") as run:
            evaluate_checkpoint(task, Fake(answers(0.6, 1)), run=run)
        done = midflight("power", "-t", "sums", "--detect", 0.05)
        assert done.returncode == 2
        assert "'sums' has one evaluation only that can be used: math/once step 0; give --correlation" in done.stderr
        given = json.loads(midflight("power", "-t", "sums", "--detect", 0.05, "--correlation", 0.5, "--json").stdout)
        assert given["variance"] == pytest.approx(0.24, abs=0.01)

    @pytest.mark.parametrize(
        ("arguments", "error"),
        [
            (["--detect", "0"], "--detect; got 0.0; allowed: a difference above 0"),
            (["--detect", "nan"], "--detect; got nan"),
            (["--detect", "2"], "--detect; got 2.0; allowed: above 0, up to 1: all that exact_match can differ by"),
            (
                ["--detect", "5", "--accuracy", "0.5", "--correlation", "0"],
                "--detect; got 5.0; allowed: above 0, up to 1",
            ),
            (
                ["--detect", "1", "--accuracy", "0.5", "--correlation", "0", "-m", "perplexity"],
                "--metric; got 'perplexity'",
            ),
            (["--detect", "0.1", "--alpha", "1"], "--alpha; got 1.0; allowed: between 0 and 1"),
            (["--detect", "0.1", "--power", "0"], "--power; got 0.0"),
            (["--detect", "0.1", "--accuracy", "1.5"], "--accuracy; got 1.5"),
            (["--detect", "0.1", "--accuracy", "0.5"], "--accuracy without --correlation"),
            (["--detect", "0.1", "--correlation", "1"], "--correlation; got 1.0; allowed: from -1 to below 1"),
            (["--detect", "0.1", "--samples", "8"], "the noise of sampling is not known"),
            (["--detect", "0.1", "-m", "tokens_per_second"], "allowed: one that scores items: exact_match"),
            (
                ["--detect", "0.1", "--baseline", "base@7"],
                "step of run 'base'; got '7'; allowed: first, last, 0, 100, 200",
            ),
            (["--detect", "0.1", "--baseline", "nobody"], "no run 'nobody'"),
        ],
    )
    def test_what_is_refused_in_one_line(self, run, arguments, error):
        done = midflight("power", "-t", "sums", *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert error in done.stderr
        assert done.stderr.count("\n") == 1

    def test_a_task_that_nobody_evaluated(self, run):
        done = midflight("power", "-t", "gsm8k", "--detect", 0.1)
        assert done.returncode == 2
        assert (
            "no evaluation of 'gsm8k' in sqlite:///midflight.db; evaluate it first, or give --accuracy" in done.stderr
        )

    def test_evaluations_that_do_not_differ(self, task):
        with Run("math", "same") as run:
            for step in (0, 1):
                evaluate_checkpoint(task, Fake(answers(0.6, 1)), run=run, progress=Progress(step))
        done = midflight("power", "-t", "sums", "--detect", 0.1)
        told = "math/same step 1; passed over: math/same step 0 (the same scores as step 1); give --correlation"
        assert (done.returncode, told in done.stderr) == (2, True), done.stderr

    def test_a_dead_model_is_passed_over_and_said_to_be(self, task, run):
        with Run("math", "dead") as dead:
            for step, engine in ((0, Fake("x", version="0")), (1, Fake("x", version="1"))):
                evaluate_checkpoint(task, engine, run=dead, progress=Progress(step))
        found = json.loads(midflight("power", "-t", "sums", "--detect", 0.1, "--json").stdout)
        assert found["source"] == (
            "math/base step 100 and step 200; passed over: math/dead step 1 (all scores are 0),"
            " math/dead step 0 (all scores are 0)"
        )
        assert found["variance"] == pytest.approx(0.5, abs=0.06)
        refused = midflight("power", "-t", "sums", "--detect", 0.1, "--baseline", "dead@1")
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "allowed: one whose scores differ; math/dead step 1 (all scores are 0)" in refused.stderr

    def test_an_evaluation_beside_dead_ones_is_the_only_one(self, task):
        with Run("math", "died") as died:
            for step, engine in ((0, Fake(answers(0.6, 1))), (1, Fake("x", version="1"))):
                evaluate_checkpoint(task, engine, run=died, progress=Progress(step))
        done = midflight("power", "-t", "sums", "--detect", 0.1)
        assert "math/died step 0; passed over: math/died step 1 (all scores are 0)" in done.stderr
        given = json.loads(midflight("power", "-t", "sums", "--detect", 0.1, "--correlation", 0.5, "--json").stdout)
        assert given["variance"] == pytest.approx(0.24, abs=0.01)


class TestEndingEarly:
    def test_eval_ends_early_and_says_so(self, task):
        midflight("eval", "fake:7", "-t", "sums.toml", "--run", "base")
        done = midflight(
            "eval", "fake:7", "-t", "sums.toml", "--run", "new", "--baseline", "base@0", "--margin", 0.05, "--out", "r.json"
        )  # fmt: skip
        assert done.returncode == 0
        assert "pass after" in done.stdout
        assert "exact_match not worse than default/base@0 by more than 0.05" in done.stdout
        assert "not_run" in done.stdout
        (report,) = json.loads(Path("r.json").read_text())
        assert (report["status"], report["decided"]["early"], report["decided"]["size"]) == ("done", True, N)
        again = midflight("eval", "fake:7", "-t", "sums.toml", "--run", "new", "--baseline", "base@0", "--margin", 0.05)
        assert "(from the store)" in again.stdout
        assert "pass after" in midflight("show", "new").stdout

    @pytest.mark.parametrize(
        ("arguments", "error"),
        [
            (["--baseline", "base"], "--baseline and --margin; got ('base', None); allowed: both, or neither"),
            (["--margin", "0.1"], "--baseline and --margin"),
            (["--baseline", "base", "--margin", "-1"], "margin: input should be greater than or equal to 0"),
            (
                ["--baseline", "base", "--margin", "0.1", "--claim", "same"],
                "claim: input should be 'not_worse' or 'better'",
            ),
            (["--baseline", "base", "--margin", "0.1"], "no run 'base'"),
        ],
    )
    def test_what_is_refused_in_one_line(self, arguments, error):
        done = midflight("eval", "fake:7", "-t", "sums.toml", *arguments)
        assert done.returncode == 2
        assert error in done.stderr
        assert done.stderr.count("\n") == 1

    def test_watch_compares_each_checkpoint_with_the_first(self, word_tokenizer):
        rows = [{"q": "a", "a": "nothing says this"}] * 120
        Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        with Path("sums.toml").open("a") as file:
            file.write("sampling = { max_tokens = 4 }\n")
        for step in (1, 2):
            save_model(f"run/checkpoint-{step}", word_tokenizer, seed=step)
        done = midflight(
            "watch", "run", "-t", "sums.toml", "--once", "--baseline", "start", "--margin", 0.3, "--run", "w",
            "--interval", 0.2,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        first, second = open_store().reports(1)
        assert (first.decided, second.decided.outcome, second.decided.early) == (None, "pass", True)
        assert "exact_match not worse than default/w@1 by more than 0.3" in done.stdout
        refused = midflight("watch", "run", "-t", "sums.toml", "--once", "--baseline", "no", "--margin", 0.3)
        assert (refused.returncode, "no run 'no'" in refused.stderr) == (2, True)

    def test_a_checkpoint_is_decided_once_and_completed_without_the_rule(self, task, run):
        class Loaded(Fake):
            def fingerprint(self):
                return {**super().fingerprint(), "model": "ckpt-300"}

        loaded: list[Loaded] = []

        def load(path, name):
            loaded.append(Loaded(answers(0.6, 1)))
            return loaded[-1]

        def evaluator(**rules):
            return CheckpointEvaluator([task], run, 0, load, console(), rules=rules)

        Path("ckpt-300").mkdir()
        checkpoint = Checkpoint(Path("ckpt-300"), 300, "digest")
        rule = SequentialRule(task="sums", baseline="base@100", margin=0.1)
        for rules, asked in (({"sums": rule}, [100]), ({"sums": rule}, [100]), ({}, [100, 200]), ({}, [100, 200])):
            one = evaluator(**rules)
            assert (one.evaluate(checkpoint), one.failed) == (True, [])
            assert [len(engine.seen) for engine in loaded] == asked
        with pytest.raises(ConfigError, match="no run 'nobody'"):
            evaluator(sums=rule.model_copy(update={"baseline": "nobody"}))
