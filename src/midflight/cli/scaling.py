"""`midflight scaling`: the same training on more workers."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from midflight.cli._options import JsonOption, StoreOption, path_option, print_json
from midflight.errors import ConfigError, shorten

MOST_WORKERS = 1_000_000_000


def scaling(
    runs: Annotated[list[str], typer.Argument(help="Numbers, names or project/names of runs.")],
    to: Annotated[
        str, typer.Option("--to", help="step=N, SERIES=value or task/metric=value. Default: steps all have logged.")
    ] = "",
    nodes: Annotated[
        list[str] | None, typer.Option("--nodes", help="run=N: workers of a run. Default: ranks that it recorded.")
    ] = None,
    by: Annotated[str, typer.Option("--by", help="Config key that says how many workers a run has.")] = "",
    at: Annotated[
        list[int] | None,
        typer.Option("--at", min=1, max=MOST_WORKERS, help="Workers to predict for. Default: twice and four times."),
    ] = None,
    out: Annotated[Path | None, path_option("--out", "-o", help="Picture: .png, .svg or .pdf.")] = None,
    store: StoreOption = None,
    json_: JsonOption = False,
) -> int:
    """Compare runs with different numbers of workers: speed-up, efficiency, serial fraction, predicted times."""
    from midflight.analyse.evidence import find_run
    from midflight.analyse.scaling import scaling_of
    from midflight.cli._options import existing_store
    from midflight.show.scaling import draw_scaling, scaling_tables
    from midflight.show.tables import console

    opened = existing_store(store)
    chosen = [find_run(opened, name) for name in runs]
    found = scaling_of(opened, chosen, counts=_counts(nodes or []), by=by, goal=to)
    law = found.law
    wanted = at or ([2 * law.counts[1], 4 * law.counts[1]] if law else [])
    predictions = [law.at(count) for count in dict.fromkeys(wanted)] if law else []
    if out is not None:
        draw_scaling(found, predictions, out)
        told = f"midflight: {shorten(str(out))}: runs: {len(found.timings)}"
        console(stderr=True).print(told, markup=False, soft_wrap=True)
    if json_:
        print_json({**dataclasses.asdict(found), "predictions": list(map(dataclasses.asdict, predictions))})
        return 0
    for table in scaling_tables(found, predictions):
        console().print(table)
    return 0


def _counts(options: list[str]) -> dict[str, int]:
    """Workers by run, from ``run=N``."""
    found = {}
    for option in options:
        name, _, count = option.rpartition("=")
        if not name or not count.isascii() or not count.isdecimal() or not 0 < len(count) < 10 or int(count) < 1:
            raise ConfigError("--nodes", got=option, allowed="run=N, N a whole number from 1")
        found[name] = int(count)
    return found
