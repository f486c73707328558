"""`midflight report`: the panel's pages of some runs as one file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from midflight.cli._options import StoreOption, path_option


def report(
    runs: Annotated[list[str], typer.Argument(help="Runs by name, number or project/name.")],
    out: Annotated[Path, path_option("--out", "-o", help="The file.")] = Path("report.html"),
    title: Annotated[str, typer.Option("--title", help="Its title. Default: names of the runs.")] = "",
    store: StoreOption = None,
) -> int:
    """Write runs as one HTML file that opens in any browser, without a server or a network."""
    from midflight.analyse.evidence import find_run
    from midflight.cli._options import existing_store
    from midflight.panel.report import write_report
    from midflight.show.lines import number, say

    opened = existing_store(store)
    size = write_report(opened, [find_run(opened, name) for name in runs], out, title)
    say(f"{out}: {number(size, 3)}B")
    return 0
