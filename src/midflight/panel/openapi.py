"""The API as an OpenAPI document, made from the parameters and shapes that the answers are made with."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from pydantic import TypeAdapter

import midflight
from midflight.panel.answers.base import Question, questions
from midflight.panel.answers.run import RUN_ID
from midflight.panel.parameters import Flag, Parameter
from midflight.panel.shapes import RunShape
from midflight.schema import allow_non_finite

_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["status", "message"],
            "properties": {"status": {"type": "integer"}, "message": {"type": "string"}},
        }
    },
}
_STATUSES = {
    "400": "A parameter is not right, or what it asks for cannot be computed.",
    "401": "A token is asked for.",
    "403": "The host is not known, or nothing may be changed.",
    "404": "What it is about is not there.",
    "413": "The body is too large.",
    "415": "The body is no JSON.",
    "503": "The store is busy or gone.",
}


@lru_cache(maxsize=1)
def document() -> dict[str, Any]:
    """The document, OpenAPI 3.1."""
    schemas: dict[str, Any] = {"Error": _ERROR}
    paths: dict[str, Any] = {question.path: {"get": _operation(question, schemas)} for question in questions()}
    paths["/api/runs/{id}"]["patch"] = _change_run(schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Midflight panel",
            "version": midflight.__version__,
            "description": "Read-only unless the server was started with --allow-write. Lists have commas between"
            " their members. Numbers that JSON does not know are the texts NaN, Infinity and -Infinity.",
        },
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _operation(question: Question, schemas: dict[str, Any]) -> dict[str, Any]:
    return {
        "operationId": question.key,
        "summary": question.about,
        "parameters": [_parameter(one) for one in question.parameters],
        "responses": _responses(_schema(question.key, question.shape, schemas)),
    }


def _change_run(schemas: dict[str, Any]) -> dict[str, Any]:
    tags = {"type": "array", "maxItems": 50, "items": {"type": "string", "minLength": 1, "maxLength": 100}}
    body = {"type": "object", "required": ["tags"], "properties": {"tags": tags}}
    return {
        "operationId": "set_tags",
        "summary": "Puts labels in the place of a run's own.",
        "parameters": [_parameter(RUN_ID)],
        "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
        "responses": _responses(_schema("set_tags", RunShape, schemas)),
    }


def _parameter(parameter: Parameter) -> dict[str, Any]:
    schema = parameter.schema()
    if parameter.default not in (None, "", ()):
        shown = parameter.default
        schema = {**schema, "default": ("1" if shown else "0") if isinstance(parameter, Flag) else shown}
    return {
        "name": parameter.name,
        "in": "path" if parameter.in_path else "query",
        "required": parameter.in_path,
        "description": parameter.about,
        "schema": schema,
    }


def _schema(key: str, shape: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    """A reference to the schema of an answer; what it refers to is put among the others, under its own name."""
    prefix = f"{key}_"
    made = TypeAdapter(shape).json_schema(mode="serialization", ref_template=f"#/components/schemas/{prefix}{{model}}")
    for name, nested in made.pop("$defs", {}).items():
        schemas[f"{prefix}{name}"] = allow_non_finite(nested)
    schemas[f"{prefix}answer"] = allow_non_finite(made)
    return {"$ref": f"#/components/schemas/{prefix}answer"}


def _responses(schema: dict[str, Any]) -> dict[str, Any]:
    failed = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    return {
        "200": {"description": "The answer.", "content": {"application/json": {"schema": schema}}},
        **{status: {"description": about, "content": failed} for status, about in _STATUSES.items()},
    }
