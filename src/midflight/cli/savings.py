"""`midflight savings`: what it would have been worth to stop in time."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from midflight.cli._logs import of_each, say_unread
from midflight.cli._options import JsonOption, StoreOption, path_option, print_json


def savings(
    runs: Annotated[list[str], typer.Argument(help="Log files, or numbers, names or project/names of runs.")],
    on: Annotated[str, typer.Option("--on", help="Severity from which a finding stops a run: stop or warn.")] = "stop",
    out: Annotated[Path | None, path_option("--out", "-o", help="Draw it: .png, .svg or .pdf.")] = None,
    store: StoreOption = None,
    json_: JsonOption = False,
) -> int:
    """Tell in hindsight when runs would have been stopped, the compute that would have saved, and what it had cost."""
    from midflight.analyse.history import histories
    from midflight.analyse.savings import savings_of, total_of
    from midflight.errors import ConfigError
    from midflight.show.savings import draw_savings, savings_table
    from midflight.show.tables import console

    if on not in ("stop", "warn"):
        raise ConfigError("--on", got=on, allowed="stop or warn")
    found, unread = of_each(runs, lambda name: histories([name], store))
    rows = [savings_of(history, on) for history in found]  # type: ignore[arg-type]
    total = total_of(rows)
    if out is not None:
        draw_savings(rows, total, out)
    if json_:
        print_json({"runs": list(map(dataclasses.asdict, rows)), "total": dataclasses.asdict(total)})
    else:
        console().print(savings_table(rows, total, on))  # type: ignore[arg-type]
    say_unread(unread)
    return 0
