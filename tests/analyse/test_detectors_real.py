"""Real logs, changed in ways that must not matter, or with a fault put in that must be found."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from midflight.analyse.diagnose import Columns, Watch, diagnose, diagnose_log, facts_of_log, records_of
from midflight.analyse.importers import read_any
from midflight.analyse.names import canonical_name

pytestmark = pytest.mark.data

HEALTHY = [
    "minimind_pretrain", "flan_t5_spiky", "flan_t5_1200", "chatglm_exam30", "wordle_gemma3_sft_b", "skipmlp_new_3a3f4c61", "orpo_recsys", "minimind_dpo", "verl_dp2", "tinker_exp3",
    "areal_a40_completed",
]  # fmt: skip
ILL = ["wordle_rtx_8138", "wordle_rtx_d323", "vl_dapo", "gsm8k_unsloth_250", "flan_t5_leak", "distill_baseline",
       "qwen_em_phase", "wordle_qwen_4090", "chaos_economy_200", "areal_a40_breaker"]  # fmt: skip
RUNS = [*HEALTHY, *ILL]
REPORTED = {"memorisation", "wrong_best"}


@pytest.fixture(scope="module")
def log(data):
    """A run by its folder's name: the first of its log, with its series and what is known of it."""
    known = {}

    def read(name: str):
        if name not in known:
            run = read_any(data / "runs" / name)[0]
            columns = {
                c: (run.series[o].steps.tolist(), run.series[o].values.tolist()) for o, c in run.canonical.items()
            }
            known[name] = columns, facts_of_log(run, columns)
        return known[name]

    return read


def said(columns: Columns, facts) -> list[tuple[str, str, int, int]]:
    return [(one.kind, one.severity, one.onset, one.noticed) for one in diagnose("run", columns, facts).findings]


def kinds(columns: Columns, facts) -> set[str]:
    return {one.kind for one in diagnose("run", columns, facts).findings} - REPORTED


def changed(columns: Columns, change, only=None) -> Columns:
    """Steps and values of the training series changed; held-out ones stay."""
    return {
        name: change(np.array(steps), np.array(values))
        if (only is None and not name.startswith("eval")) or (only and name in only)
        else (steps, values)
        for name, (steps, values) in columns.items()
    }


# -- what must not matter --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("factor", [1 / 1024, 1024.0])  # powers of two: not a digit changes
def test_the_unit_of_a_loss(log, name, factor):
    columns, facts = log(name)
    if facts.algorithm == "rl":
        pytest.skip("in RL the loss has a unit: advantages have unit variance")
    series = ("loss", "eval_loss")
    assert said(changed(columns, lambda s, v: (s, v * factor), series), facts) == said(columns, facts)


@pytest.mark.parametrize("name", RUNS)
def test_the_unit_of_a_reward(log, name):
    columns, facts = log(name)
    series = [key for key in columns if key.startswith("reward")]
    assert said(changed(columns, lambda s, v: (s, v * 128), series), facts) == said(columns, facts)


@pytest.mark.parametrize("name", RUNS)
def test_where_steps_begin_to_count(log, name):
    columns, facts = log(name)
    if "plateau" in kinds(columns, facts):
        pytest.skip("a plateau is held against the planned steps")
    later = {key: ((np.array(steps) + 1000).tolist(), values) for key, (steps, values) in columns.items()}
    moved = replace(facts, planned_steps=facts.planned_steps and facts.planned_steps + 1000)
    watched = {key: values for key, values in later.items() if values[0]}
    first = {one[0]: one for one in said(columns, facts)}
    for kind, severity, _, noticed in said(watched, moved):
        if kind in first and kind not in ("dead_component", "length_cap"):  # which look at the span of a first record
            assert (severity, noticed) == (first[kind][1], first[kind][3] + 1000)


NAMES = {
    "loss": "train_loss", "grad_norm": "gnorm", "learning_rate": "optim/lr", "reward": "critic/score/mean",
    "entropy": "actor/entropy", "kl": "actor/kl_loss", "completion_length": "response_length/mean",
    "clipped_ratio": "response_length/clip_ratio", "reward_std": "rewards/std", "eval_loss": "val/loss",
    "frac_reward_zero_std": "frac_zero_std", "throughput": "tok/s",
}  # fmt: skip
"""Names that other trainers give to the same."""


@pytest.mark.parametrize("name", RUNS)
def test_what_series_are_called(log, name):
    columns, facts = log(name)
    renamed = {NAMES.get(key, facts.names[key]): values for key, values in columns.items()}
    again = {canonical_name(key): values for key, values in renamed.items()}
    assert again.keys() == columns.keys()
    names = {canonical_name(key): key for key in renamed}
    assert said(again, replace(facts, names=names)) == said(columns, facts)


@pytest.mark.parametrize("name", RUNS)
def test_the_order_of_series(log, name):
    columns, facts = log(name)
    assert said(dict(reversed(columns.items())), facts) == said(columns, facts)


@pytest.mark.parametrize("name", HEALTHY)
@pytest.mark.parametrize(("records", "first"), [(2, 0), (2, 1), (5, 2), (10, 0)])
def test_a_thinned_healthy_log_stays_silent(log, name, records, first):
    columns, facts = log(name)
    assert not kinds(changed(columns, lambda s, v: (s[first::records], v[first::records])), facts)


@pytest.mark.parametrize("name", HEALTHY)
@pytest.mark.parametrize("records", [2, 5, 20])
def test_a_longer_logging_interval_stays_silent(log, name, records):
    columns, facts = log(name)

    def averaged(steps, values):
        whole = len(values) // records * records
        return steps[records - 1 :: records], values[:whole].reshape(-1, records).mean(1)

    assert not kinds(changed(columns, averaged), facts)


@pytest.mark.parametrize("name", HEALTHY)
@pytest.mark.parametrize("share", [0.25, 0.5, 0.75])
def test_who_looks_from_the_middle_on_finds_nothing_in_a_healthy_run(log, name, share):
    columns, facts = log(name)
    from_step = share * max(steps[-1] for steps, _ in columns.values())
    assert not kinds(changed(columns, lambda s, v: (s[s >= from_step], v[s >= from_step])), facts)


@pytest.mark.parametrize("name", RUNS)
def test_a_prefix_gives_what_was_noticed_before_it_ends(log, name):
    columns, facts = log(name)
    whole, records = said(columns, facts), list(records_of(columns))
    for share in (0.03, 0.2, 0.5, 0.9):
        last = records[int(share * len(records))][0]
        watch = Watch(facts)
        for step, values in records:
            if step <= last:
                watch.record(step, values)
        found = [(one.kind, one.severity, one.onset, one.noticed) for one in watch.findings]
        assert found == [one for one in whole if one[3] <= last]


# -- faults put into real healthy logs -------------------------------------------------------------------------------


def spoiled(log, name, series, change):
    """A healthy run whose series changes in its second half; what is found, and the step at which it began."""
    columns, facts = log(name)
    steps, values = np.array(columns[series][0]), np.array(columns[series][1], dtype=float)
    middle = len(values) // 2
    values[middle:] = change(values[middle:].copy())
    return diagnose("run", {**columns, series: (steps, values)}, facts), int(steps[middle])


PRETRAINING = ["llmc_124M", "minimind_pretrain", "mng_adamw", "megatron_15b", "nanochat_d24"]


@pytest.mark.parametrize("name", [*PRETRAINING, "flan_t5_1200", "chatglm_exam30"])
def test_a_loss_that_is_nan(log, name):
    found, begins = spoiled(log, name, "loss", lambda v: v * math.nan)
    assert [(one.kind, one.severity, one.noticed) for one in found.findings if one.kind not in REPORTED] == [
        ("nonfinite", "stop", begins)
    ]


def hf_filtered(values):
    """What HF's logging_nan_inf_filter shows of a loss that is NaN: the running mean of those before."""
    return np.full(len(values), values[:3].mean())


def test_a_nan_behind_hf_s_filter_is_told_by_the_gradient_alone(log):
    columns, facts = log("flan_t5_1200")
    half = len(columns["loss"][1]) // 2
    loss, norm = (np.array(columns[key][1]) for key in ("loss", "grad_norm"))
    loss[half:] = hf_filtered(loss[half:])
    hidden = {**columns, "loss": (columns["loss"][0], loss.tolist())}
    assert "nonfinite" not in kinds(hidden, facts)  # the log holds no trace of it
    norm[half:] = math.nan
    seen = diagnose("run", {**hidden, "grad_norm": (columns["grad_norm"][0], norm.tolist())}, facts)
    begins = columns["loss"][0][half]
    assert [(one.severity, one.onset) for one in seen.findings if one.kind == "nonfinite"] == [
        ("note", begins),
        ("stop", begins),
    ]


@pytest.mark.parametrize("name", PRETRAINING)
def test_a_spike_of_ten_records_is_found_and_one_of_a_single_record_is_not(log, name):
    def spike(records):
        return lambda v: np.where(np.arange(len(v)) < records, v * 1.5, v)

    found, begins = spoiled(log, name, "loss", spike(10))
    assert [(one.kind, one.onset) for one in found.findings] == [("loss_spike", begins)]
    assert not spoiled(log, name, "loss", spike(1))[0].findings


@pytest.mark.parametrize("name", PRETRAINING)
def test_a_loss_that_drifts_away_slowly(log, name):
    found, begins = spoiled(log, name, "loss", lambda v: v + 3 * np.linspace(0, 1, len(v)))
    alarms = [one for one in found.findings if one.severity == "stop"]
    assert alarms[0].kind == "divergence"
    assert alarms[0].onset > begins


@pytest.mark.parametrize(
    "name", ["verl_dp2", "gsm8k_unsloth_250", "wordle_qwen_4090", "areal_a40_completed", "tinker_exp3"]
)
def test_a_frozen_reward(log, name):
    columns, facts = log(name)
    middle = len(columns["reward"][1]) // 2
    begins = columns["reward"][0][middle]
    frozen = {
        key: (steps, np.where(np.array(steps) >= begins, level, values).tolist())
        for key, level in (("reward", 0.0), ("reward_std", 0.0), ("frac_reward_zero_std", 1.0))
        if key in columns
        for steps, values in [columns[key]]
    }
    found = diagnose("run", {**columns, **frozen}, facts)
    (finding,) = [one for one in found.findings if one.kind == "no_signal"]
    assert begins - 5 <= finding.onset <= begins + 1  # some records before may have had no spread either
    assert finding.noticed <= begins + 20


@pytest.mark.parametrize("name", ["verl_dp2", "wordle_qwen_4090", "areal_a40_completed"])
def test_an_entropy_that_decays(log, name):
    columns, _ = log(name)
    if "entropy" not in columns:
        pytest.skip("logs no entropy")
    found, begins = spoiled(log, name, "entropy", lambda v: v * np.exp(-np.arange(len(v)) / 3))
    (finding,) = [one for one in found.findings if one.kind == "entropy_collapse"]
    assert begins < finding.noticed <= begins + 14


@pytest.mark.parametrize("name", ["gsm8k_unsloth_250", "wordle_qwen_4090", "verl_getting_started"])
def test_a_kl_that_grows(log, name):
    found, begins = spoiled(log, name, "kl", lambda v: v + 0.1 * np.arange(len(v)))
    (finding,) = [one for one in found.findings if one.kind == "kl_blowup"]
    assert begins + 8 <= finding.noticed <= begins + 15


def test_every_label_is_met(data):
    """The benchmark's goals, on the labelled set."""
    for label in json.loads((data / "runs" / "labels.json").read_text()):
        runs = read_any(data / "runs" / label["run_id"])
        found = {one.kind for run in runs for one in diagnose_log(run).findings}
        clear = {one["kind"] for one in label["findings"] if one["certainty"] == "clear"}
        assert clear - {"truncated", "restart", "wrong_best"} <= found, label["run_id"]
        if label["healthy"]:
            assert found <= {one["kind"] for one in label["findings"]} | REPORTED, label["run_id"]
