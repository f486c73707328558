"""`midflight top`: the running jobs on a terminal, live."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from midflight.cli._options import ProjectOption, StoreOption

if TYPE_CHECKING:
    from midflight.store import Store

LONGEST_S = 3600.0


def top(
    store: StoreOption = None,
    project: ProjectOption = None,
    every: Annotated[
        float, typer.Option("--every", min=0.2, max=LONGEST_S, help="Seconds between two looks at the store.")
    ] = 2.0,
    once: Annotated[
        bool, typer.Option("--once", help="Print one table, and end; so it is where standard output is no terminal.")
    ] = False,
) -> int:
    """Show runs on a terminal, live: how far, how good, what is wrong; keys sort, filter and open a run."""
    from midflight.errors import StoreError, missing_extra
    from midflight.show.tables import console
    from midflight.store import default_url, open_store

    def read_only() -> Store:
        return open_store(store, create=False, read_only=True)

    read_only().close()  # what is not there is told before the screen is taken
    out, name = console(), store or default_url()
    if once or not out.is_terminal or os.environ.get("TERM", "dumb") in ("dumb", "unknown", ""):
        from midflight.panel.top.feed import Feed
        from midflight.panel.top.table import MOST_RUNS, runs_table

        look = Feed(read_only, project, background=False, most_runs=MOST_RUNS).look()
        if look.error:
            raise StoreError(look.error)
        out.print(runs_table(look, out.width, name))
        return 0
    try:
        from midflight.panel.top.app import run_top
    except ImportError as error:
        raise missing_extra("midflight top on a terminal (--once does without)", "top", error) from error
    run_top(read_only, project, every, name)
    return 0
