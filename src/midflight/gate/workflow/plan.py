"""A workflow's file: TOML becomes frozen, strict steps, in order."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from midflight import catalog
from midflight.config import build, read_toml
from midflight.credentials import variables_in
from midflight.errors import ConfigError, UnknownKeyError
from midflight.gate.workflow.steps.base import Step

STEPS = "midflight.gate.workflow.steps"


@dataclass(frozen=True)
class Workflow:
    """What is to be done, in order.

    Attributes:
        name: Its name: `name` in the file, or the file's own.
        path: The file.
        digest: SHA-256 of the file.
        steps: The steps.
        variables: Environment variables that it refers to, whose values are secrets.
    """

    name: str
    path: Path
    digest: str
    steps: tuple[Step, ...]
    variables: frozenset[str]

    @property
    def judges(self) -> bool:
        """Whether a step of it makes the verdict."""
        return any(step.makes_verdict for step in self.steps)


def load_workflow(path: str | Path) -> Workflow:
    """The workflow in a TOML file.

    Args:
        path: The file: ``name`` and a list of tables ``[[steps]]``, each with a ``kind``.

    Raises:
        ConfigError: If the file cannot be read, or a step is wrong; names file, step and field.
    """
    path = Path(path).absolute()
    fields = read_toml(path)
    name = fields.pop("name", path.stem)
    tables = fields.pop("steps", None)
    if fields:
        raise ConfigError(f"{path}: unknown key {next(iter(fields))!r}", allowed="name, steps")
    if not isinstance(name, str) or not name:
        raise ConfigError(f"{path}: name", got=name, allowed="a text")
    if not isinstance(tables, list) or not tables:
        raise ConfigError(f"{path}: no steps", allowed="tables [[steps]], at least one")
    steps = tuple(_step(table, f"{path}: steps[{number}]") for number, table in enumerate(tables, start=1))
    _check_order(steps, path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    variables = variables_in([step.model_dump(mode="json") for step in steps])
    return Workflow(name, path, digest, steps, frozenset(variables))


def _step(table: Any, origin: str) -> Step:
    if not isinstance(table, Mapping):
        raise ConfigError(origin, got=table, allowed="a table")
    kind = table.get("kind")
    if not isinstance(kind, str):
        raise ConfigError(f"{origin}: kind", got=kind, allowed=", ".join(catalog.keys(STEPS)))
    try:
        found = catalog.load(STEPS, kind, Step)  # type: ignore[type-abstract]
    except UnknownKeyError as error:
        raise ConfigError(f"{origin}: kind: {error.message}") from None
    return build(found, {"name": kind, **table}, f"{origin} ({table.get('name', kind)})")


def _check_order(steps: tuple[Step, ...], path: Path) -> None:
    names = [step.name for step in steps]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(f"{path}: two steps are called {twice!r}", hint="give each a name of its own")
    judges = [number for number, step in enumerate(steps) if step.makes_verdict]
    if len(judges) > 1:
        raise ConfigError(f"{path}: more than one step makes a verdict: {', '.join(names[n] for n in judges)}")
    for step in steps[: judges[0]] if judges else ():
        if step.when != "always":
            raise ConfigError(
                f"{path}: step {step.name!r} waits for a verdict that a later step makes",
                hint='move it behind that step, or say when = "always"',
            )
