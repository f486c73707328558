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


def test_espnet_counts_batches_on_and_takes_means_of_validation(tmp_path):
    def line(text: str) -> str:
        return f"[node1] 2024-05-01 10:00:00,123 (trainer:700) INFO: {text}\n"

    text = line("1/4epoch started")
    for epoch in (1, 2):
        for at in (1, 51):
            text += line(
                f"{epoch}epoch:train:{at}-{at + 49}batch: iter_time=0.003, loss_ctc=50.5, acc=4.5e-04, "
                f"loss={90 - 10 * epoch - at / 10:.3f}, grad_norm=12.5, optim0_lr0=6.250e-07, train_time=0.73"
            )
        text += line(
            f"{epoch}epoch results: [train] iter_time=0.002, loss=71.0, time=2 minutes and 3.5 seconds, "
            f"total_count={110 * epoch}, [valid] loss={60 - epoch}, acc=0.4, total_count={11 * epoch}, [att_plot] time=9.1"
        )
    run = run_of(tmp_path, text)
    assert points(run, "loss") == [(50, 79.9), (100, 74.9), (160, 69.9), (210, 64.9)]
    assert points(run, "eval_loss") == [(110, 59), (220, 58)]
    assert points(run, "learning_rate")[0] == (50, 6.25e-07)
    assert run.planned_steps == 440
    assert "step_time" not in run.canonical.values()  # it is the time a batch waits for its data
    assert "time/iter_time" in run.series
    assert [(one.kind, one.count) for one in run.unread][:1] == [("means of an epoch, logged by the batch as well", 2)]


def test_espnet_results_alone_and_funasr_updates(tmp_path):
    text = "".join(
        f"INFO: {n}epoch results: [train] loss={9 - n}, total_count={80 * n}, [valid] loss=7\n" for n in (1, 2)
    )
    run = run_of(tmp_path, text)
    assert points(run, "loss") == [(80, 8), (160, 7)]
    text = "".join(f"2epoch:train:{n}-{n + 49}batch:{n + 549}num_updates: loss=0.2, acc=0.9\n" for n in (1, 51))
    assert points(run_of(tmp_path, text), "loss") == [(550, 0.2), (600, 0.2)]


def test_marian(tmp_path):
    text = (
        "[2024-01-15 05:05:16] [config] after-batches: 4000\n"
        "[2024-01-15 05:05:16] [config] cost-type: ce-mean\n"
        "[2024-01-15 05:21:33] Ep. 1 : Up. 500 : Sen. 662,406 : Cost 91.5 : Time 704.91s : 8907.95 words/s"
        " : L.r. 9.3750e-06\n"
        "[2024-01-15 05:29:03] Ep. 1 : Up. 1000 : Sen. 1,319,392 : Cost 6.25 * 414,436 @ 9,000 after 1,414,436"
        " : Time 450.29s : 13859.72 words/s : gNorm 1.5\n"
        "[2024-01-15 05:30:00] [valid] Ep. 1 : Up. 1000 : ce-mean-words : 5.25 : new best\n"
        "[2024-01-15 05:30:01] [valid] Ep. 1 : Up. 1000 : bleu : 20.5 : stalled 2 times (last best: 21.5)\n"
    )
    run = run_of(tmp_path, text)
    assert points(run, "loss") == [(500, 91.5), (1000, 6.25)]
    assert points(run, "eval_loss") == [(1000, 5.25)]
    assert points(run, "throughput") == [(500, 8907.95), (1000, 13859.72)]
    assert points(run, "grad_norm") == [(1000, 1.5)]
    assert run.series["valid/bleu"].values.tolist() == [20.5]
    assert run.planned_steps == 4000
    assert run.config["cost-type"] == "ce-mean"
    assert run.series["Cost"].walls is not None


def test_tables_of_a_notebook_copied_as_text(tmp_path):
    table = "Step\tTraining Loss\tValidation Loss\tWer Ortho\n"
    text = (
        "first run\n [30/30 07:58, Epoch 3/3]\n"
        + table
        + "10\t2.5\t2.6\t30.5\n20\tNo log\t2.4\t29.5\n30\t1.5\t2.2\t28\n\n"
        "10\t9.9\t9.9\t9.9\n"  # no row: there is a line between
    )
    text = text.replace("28\n\n", "28\nsaved\n")
    run = run_of(tmp_path, text + "second run\n [12/30 01:00 < 02:00, 0.1 it/s, Epoch 1/3]\n")
    assert points(run, "loss") == [(10, 2.5), (30, 1.5)]
    assert points(run, "eval_loss") == [(10, 2.6), (20, 2.4), (30, 2.2)]
    assert run.series["eval_wer_ortho"].values.tolist() == [30.5, 29.5, 28]
    assert run.planned_steps == 30
    assert not run.truncated
    path = tmp_path / "two.log"
    path.write_text(
        text + " [12/30 01:00 < 02:00, 0.1 it/s, Epoch 1/3]\n" + table + "10\t2.5\t2.7\t31\n", encoding="utf-8"
    )
    first, second = read_any(path)
    assert (first.last_step, second.last_step, first.truncated, second.truncated) == (30, 10, False, True)


def test_tables_of_a_notebook_as_html(tmp_path):
    cells = [("1", "No log", "0.5", "0.8"), ("2", "0.25", "0.625", "0.9")]
    html = [
        "  <progress value='20' max='20'></progress>\n",
        "  [20/20 07:58, Epoch 2/2]\n",
        '<table border="1">\n',
        '<tr style="x">\n',
    ]
    html += [f"  <th>{name}</th>\n" for name in ("Epoch", "Training Loss", "Validation Loss", "Accuracy")] + ["</tr>\n"]
    for row in cells:
        html += ["<tr>\n", *(f"  <td>{cell}</td>\n" for cell in row), "</tr>\n"]
    html += ["</table><p>"]
    output = "TrainOutput(global_step=20, training_loss=0.25, metrics={'train_runtime': 12.5, 'epoch': 2.0})"
    outputs = [{"data": {"text/html": html}}, {"data": {"text/plain": [output]}}]
    notebook = {"cells": [{"cell_type": "code", "outputs": outputs}]}
    for text in (json.dumps(notebook, indent=1), "".join(html) + "\n" + output):
        run = run_of(tmp_path, text, "train.ipynb")
        assert points(run, "loss") == [(20, 0.25)]
        assert points(run, "eval_loss") == [(10, 0.5), (20, 0.625)]
        assert points(run, "eval_accuracy") == [(10, 0.8), (20, 0.9)]
        assert run.summary["train_runtime"] == 12.5


def test_table_of_a_model_card(tmp_path):
    text = (
        "It achieves the following results on the evaluation set:\n- Loss: 0.7\n\n"
        "The following hyperparameters were used during training:\n- learning_rate: 5e-05\n- training_steps: 300\n\n"
        "### Training results\n\n"
        "| Training Loss | Epoch | Step | Validation Loss | Rewards/margins |\n"
        "|:-------------:|:-----:|:----:|:---------------:|:---------------:|\n"
        "| No log        | 1.0   | 100  | 0.75            | 0.5             |\n"
        "| 0.5           | 2.0   | 200  | 0.625           | 1.5             |\n\n"
        "| Parameter | Value |\n|---|---|\n| 1 | 2 |\n"
    )
    run = run_of(tmp_path, text, "README.md")
    assert points(run, "loss") == [(200, 0.5)]
    assert points(run, "eval_loss") == [(100, 0.75), (200, 0.625)]
    assert run.series["eval_rewards/margins"].values.tolist() == [0.5, 1.5]
    assert run.config == {"learning_rate": "5e-05", "training_steps": "300"}
    assert run.planned_steps == 300


def test_a_notebook_that_shows_its_table_as_it_grows(tmp_path):
    head = "Step\tTraining Loss\treward\tcompletions / mean_length\n"
    rows = ["1\t0.5\t0.25\t100\n", "2\t0.4\t0.5\t90\n", "3\t0.3\t0.75\t80\n"]
    run = run_of(tmp_path, "output:\n" + head + rows[0] + "\n" + head + "".join(rows[:2]) + "\n" + head + "".join(rows))
    assert points(run, "reward") == [(1, 0.25), (2, 0.5), (3, 0.75)]
    assert points(run, "completion_length") == [(1, 100), (2, 90), (3, 80)]
    assert ("rows shown before", 3) in [(one.kind, one.count) for one in run.unread]


def test_steps_below_headings_of_epochs_go_on_counting(tmp_path):
    text = "".join(
        f"Epoch {epoch}/3\n-----\n" + "".join(f"Batch {n}/250 | Loss: {4 - epoch} | LR: 1.0e-04\n" for n in (50, 250))
        for epoch in (1, 2, 3)
    )
    run = run_of(tmp_path, text)
    assert points(run, "loss") == [(50, 3), (250, 3), (300, 2), (500, 2), (550, 1), (750, 1)]
    assert run.planned_steps == 750


def test_lines_that_call_themselves_an_evaluation(tmp_path):
    text = (
        "2024-10-08 13:45:39 - INFO exp train epoch_num: 1, global_step: 100, loss: 0.75, mr: 40\n"
        "2024-10-08 13:45:49 - INFO exp train epoch_num: 1, global_step: 200, loss: 0.5, mr: 30\n"
        "2024-10-08 13:45:59 - INFO exp valid epoch_num: 1, global_step: 200, loss: 0.625, mr: 35\n"
        "Epoch [2/3] Step [300/900] Validation: loss=0.6\n"
    )
    run = run_of(tmp_path, text)
    assert points(run, "loss") == [(100, 0.75), (200, 0.5)]
    assert run.series["valid/loss"].values.tolist() == [0.625]
    assert run.series["validation/loss"].steps.tolist() == [300]
    assert {"valid/loss", "valid/mr", "validation/loss"} <= run.eval_keys


def test_train_loss_beside_a_validation_loss_is_of_training(tmp_path):
    text = "".join(
        f"[2024-09-23 15:56:10 UTC] Step {n}/900 | Train Loss: 3.5 | Val Loss: 3.75 | LR: 0.0003\n"
        for n in (100, 200, 300)
    )
    run = run_of(tmp_path, text)
    assert points(run, "loss") == [(100, 3.5), (200, 3.5), (300, 3.5)]
    assert points(run, "eval_loss") == [(100, 3.75), (200, 3.75), (300, 3.75)]
    assert "Train Loss" not in run.eval_keys


@pytest.mark.parametrize(
    "line",
    [
        "| epoch   1 |   {step}/ 2983 batches | lr 0.00 | ms/batch 45.68 | loss  {loss} | ppl  2050.44",
        "[rank 0] step {step}   loss {loss}  lr 0.00  tok/s 8,420  mfu 2.1%",
        "step {step} loss {loss} lr 0.00",
    ],
)
def test_names_and_numbers_with_blanks_between(tmp_path, line):
    run = run_of(tmp_path, "".join(line.format(step=200 * n, loss=f"{8 - n}.25") + "\n" for n in (1, 2, 3)))
    assert points(run, "loss") == [(200, 7.25), (400, 6.25), (600, 5.25)]
    assert points(run, "learning_rate") == [(200, 0), (400, 0), (600, 0)]


def test_step_lines_of_others_are_no_evaluations_of_nanochat(tmp_path):
    text = "".join(f"Epoch 1/3 | Step {n}/22643 | Loss: nan | 9.2s   \n" for n in (100, 200, 300))
    run = run_of(tmp_path, text)
    assert not run.eval_keys
    assert [step for step, _ in points(run, "loss")] == [100, 200, 300]


def test_padded_steps_dotted_and_long_names_and_parts_in_brackets(tmp_path):
    text = "".join(
        f"Iteration {step:>9} | Train Loss: 2.5 (cls:1.5 pred:1.0) | Val. Loss: 2.25 (cls:1.25 pred:1.0) "
        "| Val Peri NFL MABE: 7.5 um\n"
        for step in (0, 500, 1000)
    )
    run = run_of(tmp_path, text)
    assert points(run, "loss") == [(0, 2.5), (500, 2.5), (1000, 2.5)]
    assert points(run, "eval_loss") == [(0, 2.25), (500, 2.25), (1000, 2.25)]
    assert {"cls", "pred"} <= run.trained
    assert {"Val. Loss/cls", "Val. Loss/pred", "Val Peri NFL MABE"} <= run.eval_keys


def test_clocks_as_texts_in_printed_dicts(tmp_path):
    line = (
        "{{'loss': 2.5, 'epoch': 0.02, 'global_step/max_steps': '{n}/100', 'percentage': '{n}.00%', "
        "'elapsed_time': '1m {n}s', 'remaining_time': '56m 45s'}}\n"
    )
    run = run_of(tmp_path, "".join(line.format(n=n) for n in (1, 2)))
    assert points(run, "elapsed_time") == [(1, 61), (2, 62)]
    assert points(run, "percentage") == [(1, 1), (2, 2)]
    assert "texts among the values" not in {one.kind for one in run.unread}


@pytest.mark.parametrize(("total", "per_epoch", "held_back"), [(613, 612.875, 1), (291, 97, 4), (93, 31, 100)])
def test_dicts_that_a_buffer_held_back_get_the_steps_of_their_epochs(tmp_path, total, per_epoch, held_back):
    text, waiting = f"  0%|          | 0/{total} [00:00<?, ?it/s]", []
    last = min(total, 250) // 10 * 10
    for step in range(1, last + 1):
        text += f" {100 * step // total}%|▏         | {step}/{total} [00:10<00:10, 2.0s/it]"
        if len(waiting) >= held_back and step % 10 == 0:
            text += "\n".join(waiting) + "\n"
            waiting = []
        if step % 10 == 0:
            waiting.append(f"{{'loss': '{5 - step / 100:.4g}', 'epoch': '{step / per_epoch:.4g}'}}")
    run = run_of(tmp_path, text + "\n".join(waiting) + "\n")
    assert [step for step, _ in points(run, "loss")] == list(range(10, last + 1, 10))
    assert any("step" in note for note in run.notes)


def test_steps_are_not_taken_from_epochs_where_the_total_is_of_no_whole_epochs(tmp_path):
    text = "".join(
        f" 1%|▏   | {step + 7}/1000 [00:10<00:10, 2.0s/it]{{'loss': 2.5, 'epoch': {step / 4000:.4g}}}\n"
        for step in range(10, 101, 10)
    )
    run = run_of(tmp_path, text)
    assert [step for step, _ in points(run, "loss")] == list(range(1, 11))
    assert any("number of the record" in note for note in run.notes)


def test_epochs_alone_that_fall_back_are_a_resume(tmp_path):
    lines = [
        f"epoch {n:>3}/300  train 0.25  val {v}  lr 7.2e-04\n" for n, v in [(1, 5), (2, 4), (3, 3), (2, 2.5), (3, 2)]
    ]
    run = run_of(tmp_path, "".join(lines))
    assert run.series["val"].steps.tolist() == [1, 2, 3]
    assert run.series["val"].values.tolist() == [5, 2.5, 2]
    assert run.series["train"].values.tolist() == [0.25] * 3
    assert "resumed: at epoch 2 after 3" in run.notes


def test_bars_of_colab_are_not_drawn(tmp_path):
    text = "".join(
        f"{{'loss': '0.5', 'reward': '0.25', 'epoch': '{step / 8:.4g}'}}\n"
        f" {100 * step // 16}% {step}/16 [00:10<01:00, 9.0s/it]Both `a` (=384) and `b` were set.\n"
        for step in (2, 4, 6)
    )
    run = run_of(tmp_path, " 6% 1/16 [00:05<01:00, 9.0s/it]\n" + text)
    assert points(run, "reward") == [(2, 0.25), (4, 0.25), (6, 0.25)]
    assert run.planned_steps == 16


def test_two_lines_an_epoch_that_measure_different_things(tmp_path):
    text = "".join(f"epoch: {n}, train_loss: 0.5\nepoch: {n}, valid_loss: 0.{n}\nstart {n + 1}\n" for n in (1, 2, 3))
    run = run_of(tmp_path, text)
    assert points(run, "loss") == [(1, 0.5), (2, 0.5), (3, 0.5)]
    assert points(run, "eval_loss") == [(1, 0.1), (2, 0.2), (3, 0.3)]
