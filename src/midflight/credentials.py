"""Secrets: a workflow's file names a variable, ``${env:NAME}``; its value is read when it is used and kept nowhere."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote, quote_plus

from midflight.errors import ConfigError

_VARIABLE = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")


def variables_in(value: Any) -> set[str]:
    """Names of the variables that plain values refer to."""
    if isinstance(value, str):
        return set(_VARIABLE.findall(value))
    inner: Iterable[Any] = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return set().union(*map(variables_in, inner))


def resolve(text: str) -> str:
    """A text with each ``${env:NAME}`` replaced by the variable's value.

    Raises:
        ConfigError: If a variable is not set, or empty.
    """

    def value(found: re.Match[str]) -> str:
        name = found.group(1)
        if not os.environ.get(name):
            raise ConfigError(f"${{env:{name}}}: the environment variable {name} is not set")
        return os.environ[name]

    return _VARIABLE.sub(value, text)


class Scrubber:
    """Puts the name of a secret wherever its value stands.

    Args:
        names: Environment variables that hold secrets.
    """

    def __init__(self, names: Iterable[str]) -> None:
        spellings = {}
        for name in names:
            value = os.environ.get(name, "")
            for spelling in (value, value.strip(), quote(value, safe=""), quote_plus(value), json.dumps(value)[1:-1]):
                if spelling:
                    spellings[spelling] = f"${{env:{name}}}"
        # the longest first: one secret may be the beginning of another
        self._spellings = sorted(spellings.items(), key=lambda pair: -len(pair[0]))

    def __call__(self, value: Any) -> Any:
        """Plain values without secrets, keys of tables included."""
        if isinstance(value, str):
            for spelling, name in self._spellings:
                value = value.replace(spelling, name)
            return value
        if isinstance(value, Mapping):
            return {self(str(key)): self(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self(inner) for inner in value]
        return value
