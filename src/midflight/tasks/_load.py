"""How a name, a file or a task object becomes a task.

gsm8k                         ready-made
gsm8k@data/gsm8k_test.jsonl   ready-made, rows from a local copy
my_task.toml                  a task file; ``extends = "gsm8k"`` changes a ready-made one
my_tasks.py:my_task           a Python object, or a function that returns one
reasoning_gym:chain_sum       any generator of reasoning-gym
"""

from __future__ import annotations

import importlib.util
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from midflight import catalog
from midflight.config import merge, read_toml
from midflight.errors import ConfigError, TaskError
from midflight.tasks._task import Task

PACKAGE = "midflight.tasks"
GYM = "reasoning_gym"


def load_task(task: str | Path | Task) -> Task:
    """The task that a name, a path or an object stands for.

    Args:
        task: See the module's docstring.

    Raises:
        UnknownKeyError: If there is no such task; says what is near.
        ConfigError: If the file says something unknown or wrong.
        TaskError: If the task cannot be built.
    """
    if isinstance(task, Task):
        return task
    name, local = str(task), ""
    if not Path(name).is_file():
        name, _, local = name.partition("@")
    if ".py:" in name:
        return _from_python(name)
    fields = _fields(name)
    if local:
        fields["source"] = _local_source(local, fields["source"])
    return Task(fields.pop("name"), fields.pop("source"), **fields)


def _fields(name: str) -> dict[str, Any]:
    """What a task says: the fields of its spec."""
    if name.startswith(f"{GYM}:"):
        return _gym_fields(name.removeprefix(f"{GYM}:"))
    if name in ready_made():
        return {"name": name, **_ready_made_file(name)}
    path = Path(name).expanduser()
    if path.suffix == ".toml":
        return _from_file(path)
    raise catalog.unknown("tasks", name, [*ready_made(), f"{GYM}:<name>"])


def _ready_made_file(name: str) -> dict[str, Any]:
    return tomllib.loads((catalog.folder(PACKAGE) / f"{name}.toml").read_text(encoding="utf-8"))


def ready_made() -> list[str]:
    """Names of the tasks that come with Midflight."""
    return [key for key in catalog.keys(PACKAGE, ".toml") if key != GYM]


def _from_file(path: Path) -> dict[str, Any]:
    fields = read_toml(path)
    base = fields.pop("extends", None)
    for table in (fields.get("source"), fields.get("fewshot", {}).get("source")):
        if table and "path" in table and (path.parent / table["path"]).exists():
            table["path"] = str(path.parent / table["path"])
    if base is not None:
        if not isinstance(base, str):
            raise ConfigError(f"{path}: extends", got=base, allowed="the name of a task")
        source = fields.pop("source", None)
        fields = merge({**_fields(base), "name": path.stem}, fields)
        if source is not None:  # another kind of source takes none of the old one's options
            old = fields["source"]
            fields["source"] = merge(old, source) if source.get("kind", old.get("kind")) == old.get("kind") else source
    if "source" not in fields:
        raise TaskError(f"{path}: [source] is missing", hint="say where the rows come from, or `extends` a task")
    return {"name": path.stem, **fields}


def _local_source(local: str, source: Mapping[str, Any]) -> dict[str, Any]:
    """A file, or a folder with a copy of the Hub dataset that the task names."""
    path = Path(local).expanduser()
    if path.is_file():
        return {"kind": "file", "path": str(path)}
    if path.is_dir() and source["kind"] == "hub":
        return {**source, "path": str(path)}
    raise TaskError(f"{local}: no such file" + ("" if path.is_dir() else " or folder"))


def _gym_fields(name: str) -> dict[str, Any]:
    base = _ready_made_file(GYM)
    return {**base, "name": f"{GYM}:{name}", "source": {**base["source"], "name": name}}


def _from_python(path: str) -> Task:
    """The task that a Python file holds under a name."""
    file, _, name = path.rpartition(":")
    spec = importlib.util.spec_from_file_location(Path(file).stem, file)
    if spec is None or spec.loader is None or not Path(file).is_file():
        raise TaskError(f"{file}: no such Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = getattr(module, name, None)
    task = found() if callable(found) else found
    if not isinstance(task, Task):
        raise TaskError(f"{path}: not a Task, nor a function that returns one", got=found)
    return task
