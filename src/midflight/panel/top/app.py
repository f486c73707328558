"""The live view: a table of runs with keys, and a page for each run."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
import time
from collections.abc import Callable

from textual.app import App
from textual.binding import Binding
from textual.message import Message

from midflight.errors import shorten
from midflight.panel.top.cells import short_duration
from midflight.panel.top.feed import Feed, Look
from midflight.panel.top.run_screen import RunScreen
from midflight.panel.top.runs_screen import RunsScreen
from midflight.store import Store

SHARE = 10
"""A look that took long is followed by so many times as long a pause: watching costs a tenth of a processor at most."""
QUIET_S = 5.0
"""Seconds without a look after which it is said that the store does not answer."""


class Looked(Message):
    """The store was looked at."""

    def __init__(self, look: Look) -> None:
        self.look = look
        super().__init__()


class TopApp(App[None]):
    """Shows what a feed says.

    Args:
        feed: What looks at the store, in a thread of its own.
        store: What the store is called.
        every: Seconds between two looks.
    """

    CSS = """
    #head, #pane, #body { height: auto; padding: 0 1; }
    #pane { border-top: solid ansi_bright_black; max-height: 50%; }
    #search { display: none; height: 1; border: none; padding: 0 1; }
    #search.asked { display: block; }
    RunsTable { height: 1fr; overflow-x: hidden; }
    RunsTable, VerticalScroll { scrollbar-size-vertical: 1; scrollbar-color: ansi_bright_black; }
    RunsTable > .datatable--header { background: ansi_default; text-style: bold; }
    RunsTable > .datatable--even-row, RunsTable > .datatable--odd-row { background: ansi_default; }
    RunsTable > .datatable--cursor, RunsTable:focus > .datatable--cursor {
        background: ansi_default; color: ansi_default; text-style: reverse;
    }
    #nothing { height: 1fr; content-align: center middle; }
    """
    BINDINGS = [
        Binding("q", "quit", "quit"),
        Binding("ctrl+c", "quit", show=False, priority=True),
        Binding("ctrl+z", "suspend_process", show=False),
    ]
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, feed: Feed, store: str, every: float) -> None:
        super().__init__(ansi_color=True)  # said here: what NO_COLOR does to colours is chosen once
        self.feed, self.store, self.every = feed, shorten(store, 100), every
        self.last = Look()
        """What was seen last."""
        self.crash: Exception | None = None
        """What ended the thread that looks."""
        self.theme = "ansi-dark"  # the terminal's own colours, whatever they are
        self.animation_level = "none"  # a slow line has better to do
        self._looked = time.monotonic()
        self._wake = threading.Event()

    def on_mount(self) -> None:
        """Begins to look."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with contextlib.suppress(NotImplementedError, RuntimeError):  # not in the main thread
                asyncio.get_running_loop().add_signal_handler(number, self.exit)
        self.push_screen(RunsScreen())
        # a daemon, for it may wait for a store that is locked when the program ends
        threading.Thread(target=self._watch, name="midflight-top", daemon=True).start()
        self.set_interval(1.0, self._tick)

    def open_run(self, run: int | None) -> None:
        """Opens a run, or goes back to all of them."""
        self.feed.opened = run
        self._wake.set()
        if run is None:
            self.pop_screen()
        elif isinstance(self.screen, RunScreen):
            self.screen.turn_to(run)
        else:
            self.push_screen(RunScreen(run))

    def on_looked(self, message: Looked) -> None:
        """Shows what was seen."""
        self._looked = time.monotonic()
        if message.look is self.last:  # nothing was written
            return
        self.last = message.look
        for screen in self.screen_stack:
            if isinstance(screen, RunsScreen | RunScreen):
                screen.show(self.last)

    def trouble(self) -> str:
        """What is wrong with the store; empty if nothing is."""
        now = time.time()
        ago = f"; this is how it was {short_duration(now - self.last.at)} ago" if self.last.at else ""
        quiet = time.monotonic() - self._looked
        if self.last.error:
            return f"{shorten(self.last.error, 300)}{ago}; looking again"
        return f"the store does not answer for {quiet:.0f} s{ago}" if quiet > self.every + QUIET_S else ""

    def _tick(self) -> None:
        for screen in self.screen_stack:
            if isinstance(screen, RunsScreen | RunScreen):
                screen.tick()

    def _watch(self) -> None:
        try:
            while self.is_running:
                began = time.monotonic()
                look = self.feed.look()
                took = time.monotonic() - began
                self.post_message(Looked(look))
                self._wake.wait(took if look.waiting else max(self.every, SHARE * took))
                self._wake.clear()
        except Exception as error:  # it is raised again where the program ends
            self.crash = error
            self.call_from_thread(self.exit)


def run_top(open: Callable[[], Store], project: str | None, every: float, store: str) -> None:
    """Shows a store on this terminal until it is left.

    Args:
        open: Opens the store.
        project: Only runs of this project; None = all.
        every: Seconds between two looks.
        store: What it is called.
    """
    app = TopApp(Feed(open, project), store, every)
    app.run(mouse=False)
    if app.crash is not None:
        raise app.crash
