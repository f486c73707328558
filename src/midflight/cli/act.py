"""`midflight act`: what follows from a verdict."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from midflight.cli._options import JsonOption, StoreOption, path_argument, path_option, print_json
from midflight.errors import ConfigError, shorten

if TYPE_CHECKING:
    from midflight.records import Execution, Verdict

LONGEST_S = 30 * 86_400


def act(
    workflow: Annotated[Path, path_argument(help="The workflow's TOML file.")],
    verdict: Annotated[
        Path | None,
        path_option("--verdict", help="What `midflight gate` said, as JSON. Not if a step asks it."),
    ] = None,
    checkpoint: Annotated[Path | None, path_option("--checkpoint", help="Checkpoint that it is about.")] = None,
    run: Annotated[str, typer.Option("--run", help="Run of the checkpoint. Default: the verdict's.")] = "",
    project: Annotated[str, typer.Option("--project", help="Project. Default: the verdict's, or `default`.")] = "",
    assume_done: Annotated[
        list[str] | None, typer.Option("--assume-done", help="Step that was cut off and did take effect; repeat it.")
    ] = None,
    run_again: Annotated[
        list[str] | None, typer.Option("--run-again", help="Step that was cut off and is to be run again; repeat it.")
    ] = None,
    wait: Annotated[float, typer.Option("--wait", help="Seconds to wait for another process that is at it.")] = 600.0,
    store: StoreOption = None,
    json_: JsonOption = False,
) -> int:
    """Carry out a workflow, once: the same command goes on where a killed one stopped, and does nothing twice.

    Exit code 0: all is done; 1: a step failed, or the verdict is fail; 3: the verdict is inconclusive.
    """
    from midflight.gate.workflow import WorkflowExecutor
    from midflight.show.tables import console

    if not 0 <= wait <= LONGEST_S:
        raise ConfigError("--wait", got=wait, allowed=f"seconds from 0 to {LONGEST_S:,}")
    out = console(stderr=json_)
    executor = WorkflowExecutor(
        workflow, store, tell=lambda text: out.print(f"midflight: {shorten(text, 1000)}", markup=False, soft_wrap=True)
    )
    execution = executor.run(
        checkpoint,
        _read(verdict) if verdict is not None else None,
        project=project,
        run=run,
        wait_s=wait,
        assume_done=assume_done or (),
        run_again=run_again or (),
    )
    if json_:
        print_json(dataclasses.asdict(execution))
    return _exit_code(execution, verdict)


def _read(path: Path) -> Verdict:
    from midflight.schema import verdict_from_json

    try:
        text = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"--verdict {path}: {error.strerror or error}") from None
    try:
        return verdict_from_json(text)
    except ConfigError as error:
        raise ConfigError(f"--verdict {path}: {error.message}") from None


def _exit_code(execution: Execution, verdict: Path | None) -> int:
    """0 = done; 1 = a step failed; else that of the verdict."""
    from midflight.schema import verdict_from_json

    failed = [step for step in execution.steps if step.status == "failed"]
    told = [f"step {step.name!r} failed: {step.reason}" for step in failed if repr(step.name) not in execution.reason]
    for text in [*told, execution.reason]:
        if text:
            print(f"midflight: {execution.workflow}: {shorten(text, 2000)}", file=sys.stderr)
    if failed or execution.status != "done":
        return 1
    made = next((step.result["verdict"] for step in execution.steps if "verdict" in step.result), None)
    judged = _read(verdict) if verdict is not None else verdict_from_json(made) if made is not None else None
    if judged is None or not judged.exit_code:
        return 0
    print(f"midflight: {execution.workflow}: nothing failed; the verdict is {judged.outcome}", file=sys.stderr)
    return judged.exit_code
