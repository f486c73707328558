"""Templates and expressions over the columns of a row, in Jinja2's sandbox: a task file is data, not a program."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from jinja2 import StrictUndefined, TemplateError, Undefined

from midflight.errors import TaskError
from midflight.tasks._sandbox import BoundedEnvironment


def _last_number(text: str) -> str:
    """The last number in a text, thousands separators removed; empty if there is none."""
    found = re.findall(r"-?\d[\d,]*(?:\.\d+)?", str(text))
    return found[-1].replace(",", "") if found else ""


def _wikitext_detokenize(text: str) -> str:
    """WikiText's tokenised text as it is written; steps and order are lm-evaluation-harness', as is the score."""
    for pattern, replacement in _WIKITEXT:
        text = re.sub(pattern, replacement, text)
    return text


def _wikihow_clean(text: str) -> str:
    """HellaSwag's WikiHow passages without ``[title]`` and ``[step]`` marks, as lm-evaluation-harness reads them."""
    return re.sub(r"\[.*?\]", "", text.strip().replace(" [title]", ". ")).replace("  ", " ")


def _hh_messages(text: str) -> list[dict[str, str]]:
    """A transcript of HH-RLHF as messages: turns begin with ``Human:`` and ``Assistant:`` on a line of their own."""
    parts = re.split(r"(?:^|\n\n)(Human|Assistant): ?", text)
    roles = {"Human": "user", "Assistant": "assistant"}
    return [{"role": roles[who], "content": said.strip()} for who, said in zip(parts[1::2], parts[2::2], strict=True)]


_WIKITEXT = (
    (r"s '", "s'"),
    (r"/' [0-9]/", r"/'[0-9]/"),
    *((f" @{mark}@ ", mark) for mark in "-,."),
    *((rf" \{mark} ", f"{mark} ") for mark in ":;.!?,"),
    *((rf"\{left}\s*([^\{right}]*?)\s*\{right}", rf"{left}\1{right}") for left, right in ("()", "[]", "{}")),
    *((rf"{quote}\s*([^{quote}]*?)\s*{quote}", rf"{quote}\1{quote}") for quote in "\"'"),
    *((" ".join("=" * level), "=" * level) for level in (4, 3, 2)),
    (" ° ", "°"),
    (r" \n", "\n"),
    (r"\n ", "\n"),
    (r" N ", " 1 "),
    (r" 's", "'s"),
)


@lru_cache
def _environment() -> BoundedEnvironment:
    environment = BoundedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False)
    environment.filters["last_number"] = _last_number
    environment.filters["wikitext_detokenize"] = _wikitext_detokenize
    environment.filters["wikihow_clean"] = _wikihow_clean
    environment.filters["hh_messages"] = _hh_messages
    return environment


def compile_template(source: str, what: str) -> Callable[[Mapping[str, Any]], str]:
    """A function that fills a template with a row.

    Args:
        source: Jinja2 text, e.g. ``Question: {{ question }}``.
        what: The field of the task that holds it, for errors.

    Raises:
        TaskError: If it is no valid template.
    """
    try:
        template = _environment().from_string(source)
    except TemplateError as error:
        raise TaskError(f"{what}: not a valid template: {error}", got=source) from None
    return lambda row: str(_run(template.render, row, what))


def compile_expression(source: str, what: str) -> Callable[[Mapping[str, Any]], Any]:
    """A function that evaluates an expression over a row, e.g. ``answer``, ``choices.text`` or ``labels.index(key)``.

    Args:
        source: A Jinja2 expression.
        what: The field of the task that holds it, for errors.

    Raises:
        TaskError: If it is no valid expression.
    """
    try:
        expression = _environment().compile_expression(source, undefined_to_none=False)
    except TemplateError as error:
        raise TaskError(f"{what}: not a valid expression: {error}", got=source) from None
    return lambda row: _defined(_run(expression, row, what), source, what, row)


def _run(function: Callable[..., Any], row: Mapping[str, Any], what: str) -> Any:
    try:
        _environment().begin()
        return function(**{str(key): value for key, value in row.items()})
    except Exception as error:  # whatever a template does with a row, it is the task that is wrong
        reason = str(error) or type(error).__name__
        raise TaskError(f"{what}: {reason}", hint=f"columns: {', '.join(map(str, row))}") from None


def _defined(value: Any, source: str, what: str, row: Mapping[str, Any]) -> Any:
    if isinstance(value, Undefined):
        raise TaskError(f"{what}: no column {source!r}", hint=f"columns: {', '.join(map(str, row))}")
    return value
