"""How a name, a file or a task object becomes a task.

gsm8k                         ready-made
gsm8k@data/gsm8k_test.jsonl   ready-made, rows from a local copy: a file, or a folder as the Hub or `datasets` has it
my_task.toml                  a task file; ``extends = "gsm8k"`` changes a ready-made one
my_tasks.py:my_task           a Python object, or a function that returns one
reasoning_gym:chain_sum       any generator of reasoning-gym
"""

from __future__ import annotations

import importlib.util
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from midflight import catalog
from midflight.config import merge, read_toml
from midflight.errors import ConfigError, TaskError
from midflight.tasks._task import Task
from midflight.tasks.sources.file import FORMATS
from midflight.tasks.sources.hub import SAVED_TO_DISK

PACKAGE = "midflight.tasks"
GYM = "reasoning_gym"


def load_task(task: str | Path | Task, *, limit: int | None = None, seed: int = 0) -> Task:
    """The task that a name, a path or an object stands for.

    Args:
        task: See the module's docstring.
        limit: Items at most, drawn at random; None = as many as the task says.
        seed: Fixes which ones.

    >>> load_task("reasoning_gym:chain_sum", limit=20).spec.limit
    20

    Raises:
        UnknownKeyError: If there is no such task; says what is near.
        ConfigError: If the file says something unknown or wrong.
        TaskError: If the task cannot be built.
    """
    found = task if isinstance(task, Task) else _load(str(task))
    return found if limit is None else found.limited(limit, seed)


def _load(written: str) -> Task:
    name, at, local = (written, "", "") if Path(written).is_file() else written.partition("@")
    if at and not (name and local):
        raise ConfigError("task", got=written, allowed="NAME@PATH: a task, and a file or folder with its rows")
    if ".py:" in name:
        if at:
            raise ConfigError("task", got=written, hint="a task of a Python file brings its own rows: leave out @PATH")
        return _from_python(name)
    fields = _fields(name)
    if local:
        fields["source"] = _local_source(local, fields["source"])
    return Task(fields.pop("name"), fields.pop("source"), **fields)


def _fields(name: str, extended_by: tuple[Path, ...] = ()) -> dict[str, Any]:
    """What a task says: the fields of its spec."""
    if name.startswith(f"{GYM}:"):
        return _gym_fields(name.removeprefix(f"{GYM}:"))
    if name in ready_made():
        return {"name": name, **_ready_made_file(name)}
    path = Path(name).expanduser()
    if path.suffix == ".toml":
        return _from_file(path, extended_by)
    raise catalog.unknown("tasks", name, [*ready_made(), f"{GYM}:<name>"])


def _ready_made_file(name: str) -> dict[str, Any]:
    return tomllib.loads((catalog.folder(PACKAGE) / f"{name}.toml").read_text(encoding="utf-8"))


def ready_made() -> list[str]:
    """Names of the tasks that come with Midflight."""
    return [key for key in catalog.keys(PACKAGE, ".toml") if key != GYM]


def _from_file(path: Path, extended_by: tuple[Path, ...]) -> dict[str, Any]:
    fields = read_toml(path)
    base = fields.pop("extends", None)
    fewshot = _table(path, "fewshot", fields.get("fewshot"), "num = 5")
    for name, value in (("source", fields.get("source")), ("fewshot.source", fewshot.get("source"))):
        table = _table(path, name, value, 'kind = "file", path = "rows.jsonl"')
        place = table.get("path", "")
        if not isinstance(place, str):
            raise ConfigError(f"{path}: {name}.path", got=place, allowed="a text")
        if place and (path.parent / place).exists():
            table["path"] = str(path.parent / place)
    if base is not None:
        if not isinstance(base, str):
            raise ConfigError(f"{path}: extends", got=base, allowed="the name of a task")
        if path.absolute() in extended_by:
            raise ConfigError(f"{path}: extends itself", got=base)
        beside = path.parent / base
        source = fields.pop("source", None)
        inherited = _fields(str(beside) if beside.is_file() else base, (*extended_by, path.absolute()))
        fields = merge({**inherited, "name": path.stem}, fields)
        if source is not None:  # another kind of source takes none of the old one's options
            old = fields["source"]
            fields["source"] = merge(old, source) if source.get("kind", old.get("kind")) == old.get("kind") else source
    if "source" not in fields:
        raise TaskError(f"{path}: [source] is missing", hint="say where the rows come from, or `extends` a task")
    return {"name": path.stem, **fields}


def _table(path: Path, name: str, value: Any, example: str) -> dict[str, Any]:
    """A table of a task file, empty where it is left out."""
    if value is not None and not isinstance(value, dict):
        raise ConfigError(f"{path}: {name}", got=value, allowed=f"a table, e.g. {name} = {{ {example} }}")
    return value or {}


def _local_source(local: str, source: Mapping[str, Any]) -> dict[str, Any]:
    """A file, or a folder with a copy of the dataset that the task names: of its split, and configuration if any."""
    path = Path(local).expanduser()
    if path.is_file():
        return {"kind": "file", "path": str(path)}
    if not path.is_dir():
        raise TaskError(f"{local}: no such file or folder")
    if any((path / name).is_file() for name in SAVED_TO_DISK):
        return {"kind": "hub", "path": str(path), "split": source.get("split") or "test"}
    found = (file for file in sorted(path.rglob("*")) if file.is_file())
    files = [file for file in found if file.suffix in FORMATS and ".git" not in file.parts]
    for word in (source.get("config"), source.get("split") or "test"):
        files = [file for file in files if word in _words(file.relative_to(path))] or files
    if len(files) == 1:
        return {"kind": "file", "path": str(files[0])}
    if not files:
        raise TaskError(f"{local}: no data files in this folder", allowed=", ".join(FORMATS))
    if len({re.sub(r"-\d+-of-\d+", "", str(file)) for file in files}) == 1 and source["kind"] == "hub":
        return {**source, "path": str(path)}  # parts of one table, which `datasets` puts together
    names = ", ".join(str(file.relative_to(path)) for file in files[:5])
    raise TaskError(f"{local}: several files could be meant: {names}", hint="name one: NAME@FOLDER/FILE")


def _words(file: Path) -> set[str]:
    """What may be the name of a configuration or a split in a path: its folders, and the words of the file's name."""
    return {*file.parent.parts, *re.split(r"[\W_]+", file.stem)}


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
