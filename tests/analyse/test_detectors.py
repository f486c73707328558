"""Each detector finds its kind with the right onset, and is silent on the nearest healthy run."""

from __future__ import annotations

import json
import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shapes import FALLING, NOISE, RISING, SHAPES, STEPS, diagnosis, every, noisy, ramp, with_at

from conftest import ROOT
from midflight import catalog
from midflight.analyse.detectors.base import ANY, Chance, Detector, Facts, Track
from midflight.analyse.diagnose import PACKAGE, Watch, diagnose, diagnose_log, facts_of_config
from midflight.analyse.importers import read_any
from midflight.errors import UnknownKeyError
from midflight.records import SEVERITIES

KINDS = catalog.keys(PACKAGE)


def test_every_detector_has_a_shape():
    assert set(SHAPES) == set(KINDS)


@pytest.mark.parametrize("kind", SHAPES)
def test_a_run_that_shows_it(kind):
    shape = SHAPES[kind]
    (finding,) = shape.diagnose(kind).findings
    assert finding.kind == kind
    assert shape.onset[0] <= finding.onset <= shape.onset[1]
    assert finding.onset <= finding.noticed
    assert finding.text
    assert all(math.isfinite(value) for name, value in finding.evidence.items() if kind != "nonfinite")


@pytest.mark.parametrize("kind", SHAPES)
def test_its_nearest_healthy_neighbour(kind):
    found = SHAPES[kind].diagnose(kind, healthy=True)
    assert not found.findings
    assert found.judged == [kind]  # silent, and not for lack of data


@pytest.mark.parametrize("kind", SHAPES)
def test_no_other_detector_finds_a_healthy_neighbour_ill(kind):
    shape = SHAPES[kind]
    found = diagnosis({**shape.rest, **shape.healthy}, shape.algorithm, planned=shape.planned)
    assert {one.kind for one in found.findings} <= ({"loss_spike"} if kind == "divergence" else set())


@pytest.mark.parametrize("kind", KINDS)
def test_it_says_what_it_means_and_what_to_do(kind):
    detector = catalog.load(PACKAGE, kind, Detector)
    assert detector.severity in SEVERITIES
    assert detector.needs
    assert all(len(text) > 20 for text in (detector.meaning, detector.advice, detector.confirm))
    assert "?" in detector.confirm


@pytest.mark.parametrize("kind", SHAPES)
def test_elsewhere_its_signal_is_void(kind):
    shape = SHAPES[kind]
    others = ANY - catalog.load(PACKAGE, kind, Detector).algorithms
    for algorithm in others:
        assert not diagnosis({**shape.rest, **shape.ill}, algorithm, kind, shape.planned).findings


def test_an_unknown_detector():
    with pytest.raises(UnknownKeyError, match="loss_spike"):
        Watch(Facts(), ["loss_spikes"])


# -- what is hard about single kinds ---------------------------------------------------------------------------------


def test_a_gradient_that_stays_nan_is_a_note_first_and_worse_after():
    norm = np.where(STEPS < 100, 1.0, np.nan)
    found = diagnosis({"grad_norm": norm, "loss": FALLING}, "sft", "nonfinite").findings
    assert [(one.severity, one.onset, one.noticed) for one in found] == [("note", 100, 100), ("stop", 100, 102)]


@pytest.mark.parametrize("overflow", [np.inf, np.nan])
def test_a_loss_scaler_that_looks_for_its_scale_is_none(overflow):
    norm = np.where(STEPS < 9, overflow, 1.0)
    assert not diagnosis({"grad_norm": norm}, "sft").findings
    assert diagnosis({"grad_norm": np.where(STEPS < 15, overflow, 1.0)}, "sft").findings[0].severity == "stop"


def test_evaluations_between_gradients_that_are_nan_do_not_mend_them():
    watch = Watch(Facts("sft"), ["nonfinite"])
    for step in range(40):
        watch.record(step, {"grad_norm": 1.0 if step < 30 else math.nan} if step % 2 else {"eval_loss": 1.0})
    assert [(one.severity, one.noticed) for one in watch.findings] == [("note", 31), ("stop", 35)]


# A loss of 0 stands beside a gradient that is NaN in HF's logs: it was not learned.


def test_a_loss_of_zero_beside_a_broken_gradient_is_no_memorisation():
    loss, norm = np.where(STEPS < 100, 0.0148, 0.0), np.where(STEPS < 100, 0.005, np.nan)
    values = {"loss": noisy(loss, 0.02), "grad_norm": norm, "epoch": STEPS / 99.5}
    assert {one.kind for one in diagnosis(values, "sft").findings} == {"nonfinite"}


def test_a_loss_of_zero_beside_a_broken_gradient_is_no_leak():
    loss, norm = np.where(STEPS < 30, 1.5, 0.0), np.where(STEPS < 30, 0.5, np.nan)
    found = diagnosis({"loss": noisy(loss, 0.02), "grad_norm": norm, "epoch": STEPS / 400}, "sft").findings
    assert {one.kind for one in found} == {"nonfinite"}


def test_a_curve_that_falls_through_a_border_memorises_nothing():
    """Six records an epoch of a loss that falls by 2 to 4 % from one to the next: before and after differ by much."""
    x = np.arange(30)
    smooth = {"loss": 5.8 + 2.8 * np.exp(-x / 8) * (1 + 0.01 * NOISE[0][:30]), "epoch": (x + 0.5) / 6}
    assert not diagnosis(smooth, "pretrain").findings
    stairs = {**smooth, "loss": smooth["loss"] * 0.88 ** np.floor(smooth["epoch"])}
    (finding,) = diagnosis(stairs, "pretrain", "memorisation").findings
    assert finding.onset in (7, 13, 19, 25)


def test_pre_training_below_what_any_text_leaves_open():
    """Without epochs and without a held-out loss: 0.3 nats a token are a text that was read a hundred times."""
    (finding,) = diagnosis({"loss": np.interp(STEPS, [1, 40, 200], [8.5, 5.0, 0.2])}, "pretrain").findings
    assert (finding.kind, finding.severity) == ("memorisation", "note")
    assert finding.evidence["level"] == pytest.approx(0.04 * 8.5, rel=0.1)
    assert not diagnosis({"loss": np.interp(STEPS, [1, 40, 200], [8.5, 5.0, 1.1])}, "pretrain").findings
    once = {"loss": np.interp(STEPS, [1, 40, 200], [8.5, 5.0, 0.2]), "epoch": STEPS / 200}
    assert not diagnosis(once, "pretrain", "memorisation").findings  # a summed loss, or an easy task


def test_a_template_that_is_new_to_the_model_is_no_leak():
    """Short answers: one record of 20, then 4, then 0.24, where it stays; the held-out loss agrees."""
    loss = noisy(np.concatenate([[20.5, 3.9], np.interp(np.arange(198), [0, 60], [0.24, 0.15])]), 0.1)
    evals = every(20, 0 * STEPS + 0.15)
    assert not diagnosis({"loss": loss, "eval_loss": evals, "epoch": STEPS / 250}, "sft", "too_good").findings


@pytest.mark.parametrize(("algorithm", "held_out", "severity"), [
    ("sft", None, "stop"), ("sft", 2.0, "stop"), ("sft", 0.003, "note"), ("unknown", None, "warn"),
])  # fmt: skip
def test_a_leak_is_as_sure_as_what_is_known_of_the_run(algorithm, held_out, severity):
    values = {**SHAPES["too_good"].rest, **SHAPES["too_good"].ill}
    if held_out is not None:
        values["eval_loss"] = every(5, 0 * STEPS + held_out)
    assert [one.severity for one in diagnosis(values, algorithm, "too_good").findings] == [severity]


def overfit(**scores: np.ndarray) -> list:
    """A held-out loss that rises from step 80 on, with scores of the same evaluations."""
    values = {"eval_loss": every(20, 1.5 + np.abs(STEPS - 80) / 200), "loss": FALLING - 0.002 * STEPS}
    values |= {name: every(20, series) for name, series in scores.items()}
    return diagnosis(values, "sft", "overfit").findings


def test_a_held_out_loss_that_rises_while_the_task_gets_better_is_a_note():
    (finding,) = overfit(eval_error=ramp(1, 200, 0.8, 0.2))
    assert (finding.severity, finding.onset, list(finding.metrics)) == ("note", 80, ["eval_loss", "loss", "eval_error"])
    assert finding.text.endswith("eval_error is 0.4412 after 0.5618 there, and does not suffer")
    assert [one.severity for one in overfit(eval_score=ramp(1, 200, 0.1, 0.5))] == ["note"]


def test_a_task_that_gets_worse_with_the_loss_is_a_warning():
    assert [one.severity for one in overfit(eval_error=np.abs(STEPS - 80) / 200)] == ["warn"]
    assert [one.severity for one in overfit(eval_accuracy=0 * STEPS + 0.5)] == ["warn"]  # it never moves: no measure
    turns = np.interp(STEPS, [1, 120, 200], [0.1, 0.5, 0.1])  # a note while it still rises, more when it falls
    assert [(one.severity, one.noticed) for one in overfit(eval_accuracy=turns)] == [("note", 120), ("warn", 160)]


def test_the_score_of_an_evaluation_that_is_told_after_its_loss():
    watch = Watch(Facts("sft"), ["overfit"])
    for step in range(1, 12):
        watch.record(20 * step, {"eval_loss": 1.5 + abs(step - 4) / 10})
        watch.record(20 * step, {"heldout/maths/accuracy": 0.1 + step / 20})
    (finding,) = watch.findings
    assert (finding.severity, finding.noticed) == ("note", 120)
    assert "maths/accuracy is 0.35 after 0.3 there" in finding.text  # the newest that was told by then


def sparse(right: int, of: int, records: int, **more: float) -> list:
    """A mean reward that is 0 but in so many of so many records."""
    watch = Watch(Facts("rl"), ["no_signal"])
    for step in range(records):
        reward = 0.0625 if step % of < right else 0.0
        watch.record(step, {"reward": reward, **more})
    return watch.findings


def test_a_reward_that_is_nothing_at_four_steps_of_five():
    """Only the mean reward is logged, and no streak is long: sixteen wrong answers of sixteen, most of the time."""
    (finding,) = sparse(1, 6, 40)
    assert (finding.severity, finding.noticed) == ("warn", 29)
    assert finding.text == "reward 0, the lowest there is, in 83% of 30 records"
    assert not sparse(1, 3, 300)
    assert not sparse(1, 6, 300, reward_std=0.2)  # its spread is logged: answers of one prompt differ


def test_records_without_spread_count_as_groups_where_no_share_is_logged():
    watch = Watch(Facts("rl"), ["no_signal"])
    draw = np.random.default_rng(0)
    for step in range(60):
        spread = 0.3 if step % 6 == 0 else 0.0
        watch.record(step, {"reward": float(draw.integers(0, 2)) if not spread else 0.5, "reward_std": spread})
    (finding,) = watch.findings
    assert (finding.severity, list(finding.metrics)) == ("stop", ["reward_std"])


def test_a_detector_that_said_it_mildly_is_asked_until_it_can_say_more():
    length, score = (
        np.where(STEPS < 60, 400.0, 5.0),
        np.where(STEPS % 10, np.nan, np.interp(STEPS, [90, 150], [0.6, 0.1])),
    )
    found = diagnosis({"reward": RISING, "completion_length": length, "eval_accuracy": score}, "rl", "reward_hacking")
    assert [one.severity for one in found.findings] == ["warn", "stop"]


def test_the_loss_of_a_policy_gradient_begins_at_nothing():
    loss = np.where(STEPS < 30, 1e-6, 0.04) * np.abs(NOISE[0])
    assert not diagnosis({"loss": loss, "reward": RISING}, "rl", "loss_spike").findings
    assert diagnosis({"loss": with_at(loss, s150=5e7), "reward": RISING}, "rl", "loss_spike").findings


def test_penalties_that_never_fire_are_at_their_best():
    values = {"reward": RISING, "rewards/overlong_penalty": 0.0 * STEPS}
    assert not diagnosis(values, "rl", "dead_component").findings


def test_a_single_group_that_is_all_wrong_now_and_then_is_no_missing_signal():
    """One prompt a step, 8 answers, 12 % right: four steps in ten have no spread, five in a row come by chance."""
    draw = np.random.default_rng(3)
    right = draw.binomial(8, 0.12, 2000) / 8
    spread = np.sqrt(right * (1 - right))
    run = max(len(zeros) for zeros in "".join("0" if value == 0 else "1" for value in right).split("1"))
    assert run >= 6  # a rule of five in a row would ring
    assert run < 12
    values = {"reward": right, "reward_std": spread, "grad_norm": spread, "frac_reward_zero_std": (spread == 0) * 1.0}
    assert not {"no_signal", "grad_vanish"} & {one.kind for one in diagnosis(values, "rl").findings}


def test_all_right_is_done_and_not_ill():
    """A task that saturates: nine groups in ten have no spread, gradients are 0 now and then, the reward is at its top."""
    silent = np.interp(STEPS, [1, 80], [0.3, 0.95])
    reward = np.interp(STEPS, [1, 80], [0.4, 0.99]) - 0.01 * np.abs(NOISE[0])
    values = {"reward": reward, "frac_reward_zero_std": silent, "grad_norm": np.where(STEPS > 120, 0.0, 0.1)}
    assert not diagnosis(values, "rl").findings


def test_a_kl_summed_over_the_answer_has_another_bound():
    kl = np.interp(STEPS, [1, 200], [0.0, 20.0])
    columns = {"kl": (STEPS.tolist(), kl.tolist())}
    assert not diagnose("ppo", columns, Facts("rl", names={"kl": "objective/kl"})).findings
    assert diagnose("grpo", columns, Facts("rl", names={"kl": "kl"})).findings


def test_a_held_out_loss_that_falls_is_no_plateau():
    loss = noisy(np.where(STEPS < 20, 3 - STEPS / 10, 1.0), 0.001)
    still = {"loss": np.concatenate([loss, 1 + 0.001 * NOISE[1], 1 + 0.001 * NOISE[2]])}
    evals = np.where(np.arange(600) % 50 == 49, 2 - np.arange(600) / 1000, np.nan)
    assert [one.kind for one in diagnosis(still, "sft").findings] == ["plateau"]
    assert not diagnosis({**still, "eval_loss": evals}, "sft").findings


def part(fallen: str, risen: str, up: int = 100) -> list:
    """Two scores that rise together up to a step; then one falls back and the other goes on."""
    first = noisy(ramp(1, up, 0.3, 0.7), 0.02) + np.minimum(0, ramp(up, 200, 0, -0.4))
    values = {fallen: first, risen: noisy(ramp(1, 200, 0.3, 0.8), 0.02, 2)}
    if not fallen.startswith("rewards/"):
        values |= {name: every(10, values[name]) for name in (fallen, risen)}
    return diagnosis(values, "rl", "reward_hacking").findings


@pytest.mark.parametrize(
    ("fallen", "risen"),
    [
        ("rewards/judge", "rewards/rule"),
        ("heldout/maths/judge", "heldout/maths/rule"),
        ("eval_accuracy", "eval_reward"),
    ],
)
def test_two_verifiers_that_part(fallen, risen):
    (finding,) = part(fallen, risen)
    assert (finding.severity, list(finding.metrics)) == ("warn", [fallen, risen])
    assert 90 <= finding.onset <= 110 < finding.noticed
    assert f"rose together until step {finding.onset}" in finding.text
    assert finding.evidence["low"] < finding.evidence["best"]
    assert finding.evidence["high"] > finding.evidence["before"]


def test_scores_that_part_and_are_no_two_verifiers_of_the_same():
    assert not part("heldout/maths/judge", "heldout/code/judge")  # another task: it forgets
    assert not part("rewards/length_penalty", "rewards/rule")  # longer answers cost more
    assert not part("rewards/judge/std", "rewards/rule")
    assert not part("rewards/judge", "rewards/rule", up=1)  # never rose: they were never of one mind


def trainer_state(path, evaluations, **state):
    history = [{"step": 100 * (n + 1), **values} for n, values in enumerate(evaluations)]
    path.write_text(json.dumps({"log_history": history, "global_step": 100 * len(history), **state}))
    (run,) = read_any(path)
    return [one for one in diagnose_log(run).findings if one.kind == "wrong_best"]


def test_a_best_that_hf_picked_the_wrong_way_round(tmp_path):
    """Without greater_is_better the Trainer takes the largest word error rate for the best."""
    rates = [{"eval_loss": 1.0 + n / 100, "eval_wer": rate} for n, rate in enumerate([0.41, 0.33, 0.29, 0.27])]
    path = tmp_path / "trainer_state.json"
    (finding,) = trainer_state(path, rates, best_metric=0.41, best_model_checkpoint="out/checkpoint-100")
    assert (finding.severity, finding.onset, finding.noticed) == ("note", 100, 300)
    assert (
        finding.text
        == "the trainer's best is step 100, where eval_wer is 0.41, the worst of 3 evaluations; it is 0.29 at step 300"
    )
    assert not trainer_state(path, rates, best_metric=0.27, best_global_step=400)
    assert not trainer_state(path, rates, best_metric=0.41)  # nobody says where
    assert not trainer_state(path, rates[:2], best_metric=0.41, best_global_step=100)


def test_the_best_loss_is_no_wrong_best_if_the_trainer_picks_by_the_score(tmp_path):
    values = [{"eval_loss": 1.0 + n / 100, "eval_accuracy": 0.5 + n / 50} for n in range(12)]
    path = tmp_path / "trainer_state.json"
    (finding,) = trainer_state(path, values)
    assert (finding.onset, finding.noticed, list(finding.metrics)) == (100, 600, ["eval_loss", "eval_accuracy"])
    best = {"best_metric": values[-1]["eval_accuracy"], "best_global_step": 1200}
    assert not trainer_state(path, values, **best)
    for settings in ({"metric_for_best_model": "accuracy"}, {"args": {"metric_for_best_model": "eval_accuracy"}}):
        columns = {name: ([100 * n for n in range(12)], [one[name] for one in values]) for name in values[0]}
        assert not diagnose("run", columns, facts_of_config(settings, {}, columns), ["wrong_best"]).findings


def test_a_score_that_is_only_noise_beats_no_best_checkpoint():
    """200 runs of 20 evaluations each, the loss best at the first: 1 to 3 % have a note by chance, as the page says."""
    draw = np.random.default_rng(0)
    found = 0
    for _ in range(200):
        values = {"eval_loss": 1 + np.arange(20) / 100, "eval_accuracy": draw.normal(0.5, 0.02, 20)}
        found += bool(diagnosis(values, "sft", "wrong_best").findings)
    assert found <= 8


# -- values that nobody expects --------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["pretrain", "sft", "preference", "rl", "unknown"])
def test_any_values_at_all(algorithm):
    names = sorted({need for kind in KINDS for need in catalog.load(PACKAGE, kind, Detector).needs})
    names = [name + "x" if name.endswith("/") else name for name in names]

    @given(st.lists(st.dictionaries(st.sampled_from(names), st.floats() | st.just(0.0)), max_size=60))
    def holds(records):
        watch = Watch(Facts(algorithm, 50, 64))
        for step, values in enumerate(records):
            for finding in watch.record(step, values):
                assert finding.onset <= finding.noticed == step
        said = [(one.kind, SEVERITIES.index(one.severity)) for one in watch.findings]
        assert len(set(said)) == len(said)

    holds()


@pytest.mark.parametrize("value", [0.0, 1.0, -1e300, 1e300])
def test_all_equal(value):
    series = np.full(400, value)
    found = diagnosis({"loss": series, "grad_norm": np.abs(series), "eval_loss": series}, "sft").findings
    assert {one.kind for one in found} <= {"grad_vanish"}  # a gradient of 0 in every record is none


@pytest.mark.parametrize("number", [0, 1])
def test_no_data_and_one_record(number):
    found = diagnosis({"loss": FALLING[:number], "grad_norm": FALLING[:number]}, "sft")
    assert not found.findings
    assert found.num_records == number


# -- the small parts -------------------------------------------------------------------------------------------------


def test_noise_does_not_see_trends_and_jumps():
    values = 5 - STEPS / 50 + 0.1 * NOISE[0] + np.where(STEPS > 100, 3.0, 0.0)
    track = Track()
    for step, value in zip(STEPS, values, strict=True):
        track.add(int(step), float(value))
    assert track.noise(128) == pytest.approx(0.1, rel=0.25)
    assert track.centre_and_spread(128)[1] > 0.5


def test_chance_asks_for_more_where_it_was_frequent():
    def needed(share: float) -> int:
        draw, chance = np.random.default_rng(0), Chance(5)
        for step in range(400):
            chance.hold(step, bool(draw.random() < share))
        chance.hold(400, False)
        return next(count for count in range(1, 100) if chance.hold(400 + count, True))

    assert [needed(share) for share in (0.0, 0.3, 0.8)] == [5, pytest.approx(9, abs=1), pytest.approx(40, abs=5)]


def test_the_benchmark_of_synthetic_logs_holds():
    script = ROOT / "benchmarks" / "bench_synthetic.py"
    done = subprocess.run(
        [sys.executable, script, "--healthy", "40", "--ill", "6", "--seed", "1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
