"""Sweeps: known effects are found, what the runs cannot tell is said, and their order changes nothing."""

from __future__ import annotations

import itertools
import json
import math
import random

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from midflight.analyse.effects import effects_of
from midflight.analyse.parameters import NOT_SET, flat, parameters_of
from midflight.analyse.sweep import sweep_of
from midflight.engines import Fake
from midflight.errors import ConfigError, UnknownKeyError
from midflight.pipeline import evaluate_checkpoint
from midflight.records import Progress
from midflight.run import Run
from midflight.tasks import Task

RATES, NAMES = (1e-4, 3e-4, 1e-3), ("adamw", "muon", "sgd")
WORTH = {"adamw": 0.0, "muon": -0.06, "sgd": 0.2}


def grid(seeds=2, noise=0.01):
    """Configurations and losses: −0.15 a factor of 10 of the rate, muon −0.06, sgd +0.2; batch size does nothing."""
    draw = random.Random(0)
    configs, losses = [], []
    for rate, name, batch, seed in itertools.product(RATES, NAMES, (16, 24), range(seeds)):
        configs.append({"optim": {"lr": rate, "name": name}, "batch": batch, "seed": seed, "layers": 12})
        losses.append(2 - 0.15 * math.log10(rate / 1e-4) + WORTH[name] + draw.gauss(0, noise))
    return configs, losses


def by_name(rows):
    return {(row.parameter, row.end): row for row in rows}


def test_known_effects_are_found_and_equal_those_of_statsmodels():
    configs, losses = grid()
    found = effects_of(configs, losses, higher_is_better=False)
    frame = pd.DataFrame({"y": losses, "lr": [math.log10(c["optim"]["lr"]) for c in configs]})
    frame["name"], frame["batch"] = [c["optim"]["name"] for c in configs], [c["batch"] for c in configs]
    theirs = smf.ols("y ~ batch + lr + C(name)", frame).fit()
    rows = by_name(found.effects)
    keys = [("batch", "24"), ("optim.lr", "0.001"), ("optim.name", "muon"), ("optim.name", "sgd")]
    assert list(rows) == keys
    terms = ["batch", "lr", "C(name)[T.muon]", "C(name)[T.sgd]"]
    spans = [8, 1, 1, 1]
    for key, term, span in zip(keys, terms, spans, strict=True):
        row = rows[key]
        assert row.coefficient == pytest.approx(theirs.params[term])
        assert row.value == pytest.approx(span * theirs.params[term])
        assert row.stderr == pytest.approx(span * theirs.bse[term])
        assert (row.ci_low, row.ci_high) == pytest.approx(tuple(span * theirs.conf_int().loc[term]))
        assert row.p_value == pytest.approx(theirs.pvalues[term])
    adjusted = multipletests(theirs.pvalues[terms], method="holm")[1]
    assert [rows[key].p_adjusted for key in keys] == pytest.approx(list(adjusted))
    assert (found.df, found.n, found.explained) == (theirs.df_resid, 36, pytest.approx(theirs.rsquared))
    assert [rows[key].finding for key in keys] == ["undecided", "better", "better", "worse"]
    truth = [0.0, -0.15, -0.06, 0.2]
    assert all(rows[key].ci_low < value < rows[key].ci_high for key, value in zip(keys, truth, strict=True))


def test_scales_of_parameters():
    configs = [
        {"lr": lr, "wd": wd, "depth": depth, "flag": flag, "act": act, "id": f"run{index}", "seed": index, "same": 1}
        for index, (lr, wd, depth, flag, act) in enumerate(
            [(1e-4, 0.0, 2, True, "gelu"), (1e-3, 0.1, 4, False, "gelu"), (1e-3, 0.0, 19, True, None)]
        )
    ]
    configs[0]["extra"] = configs[1]["extra"] = 3
    found, left_out = parameters_of(configs)
    scales = {one.name: one.scale for one in found}
    assert scales == {
        "act": "levels",
        "depth": "linear",
        "extra": "levels",
        "flag": "levels",
        "lr": "log",
        "wd": "linear",
    }
    settings = {one.name: one.settings for one in found}
    assert settings["extra"] == ["3", "3", NOT_SET]  # missing is a level of its own, and no number
    assert settings["act"] == ["gelu", "gelu", "null"]
    assert set(left_out) == {"id", "seed"}
    flag = next(one for one in found if one.name == "flag").columns[0]
    assert (flag.start, flag.end) == ("true", "false")  # against the commonest


def test_hostile_and_odd_settings_stay_settings():
    nasty = "\x1b]0;owned\x07" + "x" * 1000
    values = [nasty, nasty, float("nan"), float("nan"), float("inf"), [1, {"a": None}], 10**400, 10**400]
    found, _ = parameters_of([{"p": value, nasty: index % 2} for index, value in enumerate(values)])
    texts = {text for one in found for text in one.settings}
    assert "\x1b" not in "".join(texts)
    assert max(map(len, texts)) < 500
    json.dumps(sorted(texts))


def test_seeds_are_noise_and_replicates():
    configs, losses = grid()
    found = effects_of(configs, losses, higher_is_better=False)
    assert found.left_out == {"seed": "a seed: noise, its runs are replicates"}
    assert found.df == 36 - 5


def test_what_came_of_a_run_is_no_setting():
    """The keys of HF's TrainerState: total_flos goes with the batch size, and would leave it not estimable."""
    state = {"is_world_process_zero": True, "logging_steps": 10, "save_steps": 100, "trial_name": None}
    configs = [
        {**state, "train_batch_size": size, "global_step": 6400 // size, "max_steps": 6400 // size, "epoch": 1 - size / 1e5,
         "total_flos": 1e15 / size, "num_input_tokens_seen": 10**6 + size, "best_metric": 1 + size / 64, "eval_loss": 2 / size,
         "best_model_checkpoint": f"out/checkpoint-{size % 3}", "args": {"max_steps": size, "eval_steps": size}}
        for size in (4, 8, 16, 32, 4, 8, 16, 32)
    ]  # fmt: skip
    found, left_out = parameters_of([flat(config) for config in configs])
    assert [one.name for one in found] == ["args.eval_steps", "args.max_steps", "train_batch_size"]
    assert set(left_out.values()) == {"what came of the run, not what it was set to"}
    assert {"global_step", "max_steps", "total_flos", "epoch", "best_metric", "eval_loss"} < set(left_out)


def test_what_changes_together_is_not_told_apart():
    configs, losses = grid()
    for config in configs:
        config["warmup"] = 100 if config["optim"]["name"] == "sgd" else 50
        config["total"] = 3 * config["batch"] + 1
    found = effects_of(configs, losses, higher_is_better=False)
    rows = by_name(found.effects)
    assert rows["warmup", "100"].value is None
    assert rows["warmup", "100"].confounded_with == ["optim.name"]
    assert rows["optim.name", "sgd"].confounded_with == ["warmup"]
    assert (found.interactions, found.not_estimable) == ([], {})
    assert (rows["batch", "24"].confounded_with, rows["total", "73"].confounded_with) == (["total"], ["batch"])
    assert rows["optim.lr", "0.001"].finding == rows["optim.name", "muon"].finding == "better"
    assert all(row.p_value is row.ci_low is row.p_adjusted is None for row in found.effects if row.value is None)


def test_what_nearly_changes_together_is_told():
    configs, losses = grid()
    for config in configs:
        config["warmup"] = int(1e6 * config["optim"]["lr"]) + config["seed"]
    rows = by_name(effects_of(configs, losses, higher_is_better=False).effects)
    assert rows["optim.lr", "0.001"].inflation > 100
    assert rows["optim.lr", "0.001"].nearest == "warmup"
    assert rows["batch", "24"].inflation == pytest.approx(1)


def test_interactions_where_the_runs_carry_them_and_else_why_not():
    configs, losses = grid()
    added = [0.1 * (c["batch"] == 24) * (c["optim"]["name"] == "sgd") for c in configs]
    found = effects_of(configs, [a + b for a, b in zip(losses, added, strict=True)], higher_is_better=False)
    rows = {(row.parameter, row.end): row for row in found.interactions}
    row = rows["batch × optim.name", "24, sgd"]
    assert row.ci_low < 0.1 < row.ci_high
    assert row.finding == "worse"
    frame = pd.DataFrame({"y": np.array(losses) + added, "lr": [math.log10(c["optim"]["lr"]) for c in configs]})
    frame["name"], frame["batch"] = [c["optim"]["name"] for c in configs], [c["batch"] for c in configs]
    theirs = smf.ols("y ~ lr + batch * C(name)", frame).fit()
    assert row.stderr == pytest.approx(8 * theirs.bse["batch:C(name)[T.sgd]"])
    assert rows["batch × optim.name", "24, muon"].finding == "undecided"
    single = effects_of(*grid(seeds=1)[:2], higher_is_better=False)
    assert "batch × optim.name" in {row.parameter for row in single.interactions}  # over three rates
    few = [0, 1, 6, 7, 12, 13]
    small = effects_of([configs[i] for i in few], [losses[i] for i in few], higher_is_better=False)
    assert small.interactions == []
    pair = {"a": 0, "b": 0}, {"a": 0, "b": 1}, {"a": 1, "b": 0}, {"a": 1, "b": 1}
    crossed = effects_of([*pair, *pair][:7], [1.0, 2.0, 3.0, 4.5, 1.1, 2.1, 3.1], higher_is_better=True)
    assert crossed.not_estimable == {"a × b": "3 of 4 cells have 2 runs"}
    thin = effects_of([*pair, *pair], [1.0, 2.0, 3.0, 4.5, 1.1, 2.1, 3.1, 4.4], higher_is_better=True)
    assert [row.parameter for row in thin.interactions] == ["a × b"]
    three = [{**one, "c": index % 3} for index, one in enumerate([*pair, *pair])]
    short = effects_of(three, [1.0, 2.0, 3.0, 4.5, 1.1, 2.1, 3.1, 4.4], higher_is_better=True)
    assert short.not_estimable["a × b"] == "3 residual degrees of freedom, 4 are needed"


def test_an_effect_that_bends_is_told():
    """The best rate lies in the middle: a straight line would hide it."""
    configs, losses = grid()
    bent = [a + 0.1 * (math.log10(c["optim"]["lr"]) + 3.5) ** 2 for a, c in zip(losses, configs, strict=True)]
    assert effects_of(configs, losses, higher_is_better=False).bends == []
    assert effects_of(configs, bent, higher_is_better=False).bends == ["optim.lr"]


def test_hundreds_of_parameters_over_few_runs_are_told_to_be_too_many():
    draw = random.Random(0)
    configs = [{f"p{index:03}": draw.random() for index in range(300)} for _ in range(6)]
    found = effects_of(configs, [draw.random() for _ in configs], higher_is_better=True)
    assert len(found.effects) == 300
    assert all(row.value is None and len(row.confounded_with) > 200 for row in found.effects)
    assert (found.df, found.interactions, found.not_estimable) == (0, [], {})


def test_too_few_runs_give_no_errors():
    found = effects_of([{"a": 1}, {"a": 2}], [1.0, 2.0], higher_is_better=True)
    (row,) = found.effects
    assert (row.stderr, row.p_adjusted, row.finding, found.df) == (None, None, "undecided", 0)
    assert row.value == pytest.approx(1)
    assert effects_of([{}, {}], [1.0, 2.0], higher_is_better=True).effects == []


def test_true_nothings_are_found_in_no_more_than_one_sweep_of_twenty():
    rng = np.random.default_rng(0)
    configs = [{"a": a, "b": b, "c": c} for a, b, c in itertools.product((1, 2), (1, 2), "xyz")]
    wrong = sum(
        any(row.finding != "undecided" for row in effects_of(configs, rng.normal(size=12).tolist(), True).effects)
        for _ in range(400)
    )
    assert wrong <= 0.05 * 400 + 3 * math.sqrt(400 * 0.05 * 0.95)


@given(st.permutations(range(36)))
def test_the_order_of_runs_changes_nothing(order):
    configs, losses = grid()
    shuffled = effects_of([configs[i] for i in order], [losses[i] for i in order], higher_is_better=False)
    assert shuffled == effects_of(configs, losses, higher_is_better=False)


# -- runs of a store -------------------------------------------------------------------------------------------------


def train(store, name, config, level, end=400, project="sweep", seed=0):
    """A finished run whose loss falls to a level."""
    draw = random.Random(f"{name}{seed}")
    with Run(project, name, config=config, store=store) as run:
        for step in range(10, end + 1, 10):
            run.log(step, loss=level + math.exp(-step / 100) + draw.gauss(0, 0.01))


def trained(store):
    for rate, seed in itertools.product((1e-4, 1e-3), range(3)):
        train(store, f"lr{rate:g}-{seed}", {"optim": {"lr": rate}, "seed": seed}, 2 - 0.3 * (rate == 1e-3))
    return store.runs("sweep")


def test_a_sweep_of_a_store(store):
    found = sweep_of(store, trained(store))
    assert (found.metric, found.higher_is_better, found.held_out, found.step) == ("loss", False, False, 400)
    (row,) = found.effects.effects
    assert (row.parameter, row.scale, row.start, row.end, row.finding) == (
        "optim.lr",
        "log",
        "0.0001",
        "0.001",
        "better",
    )
    assert row.ci_low < -0.3 < row.ci_high
    assert found.trials[0].run.startswith("lr0.001")
    assert found.trials[0].settings == {"optim.lr": "0.001", "seed": found.trials[0].run[-1]}
    assert [rung.step for rung in found.rungs] == [100, 300]
    assert found.stop_first == []  # none is running


def test_the_order_of_runs_and_naming_one_twice_change_nothing(store):
    runs = trained(store)
    first = sweep_of(store, runs)
    for seed in range(3):
        shuffled = [*runs, runs[0]]
        random.Random(seed).shuffle(shuffled)
        other = sweep_of(store, shuffled)
        assert (other.trials, other.effects, other.rungs) == (first.trials, first.effects, first.rungs)


def test_runs_cut_short_are_told_and_all_are_compared_where_all_have_been(store):
    runs = trained(store)
    train(store, "short", {"optim": {"lr": 1e-3}, "seed": 7}, 1.7, end=200)
    found = sweep_of(store, store.runs("sweep"))
    assert (found.step, found.longest) == (200, 400)
    assert [trial.run for trial in found.trials if trial.short] == ["short"]
    assert all(trial.point.step <= 200 for trial in found.trials)
    whole = sweep_of(store, store.runs("sweep"), whole_only=True)
    assert (whole.step, whole.left_out) == (400, {"short": "ends at step 200"})
    assert whole.effects == sweep_of(store, runs).effects
    last = sweep_of(store, runs, pick="last")
    assert all(trial.point.step == 400 for trial in last.trials)


def test_running_runs_are_told_which_of_them_to_stop_first(store):
    open_runs = []
    for name, level in (("good", 1.0), ("bad", 2.0), ("worst", 3.0)):
        run = Run("live", name, config={"x": name == "good"}, store=store)
        draw = random.Random(name)
        for step in range(10, 301, 10):
            run.log(step, loss=level + draw.gauss(0, 0.01))
        run.flush()
        open_runs.append(run)
    found = sweep_of(store, store.runs("live"))
    assert {trial.state for trial in found.trials} == {"running"}
    assert found.stop_first == ["worst", "bad"]
    for run in open_runs:
        run.finish()
    assert sweep_of(store, store.runs("live")).stop_first == []


def evaluated_run(store, name, solved, config, prompt="{{ a }}+1="):
    task = Task("sums", [{"a": a} for a in range(40)], prompt=prompt, target="a + 1", metrics=["exact_match"])
    with Run("evals", name, config=config, store=store) as run:
        for step, count in solved.items():
            engine = Fake(
                lambda r, c=count: str(int(r.item_id) + 1 if int(r.item_id) < c else -1), version=f"{name}{step}"
            )
            evaluate_checkpoint(task, engine, run=run, progress=Progress(step))


def test_evaluations_are_preferred_with_their_intervals_and_versions(store):
    evaluated_run(store, "a", {100: 10, 200: 35}, {"lr": 1})
    evaluated_run(store, "b", {100: 5, 200: 5}, {"lr": 2})
    evaluated_run(store, "c", {100: 12, 200: 12}, {"lr": 3})
    evaluated_run(store, "other", {100: 40, 200: 40}, {"lr": 3}, prompt="{{ a }} plus 1")
    found = sweep_of(store, store.runs("evals"))
    assert (found.metric, found.held_out, found.higher_is_better) == ("sums/exact_match", True, True)
    assert found.left_out == {"other": "evaluated otherwise than the others: task, prompt, grader or engine differ"}
    assert [(trial.run, trial.point.value) for trial in found.trials] == [("a", 0.875), ("c", 0.3), ("b", 0.125)]
    report = store.reports(next(run.id for run in store.runs("evals") if run.name == "a"))[-1]
    assert found.trials[0].point.low == report.estimate("exact_match").ci_low
    assert [rung.step for rung in found.rungs] == [100]
    assert sweep_of(store, store.runs("evals"), "exact_match").trials == found.trials


def test_what_cannot_be_compared_is_an_error_that_says_what_can(store):
    runs = trained(store)
    with pytest.raises(ConfigError, match="2 or more"):
        sweep_of(store, runs[:1])
    with pytest.raises(UnknownKeyError, match="loss"):
        sweep_of(store, runs, "los")
    with pytest.raises(ConfigError, match="level"):
        sweep_of(store, runs, level=2)
    for name in ("x", "y"):
        with Run("odd", name, store=store) as run:
            for step in range(20):
                run.log(step, speed=1.0 * step)
    odd = store.runs("odd")
    with pytest.raises(ConfigError, match="direction of 'speed'.*say which"):
        sweep_of(store, odd, "speed")
    assert sweep_of(store, odd, "speed", higher_is_better=True).effects.effects == []
    with pytest.raises(UnknownKeyError, match="speed"):
        sweep_of(store, odd)
    with pytest.raises((ConfigError, UnknownKeyError)):
        sweep_of(store, [])


def test_runs_of_one_name_are_told_apart_and_runs_without_values_are_named(store):
    train(store, "same", {"lr": 1}, 1.0)
    train(store, "same", {"lr": 2}, 2.0)
    with Run("sweep", "empty", store=store) as run:
        run.log(1, loss=1.0)
    found = sweep_of(store, store.runs("sweep"))
    assert len({trial.run for trial in found.trials}) == 2
    assert all(trial.run.startswith("same (") for trial in found.trials)
    assert found.left_out == {"empty": "too few values of loss: 1"}
