"""How the rows of a source become items, which of them are drawn, and what makes two of them the same."""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from midflight.errors import TaskError, is_text
from midflight.records import Item
from midflight.tasks._spec import TaskSpec
from midflight.tasks._template import compile_expression
from midflight.tasks.kinds.base import Kind
from midflight.tasks.sources.base import Row, Source


def build_items(spec: TaskSpec, kind: Kind, source: Source) -> tuple[Item, ...]:
    """An item a row.

    Raises:
        TaskError: If a row is broken, lacks a column, or an id stands twice; names the row.
    """
    make = _ItemMaker(spec, kind)
    items: list[Item] = []
    origins: dict[str, str] = {}
    for index, row in enumerate(source.rows()):
        try:
            item = make(index, row)
        except TaskError as error:
            raise TaskError(f"{row.origin}: {error.message}") from None
        if item.id in origins:
            raise TaskError(f"{row.origin}: the id {item.id!r} stands already at {origins[item.id]}")
        origins[item.id] = row.origin
        items.append(item)
    if not items:
        raise TaskError(f"task {spec.name!r} has no items")
    return tuple(items)


class _ItemMaker:
    """The expressions of a task, compiled once."""

    def __init__(self, spec: TaskSpec, kind: Kind) -> None:
        self.kind = kind
        self.id = compile_expression(spec.id, "id") if spec.id else None
        self.cluster = compile_expression(spec.cluster, "cluster") if spec.cluster else _none
        self.slices = {name: compile_expression(text, f"slices.{name}") for name, text in spec.slices.items()}

    def __call__(self, index: int, row: Row) -> Item:
        check_text("", row.data)
        slices = {name: read(row.data) for name, read in self.slices.items()}
        cluster = self.cluster(row.data)
        item = Item(
            id=f"{index:06d}" if self.id is None else _id(self.id(row.data)),
            row=row.data,
            target=self.kind.target(row.data),
            slices={name: str(value) for name, value in slices.items() if value is not None},
            cluster=None if cluster is None else str(cluster),
        )
        # an expression can break what the columns do not hold: '\ud800' is valid Jinja2
        check_text("", {"id": item.id, "target": item.target, "slices": item.slices, "cluster": item.cluster})
        return item


def _none(row: Mapping[str, Any]) -> None:
    return None


def _id(value: Any) -> str:
    if value is None:
        raise TaskError("id", got=None, allowed="a text or a number for every row")
    return str(value)


def check_text(place: str, value: Any) -> None:
    """Refuses texts that no database and no tokenizer takes.

    Raises:
        TaskError: If a text, also deep within, is not valid Unicode.
    """
    if isinstance(value, str):
        if not is_text(value):
            raise TaskError(f"{place}: not valid Unicode: half of a surrogate pair", got=value)
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            check_text("a column name", str(key))
            check_text(f"{place}.{key}" if place else str(key), inner)
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            check_text(f"{place}[{index}]", inner)


def draw(items: Sequence[Item], limit: int, seed: int, named: bool) -> tuple[Item, ...]:
    """Items drawn at random, in their order: the same ones for the same items and seed, however these are ordered.

    Those of a smaller limit are among those of a larger one.

    Args:
        items: The pool.
        limit: Items to draw.
        seed: Fixes the draw.
        named: Whether items have ids of their own; if not, their rows are what tells them apart.
    """

    def rank(index: int) -> tuple[str, int]:
        return digest([seed, items[index].id if named else row_key(items[index])]), index

    chosen = sorted(range(len(items)), key=rank)[:limit]
    return tuple(items[index] for index in sorted(chosen))


def row_key(item: Item) -> str:
    """The same for items of the same row, wherever it stands."""
    return digest(item.row)


def item_content(item: Item) -> dict[str, Any]:
    """All that an item is, for the fingerprint."""
    return {"id": item.id, "row": item.row, "target": item.target, "slices": item.slices, "cluster": item.cluster}


def digest(value: Any) -> str:
    """SHA-256 of a value's content."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=_stable)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _stable(value: Any) -> Any:
    """Content of what JSON does not know; a value whose text would differ from process to process is refused."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, bytes):
        return hashlib.sha256(value).hexdigest()
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TaskError(
        "a column holds a value without a stable text",
        got=type(value).__name__,
        allowed="texts, numbers, lists and objects of them",
    )
