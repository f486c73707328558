"""`midflight runs`: what was trained and evaluated."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from midflight.cli._options import JsonOption, ProjectOption, StoreOption, print_json


def runs(
    store: StoreOption = None,
    project: ProjectOption = None,
    last: Annotated[int, typer.Option("--last", "-n", min=1, help="Runs at most, newest first.")] = 20,
    json_: JsonOption = False,
) -> int:
    """List runs, newest first, with their last evaluations."""
    from midflight.analyse.evidence import runs_of
    from midflight.cli._options import existing_store
    from midflight.show.state import view_listed
    from midflight.show.tables import console, runs_table

    opened = existing_store(store)
    known = runs_of(opened, project)
    shown = [view_listed(opened, run) for run in known[:last]]
    if json_:
        print_json([{**dataclasses.asdict(view.info), "state": view.state, "damage": view.damage} for view in shown])
        return 0
    console().print(runs_table(shown))
    if len(known) > last:
        console().print(f"{last} of {len(known)} runs; --last N shows more")
    return 0
