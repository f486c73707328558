"""Consoles and logs of trainers beside Hugging Face's: lines as the tools print them, with numbers made up."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from midflight.analyse.importers import ImportedRun, read_any
from midflight.analyse.importers._numbers import duration, value_of
from midflight.analyse.names import canonical_name, is_evaluation


def run_of(folder: Path, text: str, name: str = "my_run.log") -> ImportedRun:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    (run,) = read_any(path)
    return run


def points(run: ImportedRun, canonical: str) -> list[tuple[int, float]]:
    series = run.find(canonical)
    assert series is not None, f"{canonical} in {run.canonical}"
    return list(zip(series.steps.tolist(), series.values.tolist(), strict=True))


def test_fairseq_json(tmp_path):
    def line(kind: str, values: dict) -> str:
        return f"2024-01-01 10:00:00 | INFO | {kind} | {json.dumps(values)}\n"

    text = "".join(
        line(
            "train_inner", {"epoch": 1, "loss": f"{9 - n}", "num_updates": f"{100 * n}", "lr": "1e-05", "gnorm": "2.5"}
        )
        for n in (1, 2, 3)
    )
    text += "2024-01-01 10:00:00 | INFO | fairseq.trainer | NOTE: gradient overflow detected\n"
    text += line("valid", {"epoch": 1, "valid_loss": "7.5", "valid_num_updates": "310"})
    text += line("train", {"epoch": 1, "train_loss": "8.1", "train_num_updates": "310"})
    run = run_of(tmp_path, text)
    assert run.formats == ("fairseq",)
    assert points(run, "loss") == [(100, 8), (200, 7), (300, 6)]
    assert points(run, "eval_loss") == [(310, 7.5)]
    assert run.series["train_loss"].values.tolist() == [8.1]
    assert run.eval_keys == {"valid_loss"}
    assert run.series["loss"].walls[0] == 1704103200


def test_fairseq_simple(tmp_path):
    run = run_of(tmp_path, """2024-01-01 10:00:00 | INFO | train_inner | epoch 003:     85 / 282 loss=3.25, nll_loss=1.5, ppl=8.9, num_updates=649, lr=0.0002, gnorm=0.5
2024-01-01 10:00:09 | INFO | train_inner | epoch 003:    185 / 282 loss=3.15, nll_loss=1.4, ppl=8.8, num_updates=749, lr=0.0002, gnorm=inf
2024-01-01 10:00:20 | INFO | valid | epoch 003 | valid on 'valid' subset | loss 4.5 | ppl 22.6 | num_updates 846 | best_bleu 30.5
2024-01-01 10:00:21 | INFO | train | epoch 003 | loss 3.2 | ppl 8.82 | num_updates 846 | lr 0.0002 | gnorm 0.4
""")  # fmt: skip
    assert points(run, "loss") == [(649, 3.25), (749, 3.15)]
    assert points(run, "grad_norm")[1][1] == float("inf")
    assert points(run, "eval_loss") == [(846, 4.5)]
    assert run.series["train_gnorm"].values.tolist() == [0.4]


def test_fairseq_between_bars_alone(tmp_path):
    run = run_of(tmp_path, "".join(
        f"| epoch 00{n} | loss {5 - n}.25 | ppl 19.5 | num_updates {n}00 | lr 2.5e-05 | gnorm 0.3\n"
        f"| epoch 00{n} | valid on 'valid' subset | loss {6 - n} | ppl 16 | num_updates {n}00 | best_loss {6 - n}\n"
        for n in (1, 2)))  # fmt: skip
    assert points(run, "loss") == [(100, 4.25), (200, 3.25)]
    assert points(run, "eval_loss") == [(100, 5), (200, 4)]
    assert {run.canonical[name] for name in ("train_lr", "train_gnorm")} == {"learning_rate", "grad_norm"}


def test_mlx_lm(tmp_path):
    run = run_of(tmp_path, """Starting training..., iters: 40
Iter 1: Val loss 2.875, Val took 3.7s
Iter 10: Train loss 2.5, Learning Rate 1.000e-05, It/sec 3.1, Tokens/sec 599.5, Trained Tokens 1899, Peak mem 8.2 GB
Iter 20: Train loss nan, Learning Rate 1.000e-05, It/sec 3.1, Tokens/sec 601.5, Trained Tokens 3811, Peak mem 8.2 GB
Iter 20: Saved adapter weights to adapters.safetensors.
Test loss 1.75, Test ppl 5.75.
""")  # fmt: skip
    assert (run.formats, run.planned_steps) == (("mlx_lm",), 40)
    assert points(run, "eval_loss") == [(1, 2.875)]
    assert points(run, "loss")[0] == (10, 2.5)
    assert np.isnan(points(run, "loss")[1][1])
    assert points(run, "throughput") == [(10, 599.5), (20, 601.5)]
    assert points(run, "tokens") == [(10, 1899), (20, 3811)]
    assert run.summary == {"Test loss": 1.75, "Test ppl": 5.75}


def test_litgpt(tmp_path):
    run = run_of(tmp_path, """Epoch 1 | iter 1 step 0 | loss train: 1.625, val: n/a | iter time: 820.31 ms
Epoch 1 | iter 2 step 1 | loss train: 1.5, val: n/a | iter time: 548.72 ms (step)
iter 2: val loss 1.4375, val time: 5.12 s
Epoch 1 | iter 3 step 1 | loss train: 1.75, val: 1.438 | iter time: 300.07 ms
Epoch 1 | iter 4 step 2 | loss train: 1.25, val: 1.438 | iter time: 1,301.07 ms (step)
""")  # fmt: skip
    assert run.formats == ("litgpt",)
    assert points(run, "loss") == [(1, 1.625), (2, 1.5), (3, 1.75), (4, 1.25)]
    assert points(run, "eval_loss") == [(2, 1.4375), (3, 1.438)]
    assert points(run, "logged_step") == [(1, 0), (2, 1), (3, 1), (4, 2)]
    assert points(run, "step_time")[-1] == (4, 1301.07)


def test_olmo_console(tmp_path):
    run = run_of(tmp_path, """[2024-01-01 10:00:00] INFO     [olmo.train:816, rank=0] [step=1/1,451,epoch=0]
    train/CrossEntropyLoss=11.25
    train/Perplexity=76,631
    throughput/total tokens=4.2M
    System/GPU=A100
[2024-01-01 10:00:12] INFO     [olmo.train:816, rank=0] [eval_step=3/16]
[2024-01-01 10:00:12] INFO     [olmo.eval:1, rank=0] c4
    eval/c4/CrossEntropyLoss=10.5
[2024-01-01 10:00:24] INFO     [olmo.train:816, rank=0] [step=2/1,451,epoch=0,eta=5h11m]
    train/CrossEntropyLoss=nan
""")  # fmt: skip
    assert (run.formats, run.planned_steps) == (("olmo_console",), 1451)
    assert points(run, "loss")[0] == (1, 11.25)
    assert np.isnan(points(run, "loss")[1][1])
    assert points(run, "tokens") == [(1, 4.2e6)]
    assert points(run, "eval_loss") == [(1, 10.5)]
    assert ("texts among the values", 1) in [(one.kind, one.count) for one in run.unread]


def test_mmengine_by_iteration_and_by_epoch(tmp_path):
    line = (
        "2024/01/01 10:00:00 - mmengine - INFO - {0}  lr: 1.0e-04  eta: 18 days, 0:31:46  loss: {1}  grad_norm: 0.5\n"
    )
    run = run_of(tmp_path, line.format("Iter(train) [ 10/720]", 2.5) + line.format("Iter(train) [ 20/720]", 2.25))
    assert (run.formats, run.planned_steps) == (("mmengine_console",), 720)
    assert points(run, "loss") == [(10, 2.5), (20, 2.25)]
    assert "eta" not in run.series
    text = line.format("Epoch(train)  [1][196/196]", 2.5) + "x - Epoch(val)  [1][50/196]    eta: 0:00:01\n"
    text += "x - Epoch(val)  [1][196/196]    accuracy/top1: 0.25  data_time: 0.0203\n"
    text += line.format("Epoch(train)  [2][ 10/196]", 2.25)
    run = run_of(tmp_path, text)
    assert points(run, "loss") == [(196, 2.5), (206, 2.25)]
    assert run.series["val/accuracy/top1"].steps.tolist() == [196]
    assert "val/accuracy/top1" in run.eval_keys


def test_nemo_rl_console(tmp_path):
    def block(loss: float, reward: float) -> str:
        return (f"📊 Training Results:\n  • Loss: {loss}\n  • Avg Reward: {reward}\n  • Mean Generation Length: 201.5\n\n"
                f"⏱️  Timing:\n  • Total step time: 35.5s\n  • generation: 4.9s (13.9%)\n")  # fmt: skip

    head = "{0} Step {1}/10 {0}\n"
    text = head.format("=" * 25, 1) + block(0.25, 0.5) + "📊 Validation Results:\n    • Accuracy: 0.125\n"
    text += head.format("=" * 25, 2) + block(0.125, 0.75)
    run = run_of(tmp_path, text)
    assert (run.formats, run.planned_steps) == (("nemo_rl_console",), 10)
    assert points(run, "loss") == [(1, 0.25), (2, 0.125)]
    assert points(run, "reward") == [(1, 0.5), (2, 0.75)]
    assert points(run, "step_time") == [(1, 35.5), (2, 35.5)]
    assert points(run, "eval_accuracy") == [(1, 0.125)]
    run = run_of(tmp_path, block(0.25, 0.5) + block(0.125, 0.75))
    assert points(run, "reward") == [(1, 0.5), (2, 0.75)]
    assert "steps: the number of the record; the log names none" in run.notes


def test_keras_console(tmp_path):
    run = run_of(tmp_path, """Epoch 1/10
 1/390 [..............] - ETA: 0s - loss: 16.0433
390/390 [==============] - 26s 68ms/step - loss: 1.25 - acc: 0.5 - val_loss: 1.0 - val_acc: 0.625
## Epoch 2/10
390/390 ━━━━━━━━━━━━━━ 26s 68ms/step - acc: 0.75 - loss: 0.5 - val_loss: 0.75
""")  # fmt: skip
    assert (run.formats, run.planned_steps) == (("keras_console",), 10)
    assert points(run, "loss") == [(1, 1.25), (2, 0.5)]
    assert points(run, "eval_loss") == [(1, 1.0), (2, 0.75)]


# -- dicts that are printed ------------------------------------------------------------------------------------------


def test_a_step_before_a_dict_is_its_step(tmp_path):
    run = run_of(tmp_path, "".join(
        f"(Actor pid=1) [2024-01-01 10:00:0{n}] utils.py:259 - rollout {n}: {{'rollout/raw_reward': 0.{n}, 'rollout/truncated': 0.25}}\n"
        f"(Actor pid=1) [2024-01-01 10:00:0{n}] model.py:12 - step {n}: {{'train/loss': np.float64(1.{n}), 'train/step': {n}}}\n"
        for n in (3, 4, 5)))  # fmt: skip
    assert points(run, "reward") == [(3, 0.3), (4, 0.4), (5, 0.5)]
    assert points(run, "loss") == [(3, 1.3), (4, 1.4), (5, 1.5)]
    assert points(run, "clipped_ratio")[0] == (3, 0.25)


def test_ms_swift_on_the_console_and_as_json_lines(tmp_path):
    rows = [{"loss": 2.5 - n / 10, "token_acc": 0.5, "epoch": n / 10, "global_step/max_steps": f"{n}/40",
             "percentage": "2.50%", "elapsed_time": "1m 42s", "memory(GiB)": 16.5} for n in (10, 20)]  # fmt: skip
    run = run_of(tmp_path, "".join(f"{row}\n" for row in rows))
    assert (points(run, "loss"), run.planned_steps) == ([(10, 1.5), (20, 0.5)], 40)
    rows.append({"eval_loss": 1.25, "global_step/max_steps": "20/40", "elapsed_time": "2h 0m 1s"})
    rows.append({"train_runtime": 9.5, "train_loss": 1.0, "global_step/max_steps": "40/40"})
    rows.append({"best_metric": 1.25, "global_step": 40, "memory": 16.5, "log_history": [{"loss": 2.5, "step": 10}]})
    run = run_of(tmp_path, "".join(json.dumps(row) + "\n" for row in rows), "logging.jsonl")
    assert (run.formats, run.planned_steps) == (("jsonl",), 40)
    assert points(run, "loss") == [(10, 1.5), (20, 0.5)]
    assert points(run, "eval_loss") == [(20, 1.25)]
    assert points(run, "token_accuracy") == [(10, 0.5), (20, 0.5)]
    assert points(run, "elapsed_time") == [(10, 102), (20, 102)]
    assert points(run, "percentage") == [(10, 2.5), (20, 2.5)]
    assert run.summary["train_runtime"] == 9.5
    assert "memory" not in run.series


def test_bars_that_stand_behind_one_another_where_carriage_returns_were_lost(tmp_path):
    def bar(n: int) -> str:
        return f"  0%|          | {n}/4854 [00:16<2:14:42,  1.67s/it]"

    text = "Loading shards: 100%|####| 3/3 [00:02<00:00, 1it/s]Loading shards: 100%|####| 3/3 [00:02<00:00, 1it/s]\n"
    text += "".join(f"{bar(n - 10)}{bar(n - 1)}{bar(n)}    {{'loss': 1.{n}, 'epoch': 0.01}}\n" for n in (10, 20, 30))
    assert points(run_of(tmp_path, text), "loss") == [(10, 1.1), (20, 1.2), (30, 1.3)]


def test_bars_that_rise_with_the_epoch_are_the_steps(tmp_path):
    rows = [(500, 0.18), (1000, 0.37), (12500, 4.59), (13000, 4.78)]  # 2,721 steps an epoch; a part is cut out
    text = "".join(
        f" 7%|# | {step}/13605 [1:00<1:00, 6s/it]\n{{'loss': 0.5, 'epoch': {epoch}}}\n" for step, epoch in rows
    )
    assert [step for step, _ in points(run_of(tmp_path, text), "loss")] == [step for step, _ in rows]
    text = "".join(
        f" 7%|# | {step + 2000}/13605 [1:00<1:00, 6s/it]\n{{'loss': 0.5, 'epoch': {epoch}}}\n" for step, epoch in rows
    )
    assert [step for step, _ in points(run_of(tmp_path, text), "loss")] == [1, 2, 3, 4]


# -- lines and tables of one's own -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "canonical", "expected"),
    [
        ("iteration: {n} / 50 | consumed_tokens: {n}.5K | tokens_per_sec: 182K | lm_loss: 1.5 | eta: 131 days, 1:45:39", "throughput", 182_000),
        ("Step {n:05d} | Loss 1.5 | Time 2.5s | LR 0.00010 | Samples/sec: 12.9", "loss", 1.5),
        ("Step {n}: loss 1.5, lr 1e-4, grad norm 2.5", "grad_norm", 2.5),
        ("INFO:tensorflow:loss = 1.5, step = {n} (0.632 sec)", "loss", 1.5),
        ("ep: 0, batch: {n}, time: 9.17, ntokens: 485.20/513, loss: 1.5", "loss", 1.5),
        ("completed step: {n}, seconds: 5.4, Tokens/s/device: 9098.5, total_weights: 196608, loss: 1.5", "throughput", 9098.5),
        ("Epoch 0:   0%| | {n}/301 [59:12<1573:03:24, 18.79s/it, v_num=3-16, reduced_train_loss=1.5, train_step_timing in s=68.7]", "step_time", 68.7),
    ],
)  # fmt: skip
def test_lines_of_one_s_own(tmp_path, line, canonical, expected):
    run = run_of(tmp_path, "".join(line.format(n=n) + "\n" for n in (10, 20, 30)))
    assert points(run, canonical) == [(10, expected), (20, expected), (30, expected)]
    assert points(run, "loss") == [(10, 1.5), (20, 1.5), (30, 1.5)]
    assert run.find("remaining_time") is None


def test_where_only_epochs_are_named(tmp_path):
    run = run_of(tmp_path, "".join(f"Epoch {n}/9 | Train Loss: {4 - n} | Val Loss: {5 - n}\n" for n in (1, 2, 3)))
    assert (points(run, "loss"), points(run, "eval_loss")) == ([(1, 3), (2, 2), (3, 1)], [(1, 4), (2, 3), (3, 2)])
    assert run.planned_steps == 9
    assert "steps: epochs; the log names no other" in run.notes
    run = run_of(tmp_path, "".join(f"Epoch {n // 2}, Batch loss: {n}\n" for n in (4, 5, 6, 7)))
    assert points(run, "loss") == [(1, 4), (2, 5), (3, 6), (4, 7)]
    assert points(run, "epoch") == [(1, 2), (2, 2), (3, 3), (4, 3)]
    assert "steps: the number of the record; the log names epochs alone" in run.notes


def test_what_is_said_of_an_epoch_between_steps(tmp_path):
    run = run_of(tmp_path, """Epoch 0: val loss: 9.5
Epoch 1 step 10 loss: 3.5
Epoch 1 step 20 loss: 3.0
Epoch 1 done, loss: 3.25, val loss: 2.5
Epoch 2 step 30 loss: 2.5
""")  # fmt: skip
    assert points(run, "loss") == [(10, 3.5), (20, 3.0), (30, 2.5)]
    assert points(run, "eval_loss") == [(0, 9.5), (20, 2.5)]
    assert ("means of an epoch, logged by the step as well", 1) in [(one.kind, one.count) for one in run.unread]


def test_a_clock_alone_is_no_record(tmp_path):
    path = tmp_path / "a.log"
    path.write_text("".join(f"step {n} eta: 5s elapsed: {n}\n" for n in range(9)), encoding="utf-8")
    with pytest.raises(Exception, match="of no format that can be read"):
        read_any(path)


def test_any_column_that_counts_is_a_step(tmp_path):
    run = run_of(tmp_path, "micro_step,opt_step,loss_avg,eval_steps\n80,10,3.5,7\n160,20,3.25,7\n", "m.csv")
    assert points(run, "loss") == [(10, 3.5), (20, 3.25)]
    run = run_of(tmp_path, "epoch,train/n_iter,loss\n1,80,3.5\n1,160,3.25\n", "m.csv")
    assert points(run, "loss") == [(80, 3.5), (160, 3.25)]


def test_planned_steps_and_a_configuration_in_a_table(tmp_path):
    run = run_of(tmp_path, "step,max_iter,loss\n1,50,3.5\n2,50,3.25\n", "m.csv")
    assert (run.planned_steps, set(run.series)) == (50, {"loss"})
    rows = [
        {"event": "config", "lr": 1e-6, "eval_every": 5},
        *({"step": n, "train/loss": 2.5, "train/lr": 1e-7} for n in (0, 1)),
    ]
    run = run_of(tmp_path, "".join(json.dumps(row) + "\n" for row in rows))
    assert points(run, "learning_rate") == [(0, 1e-7), (1, 1e-7)]
    assert run.config == {"event": "config", "lr": 1e-6, "eval_every": 5}
    assert set(run.series) == {"train/loss", "train/lr"}


def test_texts_that_are_numbers():
    assert [value_of("loss", text) for text in ("2.5", "1,024", "0.23%", "n/a", "46m 13s")] == [
        2.5,
        1024,
        0.23,
        None,
        None,
    ]
    assert [value_of("elapsed_time", text) for text in ("0:00:26", "46m 13s", "12:30")] == [26, 2773, None]
    assert [duration(text) for text in ("1 day, 0:00:01", "1d 2h 3m 4s", "4s", "s", "1:2:3")] == [
        86401,
        93784,
        4,
        None,
        None,
    ]


def test_names_of_other_tools():
    names = {
        "train/CrossEntropyLoss": "loss", "train/CE loss": "loss", "train_loss_step": "loss", "Batch loss": "loss",
        "rollout/response_lengths": "completion_length", "chosen_rewards": "rewards_chosen", "loss_pg": "policy_loss",
        "optim/LR (group 0)": "learning_rate", "optim/total grad norm": "grad_norm", "train_gnorm": "grad_norm",
        "throughput/device/TPS (actual avg)": "throughput", "Tokens/sec": "throughput", "memory(GiB)": "memory",
        "teacher loss": None, "train_time": "elapsed_time", "loss_cls": None,
    }  # fmt: skip
    assert {name: canonical_name(name) for name in names} == names
    evaluations = [
        "valid_loss",
        "loss/val",
        "eval_token_acc",
        "valid_samples",
        "valid_trajectories",
        "eval_every",
        "valid_rate",
    ]
    assert [name for name in evaluations if is_evaluation(name)] == ["valid_loss", "loss/val", "eval_token_acc"]
