"""`midflight top` on a terminal: without one, with a real one, with keys; and how it leaves it."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time

import pytest
from serving import HOSTILE
from watching import drawn, feed, hostile, log

from midflight.panel.top.table import MOST_RUNS

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

    def looks(self):
        """Codes of colours and styles that were sent; 39 and 49 are the terminal's own, 7 is the reverse of it."""
        found = re.findall(rb"\x1b\[([0-9;]*)m", self.written)
        return {code for codes in found for code in codes.decode().split(";")}

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


def test_without_colours_none_are_sent_and_the_cursor_is_still_seen(filled):
    pytest.importorskip("textual")
    screen = Terminal(["-m", "midflight", "top", "--store", filled.url], NO_COLOR="1")
    screen.wait("r-seed1.*q quit")
    looks = screen.looks()
    assert not looks & {str(code) for code in (*range(30, 39), *range(40, 49), *range(90, 98), *range(100, 108))}
    assert "7" in looks
    screen.press(b"q")
    assert screen.leave() == 0


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
