"""The folder is the registry: a plugin is one file, its key is the file's name.

`keys` lists a folder without importing anything. `load` imports one file and gives the one public class in it; a
missing dependency of that file surfaces as such and is never mistaken for an unknown key. Packages outside Midflight
add plugins through an entry point in the group named after the folder, e.g. ``midflight.metrics``.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.metadata
import importlib.util
import inspect
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from midflight.errors import ConfigError, UnknownKeyError

AnyClass = TypeVar("AnyClass")

NOT_PLUGINS = frozenset({"base"})
"""Files that describe what a plugin is; those that begin with an underscore are private as everywhere."""


def keys(package: str, suffix: str = ".py") -> list[str]:
    """Keys of all plugins in a package, sorted; nothing is imported.

    Args:
        package: Dotted name of the folder, e.g. ``midflight.metrics``.
        suffix: ``.py`` for classes, ``.toml`` for task files.
    """
    found = {path.stem for path in folder(package).glob(f"*{suffix}") if not path.stem.startswith("_")}
    if suffix == ".py":
        found |= set(_entry_points(package))
    return sorted(found - NOT_PLUGINS)


def folder(package: str) -> Path:
    """Directory of a package, found without importing it."""
    parent, _, name = package.rpartition(".")
    root = Path(__file__).parent if parent in ("", "midflight") else folder(parent)
    return root / name


@lru_cache
def _entry_points(group: str) -> dict[str, importlib.metadata.EntryPoint]:
    return {point.name: point for point in importlib.metadata.entry_points(group=group)}


def load(package: str, key: str, base: type[AnyClass]) -> type[AnyClass]:
    """The class that a key names.

    Args:
        package: Dotted name of the folder.
        key: File name without its suffix.
        base: What the class must be a subclass of.

    Raises:
        UnknownKeyError: If there is no such file; names what is near.
        ConfigError: If the file does not hold exactly one public subclass of `base`.
    """
    point = _entry_points(package).get(key)
    if point is not None:
        found = point.load()
        if not (isinstance(found, type) and issubclass(found, base)):
            raise ConfigError(f"entry point {key!r} of {package} is no {base.__name__}", got=found)
        return found
    if key not in keys(package):
        raise unknown(package.rpartition(".")[2], key, keys(package))
    module = importlib.import_module(f"{package}.{key}")
    classes = [
        member
        for name, member in vars(module).items()
        if isinstance(member, type)
        and issubclass(member, base)
        and member.__module__ == module.__name__
        and not name.startswith("_")
    ]
    if len(classes) != 1:
        names = ", ".join(c.__name__ for c in classes) or "none"
        raise ConfigError(f"{module.__name__} must hold one public {base.__name__}", got=names)
    return classes[0]


def unknown(what: str, key: str, known: list[str]) -> UnknownKeyError:
    """The error for a key that does not exist.

    Args:
        what: The kind of thing, in plural, e.g. ``metrics``.
        key: What was asked for.
        known: What there is.
    """
    near = difflib.get_close_matches(key, known, n=3, cutoff=0.5)
    advice = f"did you mean {' or '.join(repr(n) for n in near)}?" if near else f"there are: {', '.join(known)}"
    return UnknownKeyError(f"unknown key among {what}", got=key, hint=advice)


def summary(package: str, key: str) -> str:
    """First line of a plugin's docstring (or comment, for a TOML file), read without importing it."""
    path = folder(package) / f"{key}.toml"
    if path.is_file():
        first = path.read_text(encoding="utf-8").split("\n", 1)[0]
        return first.removeprefix("#").strip()
    path = folder(package) / f"{key}.py"
    if not path.is_file():
        return ""
    doc = inspect.cleandoc(_docstring(path))
    return doc.split("\n", 1)[0]


def content(package: str, key: str) -> str:
    """A TOML file whole, or the docstrings of a plugin's file and of its public classes, read without importing it."""
    import ast

    path = folder(package) / f"{key}.toml"
    if path.is_file():
        return path.read_text(encoding="utf-8")
    path = folder(package) / f"{key}.py"
    if not path.is_file():
        return f"{key} comes from another package"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]
    texts = [f"{package}.{key}: {ast.get_docstring(tree) or ''}"]
    texts += [f"class {node.name}: {ast.get_docstring(node) or ''}" for node in classes]
    return "\n\n".join(texts)


def _docstring(path: Path) -> str:
    import ast

    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
