"""Options that several commands share."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer

from midflight.errors import ConfigError, MidflightError, TaskError, is_text, shorten
from midflight.records import MAX_STEP

if TYPE_CHECKING:
    from midflight.sequential import SequentialRule
    from midflight.store import Store
    from midflight.tasks import Task

StoreOption = Annotated[
    str | None, typer.Option("--store", help="URL or file of the store. Default: $MIDFLIGHT_STORE or midflight.db.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON on standard output, for machines.")]
ProjectOption = Annotated[str | None, typer.Option("--project", help="Only this project.")]

BaselineOption = Annotated[
    str | None,
    typer.Option(
        "--baseline",
        help="With --margin: end as soon as it is decided how this compares with RUN, RUN@STEP, PROJECT/RUN@STEP, or"
        " start, the first evaluation of its own run.",
    ),
]
MarginOption = Annotated[
    float | None, typer.Option("--margin", help="With --baseline: difference that is tolerated, or asked for.")
]
ClaimOption = Annotated[str, typer.Option("--claim", help="With --baseline: not_worse or better, by the margin.")]

MAX_SEED = 1 << 63


def path_argument(help: str) -> Any:
    """An argument that is a path."""
    return typer.Argument(help=help, parser=_path)


def path_option(*names: str, help: str) -> Any:
    """An option that is a path."""
    return typer.Option(*names, help=help, parser=_path, metavar="<path>")


def _path(text: str) -> Path:
    """A path of the command line; an empty text would be the folder that one is in."""
    if not text:
        raise typer.BadParameter("an empty text is no path")
    return Path(text)


def checked_step(step: int | None, what: str = "--step") -> int | None:
    """A step that the store can keep.

    Raises:
        ConfigError: If it is none.
    """
    if step is not None and not 0 <= step <= MAX_STEP:
        raise ConfigError(what, got=step, allowed=f"a whole number from 0 to {MAX_STEP}")
    return step


def checked_seed(seed: int) -> int:
    """A seed that every generator of random numbers takes.

    Raises:
        ConfigError: If it is none.
    """
    if not 0 <= seed < MAX_SEED:
        raise ConfigError("--seed", got=seed, allowed=f"a whole number from 0 to {MAX_SEED - 1}")
    return seed


def print_json(value: Any) -> None:
    """Prints plain values as JSON, for machines."""
    from midflight.schema import to_json

    text = to_json(value, indent=2)
    if (sys.stdout.encoding or "").lower().replace("-", "") != "utf8":
        text = "".join(c if c.isascii() else json.dumps(c)[1:-1] for c in text)
    sys.stdout.write(text + "\n")


def checked_model(model: str) -> str:
    """A model as it may be named on the command line.

    Raises:
        ConfigError: If its name is no valid Unicode, its URL is none, or there is no such file.
    """
    if not model or not is_text(model):
        raise ConfigError("model", got=model, allowed="a name in valid Unicode")
    kind, _, rest = model.partition(":")
    if kind == "openai":
        url = rest.partition("#")[0]
        try:
            _ = urlsplit(url).port
        except ValueError as error:
            raise ConfigError("model", got=model, allowed="openai:http://host:port/v1", hint=str(error)) from None
    elif kind != "fake":
        try:
            found = Path(model).expanduser().exists()
        except (OSError, RuntimeError) as error:  # a name too long for a file, or no such home
            raise ConfigError("model", got=model, allowed="a folder or file", hint=str(error)) from None
        if not found:
            raise ConfigError(
                f"model {shorten(model)!r}: no such file or folder",
                allowed="a model folder, a .gguf file, openai:URL#model, or fake:text",
            )
    return model


def load_tasks(names: list[str], limit: int | None, seed: int) -> list[Task]:
    """Tasks by name, with their items read: what is broken shows before a model is loaded.

    Raises:
        MidflightError: If one cannot be loaded.
    """
    from midflight.tasks import load_task

    tasks = []
    for name in names:
        shown = f"task {shorten(name, 100)}"
        try:
            task = load_task(name, limit=limit, seed=seed)
            _ = task.items
        except RecursionError:
            raise TaskError(f"{shown}: its files are nested too deeply, or extend each other in a circle") from None
        except MidflightError:
            raise
        except (ValueError, OSError) as error:  # what parsers raise beside their own errors: numbers of 5,000 digits
            raise TaskError(f"{shown}: cannot be read: {shorten(str(error))}") from None
        tasks.append(task)
    return tasks


def existing_store(url: str | None, read_only: bool = True) -> Store:
    """The store to read from; it has to be there."""
    from midflight.store import open_store

    return open_store(url, create=False, read_only=read_only)


def rules_for(
    tasks: list[Task], baseline: str | None, margin: float | None, claim: str, seed: int
) -> dict[str, SequentialRule]:
    """The rule that may end the evaluation of each task early; none without a baseline.

    Raises:
        ConfigError: If there is a margin without a baseline or the other way round, or a value is wrong.
    """
    from midflight.config import build
    from midflight.sequential import SequentialRule

    if (baseline is None) != (margin is None):
        raise ConfigError("--baseline and --margin", got=(baseline, margin), allowed="both, or neither")
    if baseline is None:
        return {}
    given = {"baseline": baseline, "margin": margin, "claim": claim, "seed": seed}
    return {task.name: build(SequentialRule, {**given, "task": task.name}, "--baseline") for task in tasks}
