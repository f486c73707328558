"""`midflight demo`: a real training run, evaluated in flight."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from midflight.cli._options import path_option


def demo(
    out: Annotated[Path, path_option("--out", "-o", help="Folder for store, picture and reports.")] = Path(
        "midflight-demo"
    ),
    seeds: Annotated[int, typer.Option("--seeds", min=1, max=10, help="Seeds of each strategy.")] = 2,
    steps: Annotated[
        int | None, typer.Option("--steps", min=1, help="GRPO steps of each run. Default: what fits.")
    ] = None,
    serve: Annotated[bool, typer.Option("--serve", help="Show it in a browser, live while it trains.")] = False,
) -> int:
    """Train a small model with GRPO under three strategies, evaluate it in flight, and show how it did (4 minutes)."""
    from midflight.demo import run_demo

    return run_demo(out, seeds=seeds, steps=steps, serve=serve)
