"""`midflight export`: runs as tables in files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from midflight.cli._options import StoreOption, path_option


def export(
    runs: Annotated[list[str], typer.Argument(help="Runs by name, number or project/name.")],
    out: Annotated[Path, path_option("--out", "-o", help="Folder of the files.")],
    format_: Annotated[str, typer.Option("--format", "-f", help="parquet, csv or jsonl.")] = "parquet",
    store: StoreOption = None,
) -> int:
    """Write points, estimates, scores, outputs and findings of runs as Parquet, CSV or JSON lines."""
    from midflight.analyse.evidence import find_run
    from midflight.cli._options import existing_store
    from midflight.show.export import export as write_tables
    from midflight.show.lines import say

    opened = existing_store(store)
    chosen = {run.id: run for run in (find_run(opened, name) for name in runs)}
    counts = write_tables(opened, list(chosen.values()), out, format_)  # type: ignore[arg-type]
    for table, count in counts.items():
        say(f"{out / table}.{format_}: {count:,} rows")
    return 0
