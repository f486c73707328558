"""`midflight top`: what it reads of a store, and what it says of runs."""

from __future__ import annotations

import re
import socket
import sqlite3

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from serving import HOSTILE, solver, task
from watching import drawn, feed, hostile, log

from midflight import environ
from midflight.panel.answers.base import ask
from midflight.panel.pace import pace_of
from midflight.panel.panel import Panel
from midflight.panel.top import feed as feeds
from midflight.panel.top.cells import GAP, columns_within
from midflight.panel.top.curves import drawn_of
from midflight.panel.top.order import ORDERS, chosen
from midflight.panel.top.strokes import BLOCKS, chart, sparkline
from midflight.panel.top.summary import charts_table, summary
from midflight.panel.top.table import runs_table
from midflight.pipeline import evaluate_checkpoint
from midflight.records import Progress
from midflight.run import Run
from midflight.store import _database as database
from midflight.store import open_store
from midflight.store.base import Block

# -- drawn with characters -------------------------------------------------------------------------------------------


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True, width=64), max_size=300), st.integers(1, 80))
def test_a_line_of_blocks_shows_any_values_in_its_width(values, width):
    line = sparkline(values, width)
    assert len(line) == min(width, len(values))
    assert set(line) <= {*BLOCKS, "×"}
    assert ("×" in line) == (not np.isfinite(values).all())


@given(st.integers(0, 159), st.floats(2, 1e300))
def test_a_spike_of_one_bucket_reaches_the_top_of_a_chart(at, height):
    flat = np.ones(160)
    high = flat.copy()
    high[at] = height
    lines = chart(np.arange(160.0), flat, flat, high, 30, 5)
    texts = ["".join(text for text, _ in line) for line in lines]
    assert [len(text) for text in texts] == [30] * 5
    lit = [i for i, sign in enumerate(texts[0]) if sign != "\u2800"]
    assert lit == [round(at / 159 * 59) // 2]


def test_a_chart_of_no_numbers_is_empty():
    nothing = np.full(3, np.nan)
    assert chart(np.arange(3.0), nothing, nothing, nothing, 4, 1) == [[("\u2800" * 4, False)]]
    assert chart(np.empty(0), *[np.empty(0)] * 3, 4, 1) == [[("\u2800" * 4, False)]]


@given(st.integers(1, 400))
def test_columns_fit_in_a_line(width):
    columns = columns_within(width)
    assert columns[0].key == "name"
    assert len(columns) == 1 or sum(column.width + GAP for column in columns) <= width


def test_on_sixty_columns_it_is_still_told_how_far_and_what_is_wrong():
    assert [column.key for column in columns_within(60)] == ["name", "state", "step", "findings"]


# -- how fast --------------------------------------------------------------------------------------------------------


def paced(store, config, attempts=((0, 100, 0.0, 2.0),), key="loss"):
    """A run whose attempts log steps from one to another, beginning at a time, so many seconds a step."""
    info = store.create_run("p", "a", owner="x", config=config)
    began = store.attempts(info.id)[0][1]
    for number, (low, high, wait, each) in enumerate(attempts, start=1):
        if number > 1:
            assert store.resume_run(info.id, owner="x", before="x") == number
            began = store.attempts(info.id)[-1][1]
        steps = np.arange(low, high)
        walls = began + wait + (steps - low) * each
        values = np.stack([steps / 1.0, steps * 512.0, steps / 50])
        store.append_points(info.id, number, [Block((key, "num_tokens", "epoch"), steps, walls, values)])
    info = next(run for run in store.runs() if run.id == info.id)
    return pace_of(store, info, store.heads(info.id))


def test_speed_and_time_left(store):
    pace = paced(store, {"max_steps": 199})
    assert (pace.step, pace.planned_steps, pace.is_estimated) == (99, 199, False)
    assert pace.steps_per_second == pytest.approx(0.5)
    assert pace.tokens_per_second == pytest.approx(256)
    assert pace.seconds_left == pytest.approx(200)


def test_the_steps_of_planned_epochs_are_estimated(store):
    pace = paced(store, {"max_steps": -1, "num_train_epochs": 3})
    assert (pace.planned_steps, pace.is_estimated) == (150, True)


def test_what_is_not_known_is_not_said(store):
    assert paced(store, {}).seconds_left is None
    assert paced(store, {}, attempts=((0, 1, 0.0, 1.0),)).steps_per_second is None
    run = store.create_run("p", "b", owner="x")
    assert pace_of(store, run, []).step is None


def test_the_pause_before_a_resume_is_no_time_of_training(store):
    pace = paced(store, {}, attempts=((0, 100, -86_400.0, 1.0), (100, 150, 1.0, 4.0)))
    assert pace.steps_per_second == pytest.approx(0.25)


# -- what is read ----------------------------------------------------------------------------------------------------


def test_it_says_what_the_pages_say(filled):
    look = feed(filled).look()
    panel = Panel(filled, background=False)
    assert [row.info.name for row in look.rows] == ["r-seed1", "r-seed0"]
    for row in look.rows:
        answer = ask(panel, f"/api/runs/{row.info.id}?reference=start")
        assert [line.estimate for line in row.found.tasks] == [
            task["points"][-1]["estimate"] for task in answer["tasks"]
        ]
        assert [line.difference for line in row.found.tasks] == [task["difference"] for task in answer["tasks"]]
        assert row.found.diagnosis == answer["diagnosis"]
        assert row.found.train_share == answer["cost"]["train_share"]
    sums = next(line for line in look.rows[1].found.tasks if line.task == "sums")
    assert (sums.learned, sums.forgotten) == (12, 1)


def test_what_has_not_changed_is_not_read_again(store, monkeypatch):
    one, two = log(store, "one", loss=float), log(store, "two", loss=float)
    read = []
    monkeypatch.setattr(feeds, "found_of", lambda panel, info, pulse: read.append(info.id))
    watching = feed(store)
    for _ in range(3):
        watching.look()
    assert sorted(read) == [one, two]
    with Run("p", "two", store=store, resume="attach") as run:
        evaluate_checkpoint(task(), solver({1}), run=run, progress=Progress(9))
    watching.look()
    assert sorted(read) == [one, two, two]


def test_what_takes_long_is_read_bit_by_bit(store, monkeypatch):
    for name in "abc":
        log(store, name, loss=float)
    monkeypatch.setattr(feeds, "BUDGET_S", -1.0)
    watching = feed(store, background=True)
    look = watching.look()
    assert (len(look.rows), look.waiting, [row.found for row in look.rows]) == (3, 3, [None] * 3)
    assert "…" in drawn(runs_table(look, 100, "s"), 100)
    monkeypatch.setattr(feeds, "BUDGET_S", 1e9)
    assert watching.look().waiting == 0


def test_runs_of_other_projects_are_left_out(store):
    log(store, loss=float)
    assert feed(store, project="other").look().rows == ()


def test_a_store_that_was_taken_away_comes_back(store, tmp_path):
    log(store, "before", loss=float)
    store.close()
    path, away = tmp_path / "test.db", tmp_path / "away.db"
    watching = feed(store)
    shown = watching.look()
    path.rename(away)
    gone = watching.look()
    assert gone.error.startswith(f"no store at {path}")
    assert gone.rows == shown.rows
    assert not path.exists()
    away.rename(path)
    assert watching.look().error == ""


def test_another_file_in_its_place_is_seen(store, tmp_path):
    log(store, "before", loss=float)
    store.close()
    watching = feed(store)
    watching.look()
    other = open_store(str(tmp_path / "other.db"))
    log(other, "after", loss=float)
    other.close()
    (tmp_path / "other.db").replace(tmp_path / "test.db")
    assert "another file" in watching.look().error
    assert [row.info.name for row in watching.look().rows] == ["after"]


def test_a_store_that_is_locked_is_waited_for(store, tmp_path, monkeypatch):
    monkeypatch.setattr(database, "BUSY_S", 0.05)
    log(store, loss=float)
    store.close()
    holder = sqlite3.connect(tmp_path / "test.db", isolation_level=None)
    holder.execute("PRAGMA locking_mode=EXCLUSIVE")
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        sqlite3.connect(tmp_path / "test.db", timeout=0).execute("SELECT count(*) FROM run")
    watching = feed(store)
    assert "another process has held it" in watching.look().error
    holder.close()
    look = watching.look()
    assert (look.error, len(look.rows)) == ("", 1)


# -- what is shown ---------------------------------------------------------------------------------------------------


def test_a_store_without_runs_says_so(store):
    assert drawn(runs_table(feed(store).look(), 80, "s.db"), 80) == "nothing was trained or evaluated yet in s.db\n"


def test_numbers_that_are_none_are_seen(store):
    run = log(store, loss=lambda step: float("nan") if step > 5 else 1.0)
    watching = feed(store)
    watching.opened = run
    look = watching.look()
    assert "nan" in (text := drawn(runs_table(look, 160, "s"), 160))
    assert "×" in text
    assert "× 4 values are not finite" in drawn(charts_table(look.detail.curves, 80), 80)


def test_what_somebody_named_is_shown_and_never_obeyed(store):
    names = [HOSTILE, "[b]x[/]", "\x1b]0;title\x07\x1b[2J", "汉字" * 30, "a\u0301" * 50, "\u202e\u200b\x9b31m"]
    for name in names:
        hostile(store, name)
    with Run("p", "[b]x[/]", store=store, resume="never") as run:
        evaluate_checkpoint(task(name="[blink]t[/]", n=4), solver({0}), run=run, progress=Progress(1))
    watching = feed(store)
    for width in (40, 60, 160):
        look = watching.look()
        texts = [drawn(runs_table(look, width, HOSTILE), width)]
        for row in look.rows:
            watching.opened = row.info.id
            detail = watching.look().detail
            texts += [drawn(summary(row, 0.0, width), width), drawn(charts_table(detail.curves, width), width)]
        for text in texts:
            assert all(sign.isprintable() or sign == "\n" for sign in text), text
    assert "[b]x[/]" in texts[0]


@pytest.mark.parametrize("width", [20, 60, 80, 120, 250])
def test_no_line_is_longer_than_the_terminal(filled, width):
    look = feed(filled).look()
    for text in (runs_table(look, width, "s"), summary(look.rows[0], look.at, width)):
        assert all(len(line) <= width for line in drawn(text, width).splitlines())


def test_a_process_that_is_gone_is_called_lost_and_one_that_is_silent_is_told(store):
    info = store.create_run("p", "a", owner=f"{socket.gethostname()}:{2**22 + 1}:0")
    store.create_run("p", "b", owner=environ.owner())
    look = feed(store, clock=lambda: info.heartbeat + 7_300).look()
    text = drawn(runs_table(look, 100, "s"), 100)
    assert re.search(r"a +\? lost 2 h", text)
    assert re.search(r"b +● silent 2 h", text)


def test_runs_are_sorted_and_found(store):
    for name, loss, lr in (("b", 1.0, 1), ("a", float("nan"), 2), ("c", 1.0, 3)):
        log(store, name, 60, {"lr": lr}, loss=lambda step, value=loss: value if step else 1.0)
    rows = feed(store).look().rows
    assert [row.info.name for row in chosen(rows, "activity", "", False)] == ["c", "a", "b"]
    assert [row.info.name for row in chosen(rows, "name", "", False)] == ["a", "b", "c"]
    assert chosen(rows, "findings", "", False)[0].info.name == "a"
    assert [row.info.name for row in chosen(rows, "name", "LR=3", False)] == ["c"]
    assert chosen(rows, "name", "", True) == []
    for order in ORDERS:
        assert len(chosen(rows, order, "", False)) == 3


def test_a_task_is_drawn_with_its_interval(filled):
    curve = drawn_of(filled, ask(Panel(filled, background=False), "/api/runs/1"))[0]
    assert curve.title.endswith(("exact_match", "perplexity"))
    assert (curve.low <= curve.mean).all()
    assert (curve.mean <= curve.high).all()
