"""`midflight schema`: what the JSON looks like that other tools read."""

from __future__ import annotations

import json
from typing import Annotated

import typer


def schema(
    name: Annotated[str, typer.Argument(help="report")] = "report",
    example: Annotated[bool, typer.Option("--example", help="Print an example instead, made on the spot.")] = False,
) -> int:
    """Print the JSON Schema of a report, or an example that it validates."""
    from midflight.catalog import unknown
    from midflight.schema import SCHEMAS

    if name not in SCHEMAS:
        raise unknown("schemas", name, sorted(SCHEMAS))
    print(_example() if example else json.dumps(SCHEMAS[name](), indent=2))
    return 0


def _example() -> str:
    """The report of a real evaluation, of a scripted model on eight sums."""
    from midflight.engines import Fake
    from midflight.pipeline import evaluate_checkpoint
    from midflight.records import Progress
    from midflight.schema import report_to_json
    from midflight.tasks import Task

    rows = [{"a": a, "b": 3, "kind": "small" if a < 5 else "large"} for a in range(8)]
    task = Task(
        "sums", rows, prompt="{{ a }} + {{ b }} =", target="a + b", metrics=["exact_match"], slices={"kind": "kind"}
    )
    engine = Fake(answers={f"{a:06d}": str(a + 3 if a % 3 else 0) for a in range(8)}, fail=["000007"])
    return report_to_json(evaluate_checkpoint(task, engine, progress=Progress(100, 0.5)), indent=2)
