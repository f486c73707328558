"""Records as standard JSON of a versioned schema, and back.

Numbers that JSON does not know are the texts ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``. The schema is JSON Schema
2020-12; it only ever gains fields within one version.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, cast

from pydantic import ConfigDict, TypeAdapter, ValidationError

from midflight.errors import ConfigError
from midflight.records import Cost, Decided, Decision, Estimate, EvalReport, Progress, Subject, Verdict

REPORT_VERSION = 1
VERDICT_VERSION = 1

_WRITTEN: Mapping[str, tuple[type, int]] = {
    "report": (EvalReport, REPORT_VERSION),
    "verdict": (Verdict, VERDICT_VERSION),
}
"""The records that are written, by what they are called, each with the version of its schema."""


@lru_cache
def _adapter(name: str) -> TypeAdapter[Any]:
    for part in (Progress, Estimate, Cost, Decided, EvalReport, Subject, Decision, Verdict):
        # a later release may add fields within this version: they are no error
        setattr(part, "__pydantic_config__", ConfigDict(extra="ignore"))  # noqa: B010 - not declared
    return TypeAdapter(_WRITTEN[name][0])


def report_to_json(report: EvalReport, indent: int | None = None) -> str:
    """A report as JSON text."""
    return to_json(dataclasses.asdict(report), indent)


def verdict_to_json(verdict: Verdict, indent: int | None = None) -> str:
    """A verdict as JSON text."""
    return to_json(dataclasses.asdict(verdict), indent)


def to_json(value: Any, indent: int | None = None) -> str:
    """Plain values as standard JSON; what is no value of JSON as its text."""
    text = json.dumps(_walk(value, _spell), indent=indent, ensure_ascii=False, allow_nan=False, default=str)
    return text.encode("utf-8", "backslashreplace").decode()  # names, which are not walked


def _spell(value: Any) -> Any:
    """A number that JSON does not know as a text, and half of a surrogate pair as its escape."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def report_from_json(text: str | bytes) -> EvalReport:
    """The report in a JSON text.

    Raises:
        ConfigError: If it is no report of this schema; names the field.
    """
    return cast(EvalReport, _from_json("report", text))


def verdict_from_json(text: str | bytes) -> Verdict:
    """The verdict in a JSON text.

    Raises:
        ConfigError: If it is no verdict of this schema; names the field.
    """
    return cast(Verdict, _from_json("verdict", text))


def _from_json(name: str, text: str | bytes) -> Any:
    newest = _WRITTEN[name][1]
    refusal = f"not a {name} of schema {newest}"
    try:
        version = json.loads(text).get("schema_version")
        if isinstance(version, int) and version > newest:
            raise ConfigError(
                f"the {name}'s schema_version", got=version, allowed=f"up to {newest}", hint="upgrade midflight"
            )
        return _adapter(name).validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or name
        raise ConfigError(f"{refusal}: {where}: {first['msg']}") from None
    except ConfigError:
        raise
    except RecursionError:
        raise ConfigError(f"{refusal}: it is nested too deeply") from None
    except (ValueError, AttributeError) as error:  # a ValueError is also a number of 5,000 digits
        raise ConfigError(f"{refusal}: {error}") from None


def reports_from_json(text: str | bytes) -> list[EvalReport]:
    """The reports in a JSON text: one, or a list of them as ``midflight eval --json`` prints.

    Raises:
        ConfigError: If one is no report of this schema.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"not a report of schema {REPORT_VERSION}: {error}") from None
    return [report_from_json(json.dumps(one)) for one in (found if isinstance(found, list) else [found])]


def report_schema() -> dict[str, Any]:
    """The JSON Schema of a report."""
    return _schema("report")


def verdict_schema() -> dict[str, Any]:
    """The JSON Schema of a verdict."""
    return _schema("verdict")


def _schema(name: str) -> dict[str, Any]:
    schema = allow_non_finite(_adapter(name).json_schema(mode="serialization"))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:midflight:{name}:{_WRITTEN[name][1]}",
        **schema,
    }


def allow_non_finite(schema: dict[str, Any]) -> dict[str, Any]:
    """The same schema, with the texts for numbers that JSON does not know beside its numbers."""
    found: dict[str, Any] = _walk(schema, _allow_non_finite)
    return found


def _walk(node: Any, change: Callable[[Any], Any]) -> Any:
    """The same structure with `change` applied to every node, innermost first."""
    if isinstance(node, dict):
        return change({key: _walk(value, change) for key, value in node.items()})
    if isinstance(node, list | tuple):
        return [_walk(value, change) for value in node]
    return change(node)


def _allow_non_finite(node: Any) -> Any:
    if not isinstance(node, dict) or node.get("type") != "number":
        return node
    rest = {key: value for key, value in node.items() if key != "type"}
    return {"anyOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}], **rest}
