"""`midflight runs`: what was trained and evaluated."""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import Annotated

import typer

from midflight.cli._options import JsonOption, ProjectOption, StoreOption


def runs(
    store: StoreOption = None,
    project: ProjectOption = None,
    last: Annotated[int, typer.Option("--last", "-n", min=1, help="Runs at most, newest first.")] = 20,
    json_: JsonOption = False,
) -> int:
    """List runs, newest first, with their last evaluations."""
    from midflight.cli._options import existing_store
    from midflight.show.tables import console, runs_table

    opened = existing_store(store)
    known = opened.runs(project)
    shown = known[:last]
    if json_:
        json.dump([dataclasses.asdict(run) for run in shown], sys.stdout, indent=2, default=str)
        sys.stdout.write("\n")
        return 0
    console().print(runs_table([(run, opened.heads(run.id), opened.reports(run.id)) for run in shown]))
    if len(known) > last:
        console().print(f"{last} of {len(known)} runs; --last N shows more")
    return 0
