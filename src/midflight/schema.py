"""Records as standard JSON of a versioned schema, and back.

Numbers that JSON does not know are the texts ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``. The schema is JSON Schema
2020-12; it only ever gains fields within one version.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from midflight.errors import ConfigError
from midflight.records import Cost, Decided, Estimate, EvalReport, Progress

REPORT_VERSION = 1


@lru_cache(maxsize=1)
def _report_adapter() -> TypeAdapter[EvalReport]:
    for record in (Progress, Estimate, Cost, Decided, EvalReport):
        # a later release may add fields within this version: they are no error
        setattr(record, "__pydantic_config__", ConfigDict(extra="ignore"))  # noqa: B010 - not declared
    return TypeAdapter(EvalReport)


def report_to_json(report: EvalReport, indent: int | None = None) -> str:
    """A report as JSON text."""
    return to_json(dataclasses.asdict(report), indent)


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
    try:
        version = json.loads(text).get("schema_version")
        if isinstance(version, int) and version > REPORT_VERSION:
            raise ConfigError(
                "the report's schema_version", got=version, allowed=f"up to {REPORT_VERSION}", hint="upgrade midflight"
            )
        return _report_adapter().validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "report"
        raise ConfigError(f"not a report of schema {REPORT_VERSION}: {where}: {first['msg']}") from None
    except ConfigError:
        raise
    except RecursionError:
        raise ConfigError(f"not a report of schema {REPORT_VERSION}: it is nested too deeply") from None
    except (ValueError, AttributeError) as error:  # a ValueError is also a number of 5,000 digits
        raise ConfigError(f"not a report of schema {REPORT_VERSION}: {error}") from None


def report_schema() -> dict[str, Any]:
    """The JSON Schema of a report."""
    schema = _report_adapter().json_schema(mode="serialization")
    schema = _walk(schema, _allow_non_finite)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:midflight:report:{REPORT_VERSION}",
        **schema,
    }


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
