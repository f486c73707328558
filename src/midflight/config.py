"""How a TOML file, a dict and keyword arguments become frozen, strict config objects.

Unknown keys, wrong types and impossible combinations fail here, before any model is touched, each with one line that
names the key, the value and what is allowed.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from midflight.errors import ConfigError, MidflightError, shorten


class Config(BaseModel):
    """Base of all config objects: frozen, no unknown keys, no silent conversion of types."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, arbitrary_types_allowed=True)

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise explain(error, type(self)) from None

    # as pydantic's own: a config inside another is validated with it, and its errors are explained once, from outside
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]


AnyConfig = TypeVar("AnyConfig", bound=Config)


def explain(error: ValidationError, model: type[BaseModel], origin: str = "") -> ConfigError:
    """One ConfigError of one line for a pydantic error, with a suggestion for a misspelt key.

    Args:
        error: What pydantic found.
        model: The model that was to be built.
        origin: File or argument that the values came from.
    """
    problems = []
    for found in error.errors(include_url=False):
        key = ".".join(str(part) for part in found["loc"]) or model.__name__
        if found["type"] == "extra_forbidden":
            known = sorted(_fields_at(model, found["loc"][:-1]))
            near = difflib.get_close_matches(str(found["loc"][-1]), known, n=1)
            advice = f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(known)}"
            problems.append(f"unknown key {key!r}; {advice}")
        elif found["type"] == "missing":
            problems.append(f"{key}: missing")
        else:
            reason = found["msg"].removeprefix("Value error, ")
            got = found["input"]
            shown = "" if isinstance(got, Mapping | BaseModel) else f" (got {shorten(repr(got), 80)})"
            problems.append(f"{key}: {reason[:1].lower()}{reason[1:]}{shown}")
    where = f"{origin}: " if origin else f"{model.__name__}: "
    return ConfigError(where + "; ".join(problems))


def _fields_at(model: type[BaseModel], path: tuple[int | str, ...]) -> list[str]:
    """Names of the fields of the model that `path` leads to from `model`."""
    for part in path:
        if isinstance(part, int):  # the place in a list of such models
            continue
        info = model.model_fields.get(part)
        candidates = [info.annotation, *getattr(info.annotation, "__args__", ())] if info else []
        inner = [c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)]
        if not inner:
            return []
        model = inner[0]
    return list(model.model_fields)


def build(model: type[AnyConfig], values: Mapping[str, Any], origin: str) -> AnyConfig:
    """A config object from plain values.

    Args:
        model: What to build.
        values: Its fields.
        origin: File or argument that the values came from, for the error.

    Raises:
        ConfigError: If a key is unknown, missing, or has a wrong type or value.
    """
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        raise explain(error, model, origin) from None


def read_toml(path: str | Path) -> dict[str, Any]:
    """The content of a TOML file.

    Raises:
        ConfigError: If the file cannot be read or is no TOML; names file and line.
    """
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except RecursionError:
        raise ConfigError(f"{path}: cannot be read as TOML: it is nested too deeply") from None
    except (OSError, ValueError) as error:  # a ValueError is also a number of 5,000 digits
        raise ConfigError(f"{path}: cannot be read as TOML: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    if isinstance(error, MidflightError):
        return error.message
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


def merge(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with `changes` laid over it, table by table; a list or a value replaces.

    >>> merge({"a": {"x": 1, "y": 2}, "b": [1]}, {"a": {"y": 3}, "b": [2]})
    {'a': {'x': 1, 'y': 3}, 'b': [2]}
    """
    merged = dict(base)
    for key, value in changes.items():
        old = merged.get(key)
        merged[key] = merge(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return merged
