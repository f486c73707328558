"""Real training logs, read in place: steps and counts as in labels.json, values as one reads them in the file."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from midflight.analyse.importers import ImportedRun, read_any
from midflight.analyse.names import canonical_name, is_evaluation

pytestmark = pytest.mark.data

CUSTOM_ROWS = {"flan_t5_multi", "flan_t5_spiky"}
"""Rows of a custom callback stand at every step between the records, which alone the labels count."""
ONLY_EVALUATED = {"skipmlp_"}
"""Labels count the evaluations as points."""
NOT_SAID = {"llmc_124M", "mng_adamw", "tinker_exp3", "verl_dp2", "torchtitan_debug", "verl_7b_async", "verl_3b_mcore"}
"""The log does not say how many steps were planned; the labels know it from elsewhere."""
LAST_IS_AN_EVALUATION = {"distill_baseline": 130, "distill_weighted": 170}


@pytest.fixture(scope="module")
def labels(data: Path) -> dict[str, dict]:
    return {one["run_id"]: one for one in json.loads((data / "runs" / "labels.json").read_text())}


@pytest.fixture(scope="module")
def logs(data: Path, labels: dict[str, dict]) -> dict[str, list[ImportedRun]]:
    return {run_id: read_any(data / "runs" / run_id) for run_id in labels}


def test_every_folder_is_one_run_but_for_the_restart(logs, labels):
    several = {run_id: len(runs) for run_id, runs in logs.items() if len(runs) > 1}
    assert several == {"areal_a40_completed": 2}
    restarts = {run_id for run_id, one in labels.items() for f in one["findings"]
                if f["kind"] == "restart" and f["certainty"] == "clear"}  # fmt: skip
    assert restarts == set(several)


def test_counts_are_those_of_the_labels(logs, labels):
    for run_id, runs in logs.items():
        label = labels[run_id]
        if run_id not in CUSTOM_ROWS and not run_id.startswith(tuple(ONLY_EVALUATED)):
            assert sum(run.num_records for run in runs) == label["num_points"], run_id
        assert sum(run.num_eval_records for run in runs) == label["num_eval_points"], run_id


def test_steps_are_those_of_the_labels(logs, labels):
    for run_id, runs in logs.items():
        label = labels[run_id]
        if run_id not in CUSTOM_ROWS:
            assert runs[0].first_step == label["first_step"], run_id
        assert runs[0].last_step == LAST_IS_AN_EVALUATION.get(run_id, label["last_step"]), run_id


def test_planned_steps_are_those_of_the_labels(logs, labels):
    for run_id, runs in logs.items():
        expected = None if run_id in NOT_SAID else labels[run_id]["planned_steps"]
        assert runs[0].planned_steps == expected, run_id


def test_what_ends_early_is_what_the_labels_call_truncated(logs, labels):
    for run_id, runs in logs.items():
        labelled = any(finding["kind"] == "truncated" for finding in labels[run_id]["findings"])
        assert any(run.truncated for run in runs) == labelled, run_id


def test_rows_of_a_custom_callback_are_series_of_their_own(logs):
    run = logs["flan_t5_multi"][0]
    assert (len(run.series["loss"]), len(run.series["loss_data"])) == (732, 3660)
    assert (run.series["loss"].steps[0], run.series["loss_data"].steps[0]) == (5, 0)
    assert run.num_superseded == 0


@pytest.mark.parametrize(
    ("run_id", "key", "step", "value"),
    [
        ("areal_a40_completed", "grpo_actor/task_reward/avg", 10, 0.125),
        ("areal_a40_breaker", "grpo_actor/behave_approx_kl/avg", 1, -3.0339e-05),
        ("composer_mpt", "loss/train/total", 5, 12.6867),
        ("composer_mpt", "throughput/tokens_per_sec", 36, 126388.7395),
        ("llmc_124M", "norm", 0, 15.37),
        ("llmc_124M", "trl", 7435, 3.7819),
        ("llmc_124M", "tel", 19560, 3.2722),
        ("megatron_15b", "lm loss", 1, 12.98419),
        ("megatron_15b", "lm loss", 4070, 2.80903),
        ("minimind_dpo", "dpo_loss", 4292, 0.3476),
        ("minimind_pretrain", "lr", 90, 0.00049999),
        ("mng_adamw", "trl", 1662, 4.039632),
        ("mng_shortcuts_A", "train_loss", 919, 4.9638),
        ("mng_shortcuts_A", "val_loss", 3200, 3.3151),
        ("nanochat_d24", "loss", 1, 10.757717),
        ("nanochat_d24", "dt", 0, 18077.85),
        ("nanochat_d24", "tok/sec", 1, 833525),
        ("nanochat_d24", "Validation bpb", 13250, 0.775811),
        ("nanochat_d24", "CORE metric", 3000, 0.1697),
        ("openinstruct_ds15b", "solve_rate", 4400, 0.4276041666666667),
        ("skipmlp_new_3a3f4c61", "val_loss", 1705, 3.2787),
        ("tinker_exp3", "reward/mean", 49, 0.989609375),
        ("torchtitan_qwen3_14b", "loss", 3, 13.80689),
        ("torchtitan_qwen3_14b", "tps", 10, 12036),
        ("gate2_rho3_s42", "reward", 200, 0.75),
        ("gate2_rho3_s42", "loss", 1, -0.08838),
        ("verl_dp2", "critic/vf_loss", 116, 0.007321),
        ("verl_getting_started", "critic/grad_norm", 0, 377.446),
        ("verl_getting_started", "val/test_score/openai/gsm8k", 59, 0.478),
        ("wordle_gemma3_sft_b", "eval/loss", 1000, 0.3521374762058258),
        ("vl_dapo", "train/grad_norm", 30, 404.0),
        ("verl_7b_async", "val-core/openai/gsm8k/reward/mean@1", 65, 0.8999241590499878),
        ("gsm8k_unsloth_250", "grad_norm", 84, 4.860539436340332),
        ("kto_hh", "rewards/margins", 1000, 8.663213729858398),
        ("orpo_recsys", "logits/chosen", 10, -2.05234694480896),
        ("distill_weighted", "eval_loss", 177, 0.3858901858329773),
        ("trackio_tiny", "loss", 4, 0.2),
        ("torchtitan_debug", "wps", 7, 22289.294921875),
    ],
)  # fmt: skip
def test_values_are_those_in_the_file(logs, run_id, key, step, value):
    series = logs[run_id][0].series[key]
    found = series.values[series.steps.searchsorted(step)]
    assert step in series.steps
    assert found == pytest.approx(value, rel=1e-7)  # float32 in event files


def test_nan_and_infinity_are_where_they_were_logged_and_nowhere_else(logs):
    found = {}
    for run_id, runs in logs.items():
        for run in runs:
            for key, series in run.series.items():
                bad = series.steps[~np.isfinite(series.values)]
                if len(bad) and run.canonical.get(key) != "step_time":  # modded-nanogpt's step_avg begins with nan
                    found[run_id, key] = bad.tolist()
    assert found == {
        ("qwen_em_phase", "grad_norm"): [2058],
        ("wordle_rtx_8138", "train/grad_norm"): [50],
        ("wordle_rtx_8138", "train/kl"): [50],
    }


def test_the_text_nan_of_golden_values_is_no_value(logs):
    run = logs["megatron_15b"][0]
    assert run.series["lm loss"].steps[-1] == 50860
    assert {unread.kind: unread.count for unread in run.unread}["missing values"] > 800


def test_two_trials_of_a_file_keep_their_own_values(logs):
    first, second = logs["areal_a40_completed"]
    assert (second.first_step, second.last_step, second.num_records) == (1, 35, 35)
    assert second.name == "areal_a40_completed-2"
    assert any("begins again at step 1" in note for note in second.notes)
    walls = [run.series["grpo_actor/grad_norm"].walls for run in (first, second)]
    assert walls[0][-1] < walls[1][0]


def test_a_console_log_and_event_files_of_one_run_are_joined(logs, data):
    run = logs["vl_dapo"][0]
    assert set(run.formats) == {"tensorboard_events", "hf_console"}
    assert len(run.series) == 48
    console = read_any(data / "runs" / "vl_dapo" / "trl_grpo_vl_run_terminal.md")[0]
    events = next(one for one in (read_any(p)[0] for p in (data / "runs" / "vl_dapo").glob("events*")))
    assert console.series["loss"].steps.tolist() == events.series["train/loss"].steps.tolist()
    assert np.allclose(console.series["reward"].values, events.series["train/reward"].values, atol=1e-6)


def test_trainer_state_and_trainer_log_agree(logs):
    run = logs["orpo_recsys"][0]
    assert set(run.formats) == {"jsonl", "hf_trainer_state"}
    assert list(run.series).count("loss") == 1
    assert run.summary["train_loss"] == pytest.approx(0.196971476432823)


def test_event_files_of_one_run_go_on(logs):
    steps = logs["wordle_gemma3_sft_b"][0].series["train/loss"].steps
    assert steps.tolist() == list(range(10, 1081, 10))


def test_names_are_what_one_takes_them_for(logs):
    """Prints every name of all runs with what it is taken for; the list has been gone through by eye."""
    names = sorted({key for runs in logs.values() for run in runs for key in run.series})
    for name in names:
        print(f"{name:45} {canonical_name(name) or '':30} {'evaluation' if is_evaluation(name) else ''}")
    assert len(names) > 300
    for runs in logs.values():
        for run in runs:
            assert len(set(run.canonical.values())) == len(run.canonical)
            assert run.find("loss") or run.find("policy_loss") or run.find("eval_loss") or run.find("reward") or (
                run.find("accuracy")), run.name  # fmt: skip


def test_what_a_detector_needs_has_its_name(logs):
    grpo = {
        "reward",
        "reward_std",
        "frac_reward_zero_std",
        "entropy",
        "grad_norm",
        "clipped_ratio",
        "completion_length",
    }
    for run_id in ("wordle_rtx_8138", "vl_dapo", "wordle_qwen_4090"):
        assert grpo <= set(logs[run_id][0].canonical.values()), run_id
    for run_id in ("verl_7b_async", "verl_3b_mcore", "verl_getting_started"):
        names = set(logs[run_id][0].canonical.values())
        assert {"reward", "entropy", "grad_norm", "completion_length", "kl", "policy_loss", "eval_reward"} <= names
    assert math.isclose(logs["verl_7b_async"][0].find("clipped_ratio").values[0], 0.00136719, rel_tol=1e-4)
    assert logs["areal_a40_breaker"][0].find("clipped_ratio").values.tolist() == [0.125] * 50
