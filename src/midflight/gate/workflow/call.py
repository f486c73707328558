"""Calls a function in a process of its own, ``python -m midflight.gate.workflow.call``, which a time limit can kill.

Not the workers of `midflight.workers`: those are for short functions on hostile text, with little memory and no
accelerator. What releases a model may need both, prints what a person wants to read, and is called once.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from midflight.errors import StepError, shorten
from midflight.gate.workflow.processes import run_program
from midflight.gate.workflow.steps.base import StepContext
from midflight.schema import to_json, verdict_from_json, verdict_to_json

RESULT_BYTES = 1 << 18
"""Bytes of JSON that a function's result may have."""


def call_function(entry: str, context: StepContext, arguments: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
    """What a function gives: a dict as it is, anything else as ``{"value": …}``.

    Args:
        entry: ``package.module:function``.
        context: Its first argument.
        arguments: Its keyword arguments, plain enough for JSON; secrets by name, since they are written to a file.
        timeout_s: Seconds that it may take; then its process group is killed.

    Raises:
        StepError: If it failed, took too long, or gave what is no JSON.
    """
    with tempfile.TemporaryDirectory(prefix="midflight-", ignore_cleanup_errors=True) as folder:
        call, result = Path(folder) / "call.json", Path(folder) / "result.json"
        call.write_text(json.dumps({"entry": entry, "context": _packed(context), "arguments": dict(arguments)}))
        finished = run_program(
            [sys.executable, "-P", "-m", "midflight.gate.workflow.call", str(result)],
            timeout_s=timeout_s,
            environment=context.variables(),
            folder=context.folder,
            input=call,
        )
        if finished.code:
            raise finished.failure(entry)
        if not result.is_file() or result.stat().st_size > RESULT_BYTES:
            raise StepError(f"{entry}: its result is missing, or longer than {RESULT_BYTES:,} bytes of JSON")
        value = json.loads(result.read_bytes())
    found = value if isinstance(value, dict) else {} if value is None else {"value": value}
    return {**found, "output": finished.output}


def _packed(context: StepContext) -> dict[str, Any]:
    values = {field.name: getattr(context, field.name) for field in dataclasses.fields(context)}
    verdict = verdict_to_json(context.verdict) if context.verdict else None
    paths = {name: values[name] and str(values[name]) for name in ("folder", "checkpoint")}
    return {**values, **paths, "state": dict(context.state), "verdict": verdict}


def _unpacked(values: dict[str, Any]) -> StepContext:
    checkpoint, verdict = values["checkpoint"], values["verdict"]
    found = {
        **values,
        "folder": Path(values["folder"]),
        "checkpoint": Path(checkpoint) if checkpoint else None,
        "verdict": verdict_from_json(verdict) if verdict else None,
    }
    return StepContext(**found)


def main() -> None:
    """Reads a call on standard input and writes its result into a file."""
    call = json.loads(sys.stdin.buffer.read())
    module, _, name = call["entry"].partition(":")
    if not module.startswith("midflight."):
        sys.path.insert(0, os.getcwd())  # the workflow's folder
    try:
        value = getattr(importlib.import_module(module), name)(_unpacked(call["context"]), **call["arguments"])
        Path(sys.argv[1]).write_text(to_json(value), encoding="utf-8")
    except Exception as error:  # the user's code may raise anything; the last line says what, in one
        traceback.print_exc()
        print(f"{type(error).__name__}: {shorten(str(error), 1000)}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
