"""A report is one file that holds what the pages ask, and nothing of other runs; no text gets out of its place."""

from __future__ import annotations

import base64
import gzip
import json
import re
import subprocess
import sys
import time

import pytest
from serving import HOSTILE, N, fill

from midflight.errors import ConfigError, StoreError
from midflight.panel import report as module
from midflight.panel.plain import encode
from midflight.panel.report import MOST_BYTES, PLACE, report_data, write_report
from midflight.run import Run
from midflight.store import open_store

PAGE = f"<!doctype html><html><head><title>x</title></head><body>{PLACE}<script>read()</script></body></html>"


@pytest.fixture
def static(tmp_path):
    folder = tmp_path / "static"
    folder.mkdir()
    (folder / "report.html").write_text(PAGE)
    return folder


def embedded(text):
    found = re.search(r'<script type="application/json" id="midflight-report">(.*?)</script>', text, re.DOTALL)
    return json.loads(found[1])


def unpacked(data):
    return json.loads(gzip.decompress(base64.b64decode(data["packed"])))


def test_all_that_the_pages_ask_is_in_it(filled, static, tmp_path):
    out = tmp_path / "r.html"
    size = write_report(filled, filled.runs(), out, static=static)
    text = out.read_text()
    assert size == len(text.encode())
    data = embedded(text)
    assert (data["runs"], data["title"], data["left_out"]) == ([1, 2], "r-seed0, r-seed1", [])
    assert set(data["answers"]) == {
        "/api/projects",
        "/api/runs?runs=1,2",
        "/api/runs/1",
        "/api/runs/2",
        "/api/series?keys=*&runs=1,2",
        "/api/evaluations?runs=1,2",
        "/api/findings?runs=1,2",
        "/api/gates?runs=1,2",
        "/api/compare?baseline=1&candidates=2",
        *(f"/api/items?run={run}&task={task}" for run in (1, 2) for task in ("sums", "bpb")),
    }
    items = unpacked(data)
    assert set(items) == {
        *(f"/api/item?item=i{n}&runs=1,2&task=sums" for n in range(N)),
        *(f"/api/item?item={name}&runs=1,2&task=bpb" for name in "xy"),
    }
    texts = [
        one["text"]["text"]
        for answer in items["/api/item?item=i23&runs=1,2&task=sums"]["answers"]
        for one in answer["outputs"]
    ]
    assert HOSTILE in texts


def test_no_text_ends_the_script_that_it_stands_in(filled, static, tmp_path):
    out = tmp_path / "r.html"
    write_report(filled, filled.runs(), out, title=HOSTILE, static=static)
    text = out.read_text()
    assert (text.count("<script"), text.count("</script>"), text.count("<!--")) == (2, 2, 0)
    assert embedded(text)["title"] == HOSTILE


def test_nothing_of_other_runs_gets_into_it(filled, static, tmp_path):
    secret = open_store(str(tmp_path / "secret-folder.db"))
    fill(secret, runs=1, checkpoints=1, steps=3)
    Run("other-project", "other-run", {"key": "other-config"}, store=secret, tags=["other-tag"]).finish()
    secret.take_lease("other-lease", "me")
    data = report_data(secret, [secret.runs(name="r-seed0")[0]])
    assert data["start"] == "/run/1"
    assert "other-" not in encode([data["answers"], unpacked(data)]).decode()
    assert data["answers"]["/api/projects"]["store"] == "secret-folder.db"


def test_what_does_not_fit_is_left_out_and_said(filled, monkeypatch):
    whole = report_data(filled, filled.runs())
    monkeypatch.setattr(module, "MOST_BYTES", sum(len(encode(one)) for one in whole["answers"].values()))
    data = report_data(filled, filled.runs())
    assert data["left_out"]
    assert all(re.fullmatch(r"outputs of \d+ of \d+ items of \w+", text) for text in data["left_out"])
    assert len(unpacked(data)) < len(unpacked(whole))


def test_twenty_charts_of_ten_runs_and_five_hundred_items_fit(tmp_path, static):
    import numpy as np
    from serving import solver, task

    from midflight.pipeline import evaluate_checkpoint
    from midflight.records import Progress
    from midflight.store.base import Block

    store, rng = open_store(str(tmp_path / "large.db")), np.random.default_rng(0)
    for number in range(10):
        with Run("p", f"r{number}", store=store) as run:
            keys = tuple(f"k{i}" for i in range(20))
            store.append_points(
                run.id, 1, [Block(keys, np.arange(1000), np.full(1000, time.time()), rng.normal(size=(20, 1000)))]
            )
            for step in range(3 if number < 2 else 0):
                engine = solver(set(rng.choice(500, 200, replace=False).tolist()))
                engine.version = f"{number}-{step}"
                evaluate_checkpoint(task(n=500), engine, run=run, progress=Progress(step))
    size = write_report(store, store.runs(), tmp_path / "r.html", static=static)
    data = embedded((tmp_path / "r.html").read_text())
    assert size < MOST_BYTES
    assert (len(unpacked(data)), data["left_out"]) == (500, [])


def test_what_cannot_be_written(filled, static, tmp_path):
    with pytest.raises(ConfigError, match="the page of reports is not built.*npm run build"):
        write_report(filled, filled.runs(), tmp_path / "r.html", static=tmp_path)
    with pytest.raises(StoreError, match="cannot be written"):
        write_report(filled, filled.runs(), tmp_path / "nothing" / "r.html", static=static)
    (static / "report.html").write_text("<html></html>")
    with pytest.raises(ConfigError, match="no place for data"):
        write_report(filled, filled.runs(), tmp_path / "r.html", static=static)


def test_the_command(filled, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "midflight", "report", "r-seed0", "nobody", "--store", filled.location],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr.count("\n"), "no run 'nobody'" in done.stderr) == (2, 1, True)
