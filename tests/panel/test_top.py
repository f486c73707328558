"""The live view on a terminal: what it reads, what it draws, which keys it takes, how it leaves a terminal."""

from __future__ import annotations

import asyncio
import fcntl
import io
import os
import pty
import re
import select
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import termios
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from serving import HOSTILE, solver, task

from midflight.panel.answers.base import ask
from midflight.panel.pace import pace_of
from midflight.panel.panel import Panel
from midflight.panel.top import feed as feeds
from midflight.panel.top.cells import GAP, columns_within
from midflight.panel.top.curves import drawn_of
from midflight.panel.top.feed import Feed
from midflight.panel.top.order import ORDERS, chosen
from midflight.panel.top.strokes import BLOCKS, chart, sparkline
from midflight.panel.top.summary import charts_table, summary
from midflight.panel.top.table import MOST_RUNS, runs_table
from midflight.pipeline import evaluate_checkpoint
from midflight.records import Progress
from midflight.run import Run
from midflight.store import _database as database
from midflight.store import open_store
from midflight.store.base import Block


def feed(store, **options):
    options = {"background": False, **options}
    return Feed(lambda: open_store(store.url, create=False, read_only=True), **options)


def drawn(renderable, width, **options):
    out = io.StringIO()
    Console(file=out, width=width, **options).print(renderable)
    return out.getvalue()


def log(store, name="a", steps=10, config=None, **series):
    with Run("p", name, config, store=store, resume="never") as run:
        for step in range(steps):
            run.log(step, **{key: value(step) for key, value in series.items()})
    return run.info.id


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


def hostile(store, name):
    """A run as another program may write it: `Run` itself refuses such names."""
    info = store.create_run(name, name, owner=name, config={name: name, "max_steps": 9}, tags=[name])
    store.append_points(info.id, 1, [Block((f"loss/{name}",), np.arange(3), np.arange(3.0), np.ones((1, 3)))])


def test_what_somebody_named_is_shown_and_never_obeyed(store):
    names = [HOSTILE, "[bold red]x[/]", "\x1b]0;title\x07\x1b[2J", "汉字" * 30, "a\u0301" * 50, "\u202e\u200b\x9b31m"]
    for name in names:
        hostile(store, name)
    with Run("p", "[bold red]x[/]", store=store, resume="never") as run:
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
    assert "[bold red]x[/]" in texts[0]


@pytest.mark.parametrize("width", [20, 60, 80, 120, 250])
def test_no_line_is_longer_than_the_terminal(filled, width):
    look = feed(filled).look()
    for text in (runs_table(look, width, "s"), summary(look.rows[0], look.at, width)):
        assert all(len(line) <= width for line in drawn(text, width).splitlines())


def test_a_process_that_is_gone_is_called_lost_and_one_that_is_silent_is_told(store):
    info = store.create_run("p", "a", owner=f"{socket.gethostname()}:{2**22 + 1}:0")
    store.create_run("p", "b", owner=f"{socket.gethostname()}:{os.getpid()}:{_ticks()}")
    look = feed(store, clock=lambda: info.heartbeat + 7_200).look()
    text = drawn(runs_table(look, 100, "s"), 100)
    assert re.search(r"a +\? lost 2 h", text)
    assert re.search(r"b +● silent 2 h", text)


def _ticks():
    with open(f"/proc/{os.getpid()}/stat") as file:
        return file.read().rpartition(")")[2].split()[19]


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


# -- the command -----------------------------------------------------------------------------------------------------


def command(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "midflight", "top", *arguments],
        capture_output=True, text=True, timeout=120, env={**os.environ, **environment},
    )  # fmt: skip


def test_without_a_terminal_one_table_is_printed(filled):
    done = command("--store", filled.url, "--project", "p")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"r-seed1 +✓ finished +399", done.stdout)
    assert "\x1b" not in done.stdout
    assert command("--store", filled.url, "--once").stdout == command("--store", filled.url).stdout


def test_of_many_runs_the_newest_are_printed(store):
    for number in range(MOST_RUNS + 2):
        store.create_run("p", f"run-{number}", owner="x")
    said = command("--store", store.url).stdout
    assert f"{MOST_RUNS} of {MOST_RUNS + 2} runs" in said
    assert "run-1 " not in said


def test_no_store_is_an_error_of_one_line(tmp_path):
    done = command("--store", str(tmp_path / "none.db"))
    assert done.returncode == 2
    assert re.fullmatch(r"midflight: no store at .*none\.db.*\n", done.stderr)


def test_help_and_the_table_do_without_textual(filled):
    code = (
        "import sys, contextlib; sys.modules['textual'] = None; sys.argv = ['midflight', *sys.argv[1:]]\n"
        "from midflight.cli import main\n"
        "with contextlib.suppress(SystemExit): main()\n"
        "assert not {'starlette', 'uvicorn'} & set(sys.modules)\n"
    )
    for arguments in (["--help"], ["top", "--help"], ["top", "--once", "--store", filled.url]):
        done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr


# -- a real terminal -------------------------------------------------------------------------------------------------


class Terminal:
    """A command in a pseudo-terminal of a size; `wait` reads until what it wrote holds a pattern."""

    def __init__(self, arguments, rows=30, columns=140, **environment):
        self.pid, self.end = pty.fork()
        if self.pid == 0:
            os.environ.update({"TERM": "xterm-256color", **environment})
            os.execv(sys.executable, [sys.executable, *arguments])
        self.resize(rows, columns)
        self.written = b""

    def resize(self, rows, columns):
        fcntl.ioctl(self.end, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    @property
    def text(self):
        return re.sub(rb"\x1b(\[[0-9;?<>=]*[a-zA-Z]|[=>])", b"", self.written).decode("utf-8", "replace")

    def wait(self, pattern, limit_s=90):
        given_up = time.monotonic() + limit_s
        while not re.search(pattern, self.text, re.DOTALL):
            assert time.monotonic() < given_up, f"no {pattern!r} in {self.text[-4000:]!r}"
            if select.select([self.end], [], [], 0.2)[0]:
                self.written += os.read(self.end, 1 << 16)

    def press(self, keys):
        self.written = b""
        os.write(self.end, keys)

    def leave(self):
        """What it exits with, once all is read."""
        while True:
            try:
                piece = os.read(self.end, 1 << 16)
            except OSError:
                break
            if not piece:
                break
            self.written += piece
        os.close(self.end)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


WRITER = """
import sys, time
from midflight.run import Run
with Run("live", "writer", {"max_steps": 1000}, store=sys.argv[1], resume="never") as run:
    for step in range(1, 1001):
        run.log(step, loss=2.0 - step / 1000)
        if step % 500 == 0:
            run.flush()
            print(step, flush=True)
            sys.stdin.readline()
"""


def test_it_follows_a_training_of_another_process_and_leaves_the_terminal_as_it_was(tmp_path):
    pytest.importorskip("textual")
    store = str(tmp_path / "live.db")
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, store], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert writer.stdout.readline() == "500\n"
        screen = Terminal(["-m", "midflight", "top", "--store", store, "--every", "0.2"])
        screen.wait("writer.*running.*500/1,000")
        writer.stdin.write("\n")
        writer.stdin.flush()
        assert writer.stdout.readline() == "1000\n"
        screen.wait("1,000/1,000")
        writer.stdin.write("\n")
        writer.stdin.flush()
        assert writer.wait(60) == 0
        screen.wait("finished")
        screen.press(b"\r")
        screen.wait("nothing was evaluated.*loss")
        screen.press(b"\x03")
        assert screen.leave() == 0
        assert b"\x1b[?25h" in screen.written  # the cursor is shown
        assert b"\x1b[?1049l" in screen.written  # and what was there before
    finally:
        writer.kill()
        writer.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_as_a_key_does(filled, number):
    pytest.importorskip("textual")
    screen = Terminal(["-m", "midflight", "top", "--store", filled.url])
    screen.wait("r-seed1")
    os.kill(screen.pid, number)
    assert screen.leave() == 0
    assert b"\x1b[?1049l" in screen.written


def test_without_colours_none_are_sent(filled):
    pytest.importorskip("textual")
    screen = Terminal(["-m", "midflight", "top", "--store", filled.url], NO_COLOR="1")
    screen.wait("r-seed1.*q quit")
    screen.press(b"q")
    assert screen.leave() == 0
    codes = {code for found in re.findall(rb"\x1b\[([0-9;]*)m", screen.written) for code in found.split(b";")}
    assert not codes & {str(code).encode() for code in (*range(30, 39), *range(90, 98))}


def test_a_dumb_terminal_gets_the_table(filled):
    screen = Terminal(["-m", "midflight", "top", "--store", filled.url], TERM="dumb")
    assert screen.leave() == 0
    assert b"r-seed1" in screen.written
    assert b"\x1b" not in screen.written


def test_what_is_missing_is_named(filled):
    code = "import sys; sys.modules['textual'] = None; from midflight.cli import main; sys.argv = sys.argv[:1] + sys.argv[2:]; main()"
    screen = Terminal(["-c", code, "midflight", "top", "--store", filled.url])
    assert screen.leave() == 2
    assert "pip install 'midflight[top]'" in " ".join(screen.text.split())


# -- keys ------------------------------------------------------------------------------------------------------------


def keyed(store, steps, size=(140, 30)):
    """Runs the live view without a terminal; `steps` is given what presses keys, and the view."""
    pytest.importorskip("textual")
    from midflight.panel.top.app import TopApp

    async def go():
        app = TopApp(feed(store), store.url, 0.2)
        async with app.run_test(size=size) as pilot:
            await until(lambda: app.last.at and not app.last.waiting, pilot)
            await steps(pilot, app)
        assert app.crash is None

    asyncio.run(go())


async def until(is_so, pilot):
    given_up = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < given_up
        await pilot.pause(0.02)


def said(app, name):
    return drawn(app.screen.query_one(name).content, 200)


def names(app):
    from midflight.panel.top.runs_screen import RunsTable

    table = app.screen.query_one(RunsTable)
    return [table.get_row_at(at)[0].plain for at in range(table.row_count)]


def test_keys_sort_filter_and_open(filled):
    async def steps(pilot, app):
        assert names(app) == ["r-seed1", "r-seed0"]
        assert "p/r-seed1" in said(app, "#pane")
        await pilot.press("s")
        assert names(app) == ["r-seed0", "r-seed1"]
        assert "sorted by name" in said(app, "#head")
        await pilot.press("slash", *"SEED0", "enter")
        assert names(app) == ["r-seed0"]
        assert "1 shown" in said(app, "#head")
        await pilot.press("escape", "r")
        assert names(app) == []
        assert "no run is like that" in said(app, "#nothing")
        await pilot.press("escape", "g", "j", "enter")
        assert "p/r-seed1" in said(app, "#head")
        await until(lambda: "exact_match" in said(app, "#body"), pilot)
        await pilot.press("p")
        await until(lambda: "p/r-seed0" in said(app, "#head") and "exact_match" in said(app, "#body"), pilot)
        await pilot.press("escape")
        assert "p/r-seed0" in said(app, "#pane")  # the cursor went with it

    keyed(filled, steps)


def test_a_new_run_keeps_the_cursor_where_it_is(store):
    log(store, "one", loss=float)
    log(store, "two", loss=float)

    async def steps(pilot, app):
        await pilot.press("down")
        assert "p/one" in said(app, "#pane")
        log(store, "three", loss=float)
        await until(lambda: len(app.last.rows) == 3, pilot)
        await pilot.pause()
        assert names(app) == ["three", "two", "one"]
        assert "p/one" in said(app, "#pane")

    keyed(store, steps)


def test_a_smaller_terminal_shows_less(filled):
    async def steps(pilot, app):
        wide = len(app.screen.query_one("RunsTable").columns)
        await pilot.resize_terminal(60, 12)
        await pilot.pause()
        assert len(app.screen.query_one("RunsTable").columns) == 4 < wide
        assert not app.screen.query_one("#pane").display

    keyed(filled, steps)


def test_trouble_with_the_store_is_said_and_passes(store, tmp_path):
    log(store, "one", loss=float)
    store.close()
    path, away = tmp_path / "test.db", tmp_path / "away.db"

    async def steps(pilot, app):
        shutil.move(path, away)
        await until(lambda: "no store at" in said(app, "#head"), pilot)
        assert names(app) == ["one"]
        shutil.move(away, path)
        await until(lambda: "no store at" not in said(app, "#head"), pilot)

    keyed(store, steps)


def test_an_empty_store_says_what_will_be_there(store):
    async def steps(pilot, app):
        assert "nothing was trained or evaluated yet" in said(app, "#nothing")
        log(store, "one", loss=float)
        await until(lambda: names(app) == ["one"], pilot)

    keyed(store, steps)


def test_hostile_names_on_the_live_view(store):
    hostile(store, HOSTILE)
    hostile(store, "[link=x]y[/link] [")

    async def steps(pilot, app):
        assert len(names(app)) == 2
        await pilot.press("enter")
        await until(lambda: "loss" in said(app, "#body"), pilot)
        picture = app.export_screenshot()
        assert "\u202e" not in picture
        assert "\x07" not in picture

    keyed(store, steps)
