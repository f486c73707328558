"""Detectors beside a run that is written: what they say live is what they say in hindsight, and nothing stops for them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shapes import FALLING, NOISE, RISING, STEPS, spike

from midflight import catalog
from midflight.analyse.diagnose import diagnose_run
from midflight.errors import ConfigError
from midflight.records import Cost, Estimate, EvalReport, Progress
from midflight.run import Run
from midflight.store import open_store

SFT = {
    "loss": spike(10), "grad_norm": np.where(STEPS < 150, 1.0, np.nan), "learning_rate": np.full(len(STEPS), 1e-4),
    "eval_loss": np.where(STEPS % 20 == 0, 1.5 + np.abs(STEPS - 60) / 100, np.nan),
}  # fmt: skip
RL = {
    "reward": RISING, "kl": np.interp(STEPS, [100, 120], [0.1, 9.0]), "completions/mean_length": np.where(STEPS < 90, 300.0, 7.0),
    "entropy": np.interp(STEPS, [20, 80], [1.0, 0.01]), "grad_norm": np.where(NOISE[2] > 1.2, 0.0, 0.3),
}  # fmt: skip


def rows_of(values):
    """Records as a trainer logs them: an evaluation apart from the step's own."""
    for i, step in enumerate(STEPS):
        yield int(step), {name: float(series[i]) for name, series in values.items() if not name.startswith("eval")}
        evals = {name: float(series[i]) for name, series in values.items() if name.startswith("eval")}
        if evals and not np.isnan(list(evals.values())).any():
            yield int(step), evals


def said(findings):
    return [(one.kind, one.severity, one.onset, one.noticed, tuple(one.metrics), one.text) for one in findings]


@pytest.mark.parametrize(("values", "kinds"), [(SFT, 4), (RL, 4)], ids=["sft", "rl"])
def test_live_is_hindsight_however_it_is_cut(store, values, kinds, capsys):
    runs = iter(range(100))

    @given(st.sets(st.integers(0, 220), max_size=8))
    def holds(cuts):
        with Run("p", f"run{next(runs)}", store=store, resume="never") as run:
            for place, (step, logged) in enumerate(rows_of(values)):
                run.log(step, **logged)
                if place in cuts:
                    run.flush()
        found = diagnose_run(store, run.info).findings
        assert len({one.kind for one in found}) >= kinds
        assert said(run.findings) == said(found)
        newest = {one.kind: one for one in found}
        assert sorted(said(store.findings(run.id))) == sorted(said(newest.values()))

    holds()


PROGRAM = """
import os, signal, sys
sys.path.insert(0, {folder!r})
from test_live import RL, rows_of
from midflight.run import Run

run = Run("p", "r", store={store!r}, resume=sys.argv[1])
first, last = int(sys.argv[2]), int(sys.argv[3])
run.begin_at(first - 1)
for step, values in rows_of(RL):
    if first <= step <= last:
        run.log(step, **values)
run.flush()
if last < 200:
    os.kill(os.getpid(), signal.SIGKILL)
run.finish()
"""


def test_over_a_kill_and_a_resume_from_an_earlier_step(tmp_path):
    """Killed at step 130, when four things were said; resumed from 95: what was said beyond is said anew, once."""
    url = str(tmp_path / "s.db")
    text = PROGRAM.format(folder=str(Path(__file__).parent), store=url)

    def train(*arguments: str):
        return subprocess.run([sys.executable, "-c", text, *arguments], capture_output=True, text=True, check=False)

    killed = train("never", "1", "130")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    store = open_store(url)
    before = store.findings(1)
    assert {one.noticed for one in before if one.noticed > 95}
    resumed = train("must", "96", "200")
    assert resumed.returncode == 0, resumed.stderr
    run = store.runs("p", "r")[0]
    found = diagnose_run(store, run).findings
    assert said(store.findings(run.id)) == said(found)
    again = [line for line in resumed.stderr.splitlines() if "at step" in line]
    assert len(again) == len([one for one in found if one.noticed > 95])  # what was told before is not told again


def test_a_finding_of_a_superseded_attempt_is_left_out(store, capsys):
    run = Run("p", "r", store=store)
    for step in range(1, 40):
        run.log(step, loss=float("nan") if step == 30 else 1.0)
    run.flush()
    assert [one.kind for one in store.findings(run.id)] == ["nonfinite"]
    run.finish("failed")
    with Run("p", "r", store=store, resume="must") as again:
        again.begin_at(20)
        for step in range(21, 60):
            again.log(step, loss=1.0)
    assert not store.findings(again.id)
    assert not diagnose_run(store, again.info).findings


def report(id: str, step: int, value: float) -> EvalReport:
    estimate = Estimate("acc", "", value, 0.1, 0, 1, 0.95, 5, 5, "t", {"ok": 5}, higher_is_better=True)
    return EvalReport(id, "sums", "f", {}, {}, "w", "done", Progress(step), [estimate], Cost(), 0, 0.0)


def evaluate(store, run: Run, step: int, value: float) -> EvalReport:
    handle = store.begin_evaluation(run.id, run.attempt, f"{step}", "sums", "f", Progress(step), "w")
    made = report(handle.id, step, value)
    store.finish_evaluation(made, {})
    return made


def test_held_out_scores_tell_of_reward_hacking_live_and_after_a_resume(store, capsys):
    """One evaluation below the best before the resume, one after it; the one that comes back counts once."""
    with Run("p", "r", store=store) as run:
        for i, step in enumerate(STEPS[:100]):
            run.log(int(step), reward=float(RISING[i]))
        run.flush()
        for step, value in ((40, 0.6), (80, 0.3)):
            run.evaluated(evaluate(store, run, step, value))
        run.finish("failed")
    again = Run("p", "r", store=store, resume="must")
    again.begin_at(100)
    again.evaluated(store.reports(run.id)[-1])
    assert not again.findings
    again.evaluated(evaluate(store, again, 120, 0.3))
    assert [one.kind for one in again.findings] == ["reward_hacking"]
    again.finish()
    assert said(store.findings(run.id)) == said(diagnose_run(store, again.info).findings)


def test_the_evaluator_shows_its_reports_to_the_detectors(store, capsys):
    import midflight as mf

    right = {"items": 10}  # how many of ten the model answers at present
    task = mf.Task("sums", [{"a": a} for a in range(10)], prompt="{{ a }}", target="1", metrics=["exact_match"])

    class Training(mf.engines.Fake):
        def weights(self):
            return str(right)

    engine = Training(lambda request: "1" if int(request.item_id) < right["items"] else "0")
    with Run("p", "r", store=store) as run:
        evaluator = mf.Evaluator(mf.EvaluatorConfig(freq_steps=50), [task], engine, run, quiet=True)
        for i, step in enumerate(STEPS):
            run.log(int(step), reward=float(RISING[i]))
            if step % 50 == 0:
                run.flush()
                right["items"] = 10 if step <= 50 else 2
            evaluator.step(int(step))
    assert "reward_hacking" in {one.kind for one in run.findings}


# -- who is told -----------------------------------------------------------------------------------------------------


@contextmanager
def server(status=200, answer=b"ok"):
    """A real one; keeps what it was sent."""
    bodies: list[dict] = []
    came = threading.Semaphore(0)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            bodies.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(status)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)
            came.release()

        def log_message(self, *_):
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{http.server_port}", bodies
    finally:
        http.shutdown()
        http.server_close()
        thread.join()


def train_to_nan(store, **options) -> Run:
    with Run("p", "r<1>", store=store, resume="never", **options) as run:
        for step in range(1, 40):
            run.log(step, loss=float(FALLING[step]))
        run.log(40, loss=float("nan"))
    return run


def test_a_notification_in_slack_s_form_is_out_before_the_run_ends(store, capsys):
    with server() as (url, bodies):
        train_to_nan(store, notify=[f"{url}/hook"])
        (body,) = bodies  # finish waited for it
    assert body["text"].startswith("p/r&lt;1&gt;: midflight: STOP: nonfinite at step 40: loss is nan")
    assert body["run"] == "p/r<1>"
    assert (body["finding"]["kind"], body["finding"]["noticed"]) == ("nonfinite", 40)
    assert body["finding"]["advice"]
    assert "STOP: nonfinite at step 40" in capsys.readouterr().err


def test_a_secret_is_sent_and_never_shown(store, capsys, monkeypatch):
    monkeypatch.setenv("HOOK_TOKEN", "s3cr3t/token")
    with server(500, b"no such hook: s3cr3t/token") as (url, bodies):
        train_to_nan(store, notify=[f"{url}/${{env:HOOK_TOKEN}}"])
    said_ = capsys.readouterr().err
    assert len(bodies) == 1
    assert "a finding was not delivered" in said_
    assert "HTTP 500" in said_
    assert "s3cr3t" not in said_
    assert "${env:HOOK_TOKEN}" in said_


def test_nobody_there_and_a_variable_that_is_not_set(store, capsys):
    run = train_to_nan(store, notify=["http://127.0.0.1:9/hook", "https://x.invalid/${env:MIDFLIGHT_NO_SUCH}"])
    assert len(run.findings) == 1
    assert capsys.readouterr().err.count("a finding was not delivered") == 2


def test_a_url_that_secrets_may_not_go_over(store):
    with pytest.raises(ConfigError, match="https"):
        Run("p", "r", store=store, notify=["http://example.com/hook"])


def test_a_callback_that_raises_stops_nothing(store, capsys):
    def broken(finding):
        raise RuntimeError("mine")

    run = train_to_nan(store, on_finding=broken)
    assert "on_finding raised RuntimeError: mine" in capsys.readouterr().err
    assert [one.kind for one in store.findings(run.id)] == ["nonfinite"]


# -- detectors of others ---------------------------------------------------------------------------------------------

PLUGIN = """
from midflight.analyse.detectors.base import Detector

class Mine(Detector):
    needs = ("loss",)
    severity = "warn"
    def update(self, now):
        if now.values["loss"] < 1.5:
            return self.finding(now, now.step, ["loss"], "below 1.5", value=now.values["loss"])

class Broken(Detector):
    needs = ("loss",)
    def update(self, now):
        raise ValueError("at step %d" % now.step)
"""
POINTS = """[midflight.analyse.detectors]
mine = mine_plugin:Mine
broken = mine_plugin:Broken
absent = no_such_module_of_mine:Nothing
"""


@pytest.fixture
def plugins(tmp_path, monkeypatch):
    """A package of a user's, installed: one detector works, one raises, one cannot be imported."""
    info = tmp_path / "mine_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(POINTS)
    (tmp_path / "mine_plugin.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(str(tmp_path))
    catalog._entry_points.cache_clear()
    yield
    catalog._entry_points.cache_clear()
    sys.modules.pop("mine_plugin", None)


def test_a_plugin_that_raises_stops_nothing(plugins, store, capsys):
    run = train_to_nan(store)
    assert {one.kind for one in store.findings(run.id)} == {"mine", "nonfinite"}
    assert len(store.read_points(run.id, "loss").steps) == 40
    text = capsys.readouterr().err
    assert text.count("the detector broken failed and is left out: ValueError: at step 1") == 1
    assert text.count("the detector absent failed and is left out: ModuleNotFoundError") == 1
    found = diagnose_run(store, run.info)
    assert found.failed.keys() == {"broken", "absent"}
    assert {one.kind for one in found.findings} == {"mine", "nonfinite"}


def test_the_command_says_which_detector_failed(plugins, store, tmp_path, capsys):
    train_to_nan(store)
    done = subprocess.run(
        [sys.executable, "-m", "midflight", "diagnose", "r<1>", "--store", str(tmp_path / "test.db")],
        capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
    )  # fmt: skip
    assert "broken failed: ValueError: at step 1" in " ".join(done.stdout.split())
