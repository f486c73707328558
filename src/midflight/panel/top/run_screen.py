"""A run: its tasks, what is wrong with it and what to do, its evaluations, its curves."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, cast

from rich.console import Group, RenderableType
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import Footer, Static

from midflight.errors import shorten
from midflight.panel.top.cells import worst_first
from midflight.panel.top.feed import Detail, Look
from midflight.panel.top.row import Row, task_line
from midflight.panel.top.summary import (
    charts_table,
    evaluations_text,
    finding_text,
    headline,
    judges_line,
    tasks_table,
)

if TYPE_CHECKING:
    from midflight.panel.top.app import TopApp

MOST_MISSING = 5


class RunScreen(Screen[None]):
    """The page of a run.

    Args:
        run: The run.
    """

    BINDINGS = [
        Binding("escape,backspace,b", "back", "all runs", key_display="esc"),
        Binding("n", "turn(1)", "next run"),
        Binding("p", "turn(-1)", "previous run"),
        Binding("j", "scroll(1)", show=False),
        Binding("k", "scroll(-1)", show=False),
    ]

    def __init__(self, run: int) -> None:
        super().__init__()
        self._run = run
        self._head = Text()
        self._shown: tuple[Row | None, Detail | None, int] = (None, None, 0)

    @property
    def _top(self) -> TopApp:
        return cast("TopApp", self.app)

    def compose(self) -> ComposeResult:
        """A line that stays, and a page that scrolls."""
        yield Static(id="head", markup=False)
        with VerticalScroll():
            yield Static(id="body", markup=False)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Shows what is known."""
        self.query_one(VerticalScroll).focus()
        self.show(self._top.last)

    def on_resize(self, event: events.Resize) -> None:
        """Shows what there is room for."""
        self.show(self._top.last)

    def turn_to(self, run: int) -> None:
        """Shows another run."""
        self._run = run
        self.query_one(VerticalScroll).scroll_home(animate=False)
        self.show(self._top.last)

    def show(self, look: Look) -> None:
        """Shows how the run is."""
        self.tick()
        row, detail = self._row(look), look.detail
        before, self._shown = self._shown, (row, detail, self.size.width)
        if row == before[0] and detail is before[1] and self.size.width == before[2] and look.at:
            return
        if row is None:
            body: RenderableType = Text("this run is no longer in the store" if look.at else "looking …")
        elif detail is None or detail.answer["run"]["id"] != self._run:
            body = Text("reading …", "dim")
        else:
            body = page(row, detail, max(20, self.size.width - 4))
        self.query_one("#body", Static).update(body)

    def tick(self) -> None:
        """Says which run it is, how far and how fast, and what is wrong with the store."""
        row, trouble = self._row(self._top.last), self._top.trouble()
        text = headline(row, time.time()) if row is not None else Text(f"run {self._run}")
        text.no_wrap, text.overflow = True, "ellipsis"
        if trouble:
            text.append(f"\n{trouble}", "red")
        if text != self._head:  # what is the same is not sent again
            self._head = text
            self.query_one("#head", Static).update(text)

    def _row(self, look: Look) -> Row | None:
        return next((row for row in look.rows if row.info.id == self._run), None)

    def action_back(self) -> None:
        """Back to all runs."""
        self._top.open_run(None)

    def action_turn(self, by: int) -> None:
        """To the run below or above it."""
        from midflight.panel.top.runs_screen import RunsScreen

        runs = next(screen for screen in self.app.screen_stack if isinstance(screen, RunsScreen))
        self._top.open_run(runs.neighbour(self._run, by))

    def action_scroll(self, by: int) -> None:
        """A line down or up."""
        self.query_one(VerticalScroll).scroll_relative(y=by, animate=False)


def page(row: Row, detail: Detail, width: int) -> Group:
    """All that is said of a run, the three questions first: better, which items, what is wrong."""
    answer = detail.answer
    parts: list[RenderableType] = [Text()]
    if answer["tasks"]:
        parts += [tasks_table([task_line(task) for task in answer["tasks"]], width), Text()]
    findings = worst_first(answer["diagnosis"])
    for finding in findings:
        parts += [finding_text(finding), Text()]
    if not findings:
        parts += [judges_line(answer["diagnosis"]), Text()]
    parts.append(evaluations_text(row))
    for one in answer["missing"][:MOST_MISSING]:
        parts.append(Text(f"{shorten(one['task'], 60)} at step {one['step']:,}: {shorten(one['reason'])}", "yellow"))
    parts += [Text(), charts_table(detail.curves, width)]
    left_out = len(answer["series"]) + len(answer["tasks"]) - len(detail.curves)
    if left_out > 0:
        parts.append(Text(f"{left_out} more series: midflight show, midflight serve", "dim"))
    return Group(*parts)
