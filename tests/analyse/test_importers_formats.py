"""Formats without real data here: lines as the tools print them; and what makes runs of records."""

from __future__ import annotations

import json
import sqlite3
import struct
from pathlib import Path

import numpy as np
import pytest

from conftest import ROOT
from midflight import catalog
from midflight.analyse.importers import ImportedRun, read_any
from midflight.analyse.importers.tensorboard_events import _crc32c


def runs_of(folder: Path, text: str, name: str = "my_run.log") -> list[ImportedRun]:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return read_any(path)


def points(run: ImportedRun, key: str) -> list[tuple[int, float]]:
    series = run.series[key]
    return list(zip(series.steps.tolist(), series.values.tolist(), strict=True))


def test_each_importer_says_what_it_reads():
    keys = catalog.keys("midflight.analyse.importers")
    page = (ROOT / "docs" / "import.md").read_text(encoding="utf-8")
    assert all(f"`{key}`" in page for key in keys)
    assert all(len(catalog.summary("midflight.analyse.importers", key)) > 20 for key in keys)


# -- lines -------------------------------------------------------------------------------------------------------------


def test_llmc_prints(tmp_path):
    (run,) = runs_of(tmp_path, """val loss 11.009
step    1/19560 | loss 11.0092 (+nanz)| norm 15.3512 (+nanz)| lr 8.57e-07 | 500.12 ms | 43.5% bf16 MFU | 1048576 tok/s
step    2/19560 | loss 10.9598 (+0.1z)| norm 15.2312 (+0.5z)| lr 1.71e-06 | 501.12 ms | 43.5% bf16 MFU | 1046576 tok/s
val loss 10.5
""")  # fmt: skip
    assert run.formats == ("llmc",)
    assert points(run, "val loss") == [(0, 11.009), (2, 10.5)]
    assert points(run, "tok/s") == [(1, 1048576), (2, 1046576)]
    assert (run.num_records, run.num_eval_records, run.planned_steps) == (2, 2, 19560)


def test_nanogpt(tmp_path):
    (run,) = runs_of(tmp_path, """number of parameters: 123.59M
step 0: train loss 10.9886, val loss 10.9881
iter 0: loss 10.9886, time 38020.00ms, mfu -100.00%
iter 10: loss nan, time 250.00ms, mfu 40.10%
""")  # fmt: skip
    assert run.eval_keys == {"train loss", "val loss"}
    assert run.canonical["loss"] == "loss"
    assert np.isnan(run.series["loss"].values[1])
    assert points(run, "time") == [(0, 38020), (10, 250)]


def test_megatron_console(tmp_path):
    line = (" [2024-05-01 10:00:0{0}] iteration        {0}/     100 | consumed samples:         1280 | elapsed time per "
            "iteration (ms): 5000.1 | learning rate: 1.500000E-06 | lm loss: {1} | grad norm: {2} | number of skipped "
            "iterations:   0 | number of nan iterations:   0 |\n")  # fmt: skip
    text = line.format(5, "1.298419E+01", "3.012") + line.format(6, "nan", "inf")
    text += " validation loss at iteration 6 | lm loss value: 1.25E+01 | lm loss PPL: 2.683373E+05 | \n"
    (run,) = runs_of(tmp_path, text)
    assert points(run, "lm loss")[0] == (5, 12.98419)
    assert np.isnan(run.series["lm loss"].values[1])
    assert np.isinf(run.series["grad norm"].values[1])
    assert run.series["lm loss"].walls.tolist() == [1714557605, 1714557606]
    assert run.find("eval_loss").values.tolist() == [12.5]


def test_steps_of_printed_dicts_come_from_a_progress_bar_that_rises_evenly(tmp_path):
    bar = "\r  {0}%|##   | {0}/100 [00:10<00:20, 1.0it/s]"
    text = "".join(
        bar.format(n) + f"{{'loss': {n / 10}, 'epoch': {n / 100}}}\n" + bar.format(n) for n in range(10, 41, 10)
    )
    (run,) = runs_of(tmp_path, text)
    assert points(run, "loss") == [(10, 1.0), (20, 2.0), (30, 3.0), (40, 4.0)]
    assert (run.planned_steps, run.reached_step) == (100, 40)


def test_steps_of_printed_dicts_are_their_numbers_where_bars_do_not_fit(tmp_path):
    text = "100%|####| 40/40 [00:10<00:00, 1.0it/s]\n" + "".join(
        f"{{'loss': '{n}', 'epoch': '{n}'}}\n" for n in (1, 2, 3)
    )
    (run,) = runs_of(tmp_path, text)
    assert points(run, "loss") == [(1, 1), (2, 2), (3, 3)]
    assert "steps: the number of the record; the log names none" in run.notes


def test_printed_dicts_hold_what_python_prints(tmp_path):
    (run,) = runs_of(tmp_path, """{'loss': nan, 'grad_norm': tensor(1.5), 'lr': np.float64(1e-05), 'epoch': 0.1}
INFO {'loss': 0.5, 'grad_norm': inf, 'x': None, 'y': 'text', 'epoch': 0.2}{'eval_loss': 0.7, 'epoch': 0.2}
{'train_runtime': 5.0, 'train_loss': 0.5, 'epoch': 0.2}
{'model': 'a', 'batch_size': 4}
""")  # fmt: skip
    assert np.isnan(run.series["loss"].values[0])
    assert points(run, "grad_norm") == [(1, 1.5), (2, float("inf"))]
    assert points(run, "eval_loss") == [(2, 0.7)]
    assert run.summary["train_runtime"] == 5.0
    assert {one.kind: one.count for one in run.unread} == {"texts among the values": 2, "other lines": 1}


def test_an_epoch_that_falls_back_is_a_new_run_or_a_resume(tmp_path):
    def dicts(epochs):
        return "".join(f"{{'loss': {e}, 'epoch': {e}}}\n" for e in epochs)

    begin = "  Total optimization steps = {0}\n"
    text = begin.format(3) + dicts([0.1, 0.2, 0.3]) + begin.format(9) + dicts([0.1, 0.2])
    first, second = runs_of(tmp_path, text)
    assert (first.num_records, second.num_records) == (3, 2)
    assert (first.planned_steps, second.planned_steps) == (3, 9)
    (run,) = runs_of(tmp_path, dicts([0.1, 0.2, 0.3, 0.4]) + dicts([0.3, 0.4, 0.5]))
    assert points(run, "loss") == [(1, 0.1), (2, 0.2), (3, 0.3), (4, 0.4), (5, 0.5)]
    assert run.num_superseded == 2
    assert any("resumed once: at step 3 after 4" in note for note in run.notes)


def test_epochs_that_count_anew_go_on(tmp_path):
    (run,) = runs_of(tmp_path, """2024-01-01 00:00:00 [Epoch 1/3] Step 10/500 | loss=2.31, lr: 1e-4
2024-01-01 00:00:01 [Epoch 1/3] Step 500/500 | loss=2.11, lr: 1e-4
2024-01-01 00:00:02 [Epoch 2/3] Step 10/500 | loss=1.91, lr: 1e-4
""")  # fmt: skip
    assert points(run, "loss") == [(10, 2.31), (500, 2.11), (510, 1.91)]
    assert (run.planned_steps, run.formats) == (1500, ("console_pairs",))
    assert run.series["loss"].walls[0] == 1704067200


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("{n}%|### | {n}/100 [00:01<00:30, 1.0it/s, loss=1.5, lr=1e-4]", 1.5),
        ("2021-01-01 00:00:00 | INFO | train_inner | epoch 001: {n} / 1000 loss=1.5, ppl=11, wps=30000, lr=1e-05", 1.5),
        ("Iteration: {n}, train loss: 1.5, lr: 1.0e-4", None),
        ("global_step={n} loss=1,234.5 acc=0.5", 1234.5),
        ("Epoch:[1/1]({n}/4292), loss: 1.5000, lr: 0.00000004, epoch_time:9.000min", 1.5),
    ],
)
def test_lines_of_many_tools(tmp_path, line, expected):
    (run,) = runs_of(tmp_path, "".join(line.format(n=n) + "\n" for n in (10, 20, 30)))
    if expected is None:
        assert points(run, "train loss") == [(10, 1.5), (20, 1.5), (30, 1.5)]
    else:
        assert points(run, "loss") == [(10, expected), (20, expected), (30, expected)]


def test_only_one_rank_counts(tmp_path):
    text = "".join(f"[rank{rank}]:[titan] 2026-05-24 20:12:37,106 - root - INFO - step:  {step}  loss: {rank}.5  tps: 1,000\n"
                   for step in (1, 2, 3) for rank in (3, 0, 1))  # fmt: skip
    (run,) = runs_of(tmp_path, text)
    assert points(run, "loss") == [(1, 3.5), (2, 3.5), (3, 3.5)]
    assert [(one.kind, one.count) for one in run.unread] == [("records of other ranks", 6)]


# -- tables and JSON -----------------------------------------------------------------------------------------------


def test_the_step_column_is_decided_by_name_and_order(tmp_path):
    (run,) = runs_of(tmp_path, "idx,loss,Global Step\n7,2.5,100\n3,2.4,200\n", "a.csv")
    assert points(run, "loss") == [(100, 2.5), (200, 2.4)]
    assert run.notes == ("steps: column 'Global Step'",)
    (run,) = runs_of(tmp_path, "acc,loss\n7,2.5\n3,2.4\n", "b.csv")
    assert points(run, "loss") == [(1, 2.5), (2, 2.4)]
    assert run.notes == ("steps: the number of the record; no column is one",)
    (run,) = runs_of(tmp_path, "step,loss\n300,1\n100,3\n200,2\n", "c.csv")
    assert points(run, "loss") == [(100, 3), (200, 2), (300, 1)]
    assert "sorted" in run.notes[0]


def test_csv_with_quotes_missing_values_and_other_separators(tmp_path):
    (run,) = runs_of(tmp_path, 'step;loss;text\n1;2.5;"a\nb;c"\n2;N/A;"x ""y"""\n3;-inf;\n', "a.csv")
    assert points(run, "loss") == [(1, 2.5), (3, float("-inf"))]
    assert {one.kind: one.count for one in run.unread} == {"texts among the values": 2, "missing values": 2}


def test_wandb_export_of_several_runs(tmp_path):
    text = '"Step","a - train/loss","a - train/loss__MIN","b - train/loss","b - train/loss__MIN"\n'
    first, second = runs_of(tmp_path, text + '"1","2.5","2.5","2.6","2.6"\n"2","2.4","2.4","",""\n"3","NaN","NaN","2.3","2.3"\n', "w.csv")  # fmt: skip
    assert (first.name, second.name) == ("a", "b")
    assert points(second, "train/loss") == [(1, 2.6), (3, 2.3)]
    assert np.isnan(first.series["train/loss"].values[2])


def test_tensorboard_export(tmp_path):
    (run,) = runs_of(
        tmp_path, "Wall time,Step,Value\n1700000000.5,1,2.5\n1700000001.5,2,2.4\n", "run-x-tag-train_loss.csv"
    )
    assert points(run, "train_loss") == [(1, 2.5), (2, 2.4)]
    assert run.series["train_loss"].walls.tolist() == [1700000000.5, 1700000001.5]


def test_json_lines_nested_doubled_and_huge(tmp_path):
    (run,) = runs_of(
        tmp_path, '{"step":1,"loss":2.0,"loss":3.0,"m":{"a":1}}\n{"step":2,"loss":NaN,"big":1e999,"l":[1]}\nrest'
    )
    assert points(run, "loss")[0] == (1, 3.0)
    assert points(run, "m/a") == [(1, 1)]
    assert points(run, "big") == [(2, float("inf"))]
    assert {one.kind for one in run.unread} == {
        "keys that a record holds twice",
        "lists among the values",
        "other lines",
    }


def test_long_tables_and_rows_of_a_split(tmp_path):
    (run,) = runs_of(tmp_path, "key,value,step\nloss,2.5,1\nlr,0.1,1\nloss,2.4,2\n", "mlflow.csv")
    assert (points(run, "loss"), points(run, "lr")) == ([(1, 2.5), (2, 2.4)], [(1, 0.1)])
    (run,) = runs_of(tmp_path, '{"step": 1, "split": "train", "loss": 2}\n{"step": 1, "split": "val", "loss": 3}\n')
    assert (points(run, "loss"), points(run, "val/loss")) == ([(1, 2)], [(1, 3)])
    assert run.eval_keys == {"val/loss"}


def test_json_array_and_object_of_records(tmp_path):
    (run,) = runs_of(tmp_path, '[{"step": 1, "loss": 2.0}, {"step": 2, "loss": -Infinity}]', "h.json")
    assert points(run, "loss") == [(1, 2.0), (2, float("-inf"))]
    (run,) = runs_of(tmp_path, '{"lr": 0.1, "history": [{"step": 5, "loss": 2.0}]}', "i.json")
    assert (points(run, "loss"), run.config) == ([(5, 2.0)], {"lr": 0.1})


def test_older_golden_values(tmp_path):
    text = json.dumps({"lm loss": {"start_step": 0, "end_step": 20, "step_interval": 5, "values": [9.1, 8.2, 7.3]}})
    (run,) = runs_of(tmp_path, text, "golden_values.json")
    assert points(run, "lm loss") == [(0, 9.1), (5, 8.2), (10, 7.3)]


def test_a_wandb_folder_is_one_run(tmp_path):
    files = tmp_path / "run-20240101_000000-abc" / "files"
    files.mkdir(parents=True)
    (files / "output.log").write_text("".join(f"{{'loss': {n}, 'epoch': {n}}}\n" for n in (1, 2, 3)))
    (files / "wandb-summary.json").write_text(
        '{"_runtime": 12, "_step": 3, "_timestamp": 1.7e9, "train/loss": 3, "best": 1}'
    )
    (run,) = read_any(tmp_path)
    assert run.name == "run-20240101_000000-abc"
    assert (run.num_records, run.summary["best"], run.summary["_runtime"]) == (3, 1, 12)
    (alone,) = read_any(files / "wandb-summary.json")
    assert points(alone, "best") == [(3, 1)]


def test_trackio(tmp_path):
    with sqlite3.connect(tmp_path / "project.db") as database:
        database.execute(
            "CREATE TABLE metrics (id INTEGER PRIMARY KEY, timestamp TEXT, run_name TEXT, step INT, metrics TEXT)"
        )
        rows = [
            ("2024-01-01T00:00:00", name, step, json.dumps({"loss": step, "x": "NaN"}))
            for step in (0, 1)
            for name in "ab"
        ]
        database.executemany("INSERT INTO metrics (timestamp, run_name, step, metrics) VALUES (?, ?, ?, ?)", rows)
    first, second = read_any(tmp_path / "project.db")
    assert (first.name, second.name) == ("a", "b")
    assert points(second, "loss") == [(0, 0), (1, 1)]
    assert np.isnan(first.series["x"].values).all()
    assert first.series["loss"].walls[0] == 1704067200


def test_lm_eval_results_of_checkpoints_are_a_curve(tmp_path):
    for step, value in ((500, 0.25), (1000, 0.5), (10000, 0.75)):
        folder = tmp_path / "my_model" / f"checkpoint-{step}"
        folder.mkdir(parents=True)
        content = {"results": {"gsm8k": {"exact_match,strict": value, "alias": "gsm8k"}}, "versions": {"gsm8k": 3},
                   "config": {"model_args": f"pretrained=out/checkpoint-{step}"}}  # fmt: skip
        (folder / "results_2024-01-01T00-00-00.json").write_text(json.dumps(content))
    (run,) = read_any(tmp_path / "my_model")
    assert points(run, "gsm8k/exact_match,strict") == [(500, 0.25), (1000, 0.5), (10000, 0.75)]
    assert (run.name, run.num_records, run.num_eval_records) == ("my_model", 0, 3)


def test_checkpoints_of_a_trainer_are_one_run(tmp_path):
    for last in (2, 4):
        (tmp_path / f"checkpoint-{last}").mkdir()
        history = [{"step": n, "loss": 1 / n} for n in range(1, last + 1)]
        state = {"global_step": last, "log_history": history, "max_steps": 4}
        (tmp_path / f"checkpoint-{last}" / "trainer_state.json").write_text(json.dumps(state))
    (run,) = read_any(tmp_path)
    assert (run.num_records, run.last_step, run.truncated) == (4, 4, False)


# -- event files -------------------------------------------------------------------------------------------------------


def varint(value: int) -> bytes:
    found = b""
    while value > 127:
        found, value = found + bytes([value & 127 | 128]), value >> 7
    return found + bytes([value])


def field(number: int, value: bytes | int | float) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def event(step: int, tag: str, value: bytes) -> bytes:
    payload = field(1, 1.7e9 + step) + field(2, step) + field(5, field(1, field(1, tag.encode()) + value))
    length = struct.pack("<Q", len(payload))
    return length + struct.pack("<I", _crc32c(length)) + payload + b"\0\0\0\0"


def simple(value: float) -> bytes:
    return varint(2 << 3 | 5) + struct.pack("<f", value)


def test_the_crc_is_that_of_tfrecord():
    # RFC 3720, B.4: CRC-32C of 32 zero bytes is 0x8A9136AA; masked as in tensorflow/core/lib/hash/crc32c.h
    crc = 0x8A9136AA
    assert _crc32c(bytes(32)) == ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def test_scalars_of_both_layouts(tmp_path):
    double = field(8, field(1, 2) + field(2, b"") + field(6, struct.pack("<d", 0.125)))
    raw = field(8, field(1, 1) + field(4, struct.pack("<f", 0.5)))
    image = field(4, b"png")
    path = tmp_path / "events.out.tfevents.1.host"
    path.write_bytes(
        event(1, "a", simple(float("nan"))) + event(1, "b", double) + event(2, "b", raw) + event(2, "c", image)
    )
    (run,) = read_any(path)
    assert np.isnan(run.series["a"].values).all()
    assert points(run, "b") == [(1, 0.125), (2, 0.5)]
    assert run.series["b"].walls.tolist() == [1.7e9 + 1, 1.7e9 + 2]
    assert [(one.kind, one.example) for one in run.unread] == [("data that is no scalar", "c")]


def test_event_file_that_breaks_off_or_is_damaged(tmp_path):
    whole = b"".join(event(step, "loss", simple(step)) for step in range(10))
    path = tmp_path / "events"
    for cut in range(len(event(0, "loss", simple(0))) + 1, len(whole), 7):
        path.write_bytes(whole[:cut])
        (run,) = read_any(path)
        assert points(run, "loss") == [(n, n) for n in range(len(run.series["loss"]))]
    path.write_bytes(whole[:200] + b"\xff" * 40 + whole[240:])
    (run,) = read_any(path)
    assert run.unread[0].kind in ("damaged records", "damaged events")


def test_event_file_of_texts_is_an_empty_run(tmp_path):
    text = field(8, field(1, 7) + field(8, b'{"max_steps": 9}'))
    (tmp_path / "events.out.tfevents.1.host").write_bytes(event(0, "args/text_summary", text))
    (run,) = read_any(tmp_path)
    assert (len(run.series), run.num_records, run.first_step, run.truncated) == (0, 0, None, False)
    assert run.config == {"args": {"max_steps": 9}}
