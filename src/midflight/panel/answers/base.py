"""What a question is, and which there are."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol
from urllib.parse import quote

from midflight import catalog
from midflight.errors import NotFoundError
from midflight.panel.panel import Panel
from midflight.panel.parameters import Parameter, read_all, split_query

PACKAGE = "midflight.panel.answers"


class Function(Protocol):
    """What answers a question."""

    def __call__(self, panel: Panel, **values: Any) -> Any:
        """The answer: values of JSON and records."""


@dataclass(frozen=True)
class Question:
    """What a page may ask.

    Attributes:
        key: Its file.
        path: Its path; a part in braces is a parameter.
        parameters: Its parameters.
        shape: Shape of the answer.
        function: What answers.
        about: What it is, in a line.
    """

    key: str
    path: str
    parameters: Sequence[Parameter]
    shape: Any
    function: Function
    about: str

    def match(self, path: str) -> dict[str, list[str]] | None:
        """Parameters in a path; None if it is another question's."""
        found = re.fullmatch(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", self.path), path)
        return None if found is None else {name: [quote(value)] for name, value in found.groupdict().items()}

    def answer(self, panel: Panel, given: Mapping[str, Sequence[str]]) -> Any:
        """The answer.

        Raises:
            ConfigError: If a parameter is not right.
            NotFoundError: If what it is about is not there.
        """
        return self.function(panel, **read_all(self.parameters, given))


@lru_cache(maxsize=1)
def questions() -> tuple[Question, ...]:
    """All questions, by key."""
    found = []
    for key in catalog.keys(PACKAGE):
        module = importlib.import_module(f"{PACKAGE}.{key}")
        about = (module.__doc__ or "").partition("\n")[0]
        found.append(Question(key, module.PATH, module.PARAMETERS, module.Answer, module.answer, about))
    return tuple(found)


def ask(panel: Panel, url: str) -> Any:
    """The answer to a URL, as the server would give it.

    Args:
        panel: The panel.
        url: Path and query, as ``/api/runs?project=a``.

    Raises:
        NotFoundError: If nothing is asked there, or what it is about is not there.
        ConfigError: If a parameter is not right.
    """
    path, _, query = url.partition("?")
    for question in questions():
        given = question.match(path)
        if given is not None:
            return question.answer(panel, {**split_query(query), **given})
    raise NotFoundError("path", got=path, allowed=", ".join(question.path for question in questions()))
