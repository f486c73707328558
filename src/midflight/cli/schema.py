"""`midflight schema`: what the JSON looks like that other tools read."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer


def schema(
    name: Annotated[str, typer.Argument(help="report, verdict, or task: what a task file may say.")] = "report",
    example: Annotated[bool, typer.Option("--example", help="Print a report instead, made on the spot.")] = False,
) -> int:
    """Print the JSON Schema of a report, a verdict or a task file, or an example of a report."""
    from midflight.catalog import unknown
    from midflight.errors import ConfigError
    from midflight.schema import report_schema, verdict_schema

    schemas = {"report": report_schema, "verdict": verdict_schema, "task": _task_schema}
    if name not in schemas:
        raise unknown("schemas", name, sorted(schemas))
    if example and name != "report":
        hint = "`midflight catalog arc` prints a task" if name == "task" else ""
        raise ConfigError("--example", got=name, allowed="report", hint=hint)
    print(_example() if example else json.dumps(schemas[name](), indent=2))
    return 0


def _task_schema() -> dict[str, Any]:
    """What a task file may say: the fields of a spec; its name is the file's, and `extends` brings the rest."""
    from midflight.tasks import TaskSpec

    schema = TaskSpec.model_json_schema()
    del schema["required"]
    schema["properties"]["extends"] = {"type": "string", "description": "The ready-made task that this one changes."}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "anyOf": [{"required": ["source", "metrics"]}, {"required": ["extends"]}],
    }


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
