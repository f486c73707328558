"""All runs: a table, and below it the run at the cursor in some lines."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, cast

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import Screen
from textual.widgets import DataTable, Footer, Input, Static

from midflight.panel.top.cells import GAP, STATES, Column, columns_within
from midflight.panel.top.feed import Look
from midflight.panel.top.order import ACTIVITY, chosen, next_order
from midflight.panel.top.row import Row
from midflight.panel.top.summary import summary
from midflight.panel.top.table import nothing_yet

if TYPE_CHECKING:
    from midflight.panel.top.app import TopApp

LOWEST = 18
"""Lines of a terminal below which there is only the table."""


class RunsTable(DataTable[Text]):
    """The table of runs."""

    BINDINGS = [
        Binding("enter", "select_cursor", "open"),
        Binding("j", "cursor_down", show=False),
        Binding("k", "cursor_up", show=False),
        Binding("g", "scroll_top", show=False),
        Binding("G", "scroll_bottom", show=False),
    ]


class RunsScreen(Screen[None]):
    """All runs."""

    BINDINGS = [
        Binding("slash", "search", "filter", key_display="/"),
        Binding("s", "sort", "sort"),
        Binding("r", "running", "running only"),
        Binding("escape", "leave", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._order, self._only_running = ACTIVITY, False
        self._rows: list[Row] = []
        self._columns: list[Column] = []
        self._cells: dict[tuple[str, str], Text] = {}
        self._head = Text()
        self._shown: tuple[Row | None, int] = (None, 0)

    @property
    def _top(self) -> TopApp:
        return cast("TopApp", self.app)

    @property
    def _table(self) -> RunsTable:
        return self.query_one(RunsTable)

    def compose(self) -> ComposeResult:
        """A line about the store, the table, the run at the cursor, the keys."""
        yield Static(id="head", markup=False)
        yield RunsTable(cursor_type="row", cell_padding=GAP // 2)
        yield Static(id="nothing", markup=False)
        yield Static(id="pane", markup=False)
        yield Input(placeholder="name, tag or key=value", id="search", select_on_focus=False)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Shows what is known."""
        self._table.focus()
        self.show(self._top.last)

    def on_resize(self, event: events.Resize) -> None:
        """Shows what there is room for."""
        self.show(self._top.last)

    # -- what is shown -----------------------------------------------------------------------------------------------

    def show(self, look: Look) -> None:
        """Shows how the store is."""
        search = self.query_one("#search", Input).value
        rows = chosen(look.rows, self._order, search, self._only_running)
        columns = columns_within(self.size.width - 1)
        self._fill(rows, columns, look.at)
        nothing = self.query_one("#nothing", Static)
        self._table.display, nothing.display = bool(rows), not rows
        if not rows:
            nothing.update(self._why_nothing(look))
        self.tick()
        self._show_pane()

    def _why_nothing(self, look: Look) -> str:
        if look.rows:
            return "no run is like that; Escape shows all"
        return f"{nothing_yet(self._top.store)}\nwhat is written shows up here" if look.at else "looking …"

    def _fill(self, rows: list[Row], columns: list[Column], now: float) -> None:
        """Writes the cells that have changed; all of them where runs or columns are others."""
        ids = [str(row.info.id) for row in rows]
        is_same = columns == self._columns and ids == [str(row.info.id) for row in self._rows]
        cells = {(id, c.key): c.cell(row, now, c.width) for id, row in zip(ids, rows, strict=True) for c in columns}
        table, at = self._table, self._at()
        self._rows = rows
        if is_same:
            for key, cell in cells.items():
                if cell != self._cells.get(key):
                    table.update_cell(*key, cell)
        else:
            table.clear(columns=True)
            for column in columns:
                table.add_column(Text(column.title), width=column.width, key=column.key)
            for id in ids:
                table.add_row(*(cells[id, column.key] for column in columns), key=id)
            if at is not None and str(at.info.id) in ids:
                table.move_cursor(row=ids.index(str(at.info.id)), animate=False)
        self._columns, self._cells = columns, cells

    def tick(self) -> None:
        """Says how many runs there are, and what is wrong with the store."""
        look, trouble = self._top.last, self._top.trouble()
        text = Text(no_wrap=True, overflow="ellipsis").append("midflight top", "bold")
        text.append(f"  {self._top.store}", "dim")
        counts = Counter(row.state for row in look.rows)
        for state, (sign, style) in STATES.items():
            if counts[state]:
                text.append(f"  {sign} {counts[state]:,} {state}", style)
        waiting = sum(row.pulse.num_unfinished for row in look.rows if row.state == "running")
        told = [f"{waiting} evaluation{'' if waiting == 1 else 's'} open"] if waiting else []
        told += [f"sorted by {self._order}"] if self._order != ACTIVITY else []
        told += [f"{len(self._rows):,} shown"] if len(self._rows) < len(look.rows) else []
        told += [f"reading {look.waiting:,} more"] if look.waiting else []
        text.append("".join(f"  {one}" for one in told), "dim")
        if trouble:
            text.append(f"\n{trouble}", "red")
        if text != self._head:  # what is the same is not sent again
            self._head = text
            self.query_one("#head", Static).update(text)

    def _show_pane(self) -> None:
        pane, row = self.query_one("#pane", Static), self._at()
        pane.display = row is not None and self.size.height >= LOWEST
        shown = (row, self.size.width)
        if row is not None and pane.display and shown != self._shown:
            self._shown = shown
            pane.update(summary(row, time.time(), self.size.width - 2))

    def _at(self) -> Row | None:
        """The run at the cursor."""
        at = self._table.cursor_row
        return self._rows[at] if 0 <= at < len(self._rows) else None

    # -- keys --------------------------------------------------------------------------------------------------------

    def on_data_table_row_highlighted(self) -> None:
        """The cursor has moved."""
        self._show_pane()

    def on_data_table_row_selected(self) -> None:
        """Opens the run at the cursor."""
        if (row := self._at()) is not None:
            self._top.open_run(row.info.id)

    def neighbour(self, run: int, by: int) -> int:
        """The run so many below another one; the cursor goes with it."""
        ids = [row.info.id for row in self._rows]
        if run not in ids:
            return run
        at = max(0, min(len(ids) - 1, ids.index(run) + by))
        self._table.move_cursor(row=at, animate=False)
        return ids[at]

    def action_search(self) -> None:
        """Asks for a text that runs are to have."""
        search = self.query_one("#search", Input)
        search.add_class("asked")
        search.focus()

    def on_input_changed(self) -> None:
        """Shows the runs that have it."""
        self.show(self._top.last)

    def on_input_submitted(self) -> None:
        """Goes back to the table, as it is filtered."""
        self.query_one("#search", Input).set_class(bool(self.query_one("#search", Input).value), "asked")
        self._table.focus()

    def action_leave(self) -> None:
        """Shows all runs."""
        search = self.query_one("#search", Input)
        search.value = ""
        search.remove_class("asked")
        self._only_running = False
        self._table.focus()
        self.show(self._top.last)

    def action_sort(self) -> None:
        """Takes the next order."""
        self._order = next_order(self._order)
        self.show(self._top.last)

    def action_running(self) -> None:
        """Shows those that run, or all."""
        self._only_running = not self._only_running
        self.show(self._top.last)
