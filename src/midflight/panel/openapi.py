"""The API as an OpenAPI document, made from the parameters and shapes that the answers are made with."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

import midflight
from midflight.panel.answers.base import Question, questions
from midflight.panel.answers.run import RUN_ID
from midflight.panel.parameters import Flag, Parameter
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


_PLACE = "#/components/schemas/"


class _Whole(GenerateJsonSchema):
    """What is answered has all of its fields, also those that a record may be made without."""

    def field_is_required(self, field: Any, total: bool) -> bool:
        return True


@lru_cache(maxsize=1)
def document() -> dict[str, Any]:
    """The document, OpenAPI 3.1."""
    answers, schemas = _schemas()
    paths: dict[str, Any] = {one.path: {"get": _operation(one, answers[one.key])} for one in questions()}
    paths["/api/runs/{id}"]["patch"] = _change_run()
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Midflight panel",
            "version": midflight.__version__,
            "description": "Read-only unless the server was started with --allow-write. Lists have commas between"
            " their members. Numbers that JSON does not know are the texts NaN, Infinity and -Infinity.",
        },
        "paths": paths,
        "components": {"schemas": {"Error": _ERROR, **schemas}},
    }


def _operation(question: Question, answer: dict[str, Any]) -> dict[str, Any]:
    return {
        "operationId": question.key,
        "summary": question.about,
        "parameters": [_parameter(one) for one in question.parameters],
        "responses": _responses(answer),
    }


def _change_run() -> dict[str, Any]:
    tags = {"type": "array", "maxItems": 50, "items": {"type": "string", "minLength": 1, "maxLength": 100}}
    body = {"type": "object", "required": ["tags"], "properties": {"tags": tags}}
    return {
        "operationId": "set_tags",
        "summary": "Puts labels in the place of a run's own.",
        "parameters": [_parameter(RUN_ID)],
        "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
        "responses": _responses({"$ref": f"{_PLACE}RunShape"}),
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


def _schemas() -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """A reference to the schema of each answer, by question, and all that they refer to."""
    shapes: list[tuple[str, Literal["serialization"], TypeAdapter[Any]]] = [
        (one.key, "serialization", TypeAdapter(one.shape)) for one in questions()
    ]
    answers, found = TypeAdapter.json_schemas(shapes, ref_template=_PLACE + "{model}", schema_generator=_Whole)
    schemas = allow_non_finite(found["$defs"])
    for (key, _), reference in answers.items():  # several answers have one name, so that they come by those of modules
        name = reference["$ref"].removeprefix(_PLACE)
        if name.endswith("__Answer"):
            schemas[f"{key.capitalize()}Answer"] = schemas.pop(name)
            reference["$ref"] = f"{_PLACE}{key.capitalize()}Answer"
    return {key: dict(reference) for (key, _), reference in answers.items()}, schemas


def _responses(schema: dict[str, Any]) -> dict[str, Any]:
    failed = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    return {
        "200": {"description": "The answer.", "content": {"application/json": {"schema": schema}}},
        **{status: {"description": about, "content": failed} for status, about in _STATUSES.items()},
    }
