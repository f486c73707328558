"""Logs that are broken, hostile or no logs at all."""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from midflight.analyse.importers import read_any
from midflight.errors import ConfigError

LINE = "step:{0} - actor/pg_loss:0.5 - actor/grad_norm:1.25\n"


def read(folder: Path, content: bytes, name: str = "a.log"):
    path = folder / name
    path.write_bytes(content)
    return read_any(path)


@pytest.mark.parametrize(
    "content",
    [b"", b"\n \n", b"hello\nworld\n", b"\x00\x01\x02" * 1000, bytes(range(256)) * 50, b"{", b"[", b"[]", b"{}", b"[[[[", b'{"a": {"b": 1}}',
     b"\x1f\x8b", b"\x1f\x8b\x08\x00garbage", b"SQLite format 3\0" + b"x" * 200, b"a,b\nc,d\n", b'{"log_history": []}',
     b"\xff\xfe", b"[" * 100_000, b'{"results": {}, "versions": {}}', b"{'loss': 1"],
)  # fmt: skip
def test_what_is_no_log_is_refused_in_a_line(tmp_path, content):
    with pytest.raises(ConfigError, match=r"a\.log") as caught:
        read(tmp_path, content)
    assert len(str(caught.value)) < 1500
    assert "\n" not in str(caught.value)


def test_paths_without_a_log(tmp_path):
    with pytest.raises(ConfigError, match="nothing"):
        read_any(tmp_path / "absent")
    with pytest.raises(ConfigError, match="no training log in it"):
        read_any(tmp_path)
    (tmp_path / "README.md").write_text("# Training\n\nstep: 1 of 3 is to set loss: 0.5\n")
    with pytest.raises(ConfigError, match="1 other files"):
        read_any(tmp_path)


def test_a_loop_of_links_in_a_folder_ends(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "loop").symlink_to(tmp_path)
    (tmp_path / "run" / "a.jsonl").write_text('{"step": 1, "loss": 2}\n')
    assert len(read_any(tmp_path)) == 1


def test_every_prefix_of_a_real_log_gives_a_prefix_of_its_points(tmp_path, data):
    whole = (data / "runs" / "taubench_12" / "trainer_state.json").read_bytes()
    for end in range(len(whole) - 400, 600, -97):
        try:
            (run,) = read(tmp_path, whole[:end])
        except ConfigError:
            continue
        assert run.num_records <= 1
    whole = (data / "runs" / "kto_hh" / "trainer_state.json").read_bytes()
    seen = []
    for end in range(2000, len(whole), 3001):
        (run,) = read(tmp_path, whole[:end])
        assert run.series["loss"].steps.tolist() == [1, *range(10, 1001, 10)][: run.num_records]
        assert any(one.kind == "broken JSON" for one in run.unread)
        seen.append(run.num_records)
    assert seen == sorted(seen)
    assert seen[-1] > 90


def test_a_gzip_that_breaks_off(tmp_path):
    whole = gzip.compress(
        "".join(LINE.format(step) + f"{random.Random(step).random()}\n" for step in range(20_000)).encode()
    )
    (run,) = read(tmp_path, whole[: len(whole) // 2], "a.log.gz")
    assert 5000 < run.num_records < 15_000
    assert run.unread[0].kind == "gzip broken off"
    assert run.name == "a"


def test_encodings_colours_and_line_ends(tmp_path):
    text = "Größe 漢字\r\n" + "\x1b[36m(main pid=1)\x1b[0m " + LINE.format(1).replace("\n", "\r\n") + LINE.format(2)
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        (run,) = read(tmp_path, text.encode(encoding))
        assert run.series["actor/pg_loss"].steps.tolist() == [1, 2], encoding
    (run,) = read(tmp_path, b"latin: \xe9\xfa\n" + LINE.format(3).encode())
    assert run.series["actor/pg_loss"].steps.tolist() == [3]


def test_markdown_fences_and_lines_between(tmp_path):
    (run,) = read(tmp_path, f"# Log\n```text\n{LINE.format(1)}```\nsome words\n| a | b |\n{LINE.format(2)}".encode())
    assert run.num_records == 2
    assert [(one.kind, one.count, one.example) for one in run.unread] == [("other lines", 5, "# Log")]


def test_hostile_names_and_texts(tmp_path):
    names = ["x" * 501, "\ud800", "", "a\x1b[31mb", "<script>", "step\u202e", "ok"]
    row = json.dumps({"step": 1, **dict.fromkeys(names, 1.0), "t": "\x1b]0;owned\x07" * 100})
    (run,) = read(tmp_path, row.encode())
    assert set(run.series) == {"a\x1b[31mb", "<script>", "step\u202e", "ok"}
    assert {one.kind: one.count for one in run.unread}["names that cannot be kept"] == 3
    assert all(one.example.isprintable() and len(one.example) <= 120 for one in run.unread)


def test_steps_that_are_none(tmp_path):
    rows = [1, 2, 3, -1, 2.5, 1e300, "x", None, True, 4]
    text = "".join(json.dumps({"step": step, "loss": 1.0}) + "\n" for step in rows)
    (run,) = read(tmp_path, text.encode())
    assert set(run.series["loss"].steps.tolist()) <= set(range(11))
    state = {"log_history": [{"step": s, "loss": 1.0} for s in rows]}
    (run,) = read(tmp_path, json.dumps(state).encode())
    assert run.series["loss"].steps.tolist() == [1, 2, 3, 4]


def test_series_without_end_are_bounded(tmp_path):
    text = "".join(json.dumps({"step": n, f"k{n}": 1.0}) + "\n" for n in range(20_100))
    (run,) = read(tmp_path, text.encode())
    assert len(run.series) == 20_000
    assert [(one.kind, one.count) for one in run.unread] == [("series beyond 20,000", 100)]


@given(
    st.lists(
        st.sampled_from(
            [
                *list("{}[]'\":,|%/.\\ \n\r\t\x1b│╒╘0123456789eE-+ab"),
                "step",
                "loss",
                "nan",
                "iteration ",
                "│",
                "Train step 1/2 done",
                "[batch=1/2]:",
                "epoch",
            ]
        ),
        max_size=80,
    )
)
def test_any_text_is_read_or_refused(tmp_path_factory, parts):
    path = tmp_path_factory.mktemp("any") / "a.log"
    path.write_text("".join(parts), encoding="utf-8")
    try:
        runs = read_any(path)
    except ConfigError:
        return
    for run in runs:
        for series in run.series.values():
            assert (np.diff(series.steps) > 0).all()
            assert len(series.steps) == len(series.values) > 0


MEASURED = """
import json, re, sys
from pathlib import Path
from midflight.analyse.importers import read_any
(run,) = read_any(sys.argv[1])
# not ru_maxrss, which begins with what the process was forked from
peak = int(re.search("VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
print(json.dumps([run.num_records, [one.kind for one in run.unread], peak]))
"""


def test_a_line_of_a_quarter_gigabyte_is_passed_over_in_little_memory(tmp_path):
    path = tmp_path / "a.log.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(LINE.format(1).encode())
        for _ in range(256):
            file.write(b"0" * (1 << 20))
        file.write(b"\n" + LINE.format(2).encode())
    command = [sys.executable, "-c", MEASURED, str(path)]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert found[:2] == [2, ["lines too long"]]
    assert found[2] < 200 * 1024  # KiB


@pytest.mark.parametrize(
    "line",
    ["step:{0} - a:1 - " + "x" * 900_000, "step: 1 loss: 1 " + "ab." * 6000, "{{'" * 300_000, "iteration 1/ 2 |" + "x:" * 400_000,
     "step:  1  loss: 1  " + "a" * 900_000, "step:" + "9" * 900_000 + " - a:1", "iter 1: loss 1" + "a " * 400_000,
     "step:1/2" + " a:1" * 200_000 + " b", "\x1b[" * 400_000, "Epoch " + "9" * 5000 + " step 1 loss=1", "step 1 | loss: " + "9" * 900_000,
     "│" * 300_000, "Train step " + "9" * 5000 + "/1 done", "100%|" * 200_000, "{{'loss': " + "9" * 90_000 + ", 'epoch': 1}}"],
    ids=lambda line: line[:16],
)  # fmt: skip
def test_lines_made_to_take_long_do_not(tmp_path, line):
    text = (line.format(1) + "\n") * 2 + "".join(LINE.format(step) for step in range(1, 30))
    began = time.process_time()
    read(tmp_path, text.encode())
    assert time.process_time() - began < 30  # seconds of a processor; where it is quadratic, it takes many minutes
