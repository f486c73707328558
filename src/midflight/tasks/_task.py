"""A task: items, the requests they become, and a fingerprint that says when two results are comparable."""

from __future__ import annotations

import datetime
import hashlib
import json
import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from midflight import catalog
from midflight.config import build
from midflight.errors import TaskError
from midflight.records import Item, Output, Request, RequestKind, Sample
from midflight.tasks._spec import TaskSpec
from midflight.tasks._template import compile_expression
from midflight.tasks.kinds.base import Kind
from midflight.tasks.kinds.generate import Generate
from midflight.tasks.sources.base import Source

Rows = str | Path | Mapping[str, Any] | Iterable[Mapping[str, Any]] | Callable[[], Iterable[Mapping[str, Any]]]


class Task:
    """Validation data and what is asked about it. Subclass it to answer the model back (`follow_up`).

    Args:
        name: Unique name.
        source: Rows: a list of dicts, a function that returns them, the path of a file, or a ``[source]`` table.
        spec: The other fields of `midflight.tasks.TaskSpec`, e.g. ``prompt``, ``target``, ``metrics``; among the
            metrics may be classes of your own, subclasses of `midflight.BaseMetric`.

    Raises:
        ConfigError: If a field is unknown or wrong.
        TaskError: If a template is not valid, or the kind lacks a field that it needs.

    >>> sums = Task("sums", [{"a": 1, "b": 2}], prompt="{{ a }}+{{ b }}=", target="a + b", metrics=["exact_match"])
    >>> [(item.id, item.target) for item in sums.items]
    [('000000', 3)]
    """

    def __init__(self, name: str, source: Rows, **spec: Any) -> None:
        self.metric_classes: dict[str, type] = {}
        if isinstance(spec.get("metrics"), list | tuple):
            spec["metrics"] = [self._metric_key(metric) for metric in spec["metrics"]]
        self.spec = build(TaskSpec, {"name": name, "source": _source_table(source), **spec}, f"task {name!r}")
        self.source = _build_source(self.spec.source, f"task {name!r} [source]")
        self.kind = catalog.load("midflight.tasks.kinds", self.spec.kind, Kind)(self.spec)
        self.limit: int | None = None
        self.limit_seed: int | None = None

    def _metric_key(self, metric: Any) -> Any:
        """The key of a metric; a class is kept under its own `key`, or its name in snake case."""
        if not isinstance(metric, type):
            return metric
        key = getattr(metric, "key", "") or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", metric.__name__).lower()
        self.metric_classes[key] = metric
        return key

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "kind"}  # compiled templates stay here

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.kind = catalog.load("midflight.tasks.kinds", self.spec.kind, Kind)(self.spec)

    def __repr__(self) -> str:
        return f"<Task {self.name} ({self.spec.kind})>"

    @property
    def name(self) -> str:
        """The task's name."""
        return self.spec.name

    @property
    def capability(self) -> RequestKind:
        """What the engine has to be able to do."""
        return self.kind.capability

    def limited(self, limit: int | None, seed: int | None = None) -> Task:
        """The same task with fewer items; its fingerprint differs.

        Args:
            limit: Items at most; None = all.
            seed: None = the first ones; a number = drawn at random from this seed.

        Raises:
            TaskError: If `limit` is below 1.
        """
        if limit is not None and limit < 1:
            raise TaskError("limit", got=limit, allowed="a number of items from 1")
        twin = object.__new__(type(self))
        twin.__dict__.update({k: v for k, v in self.__dict__.items() if k not in ("items", "examples")})
        twin.limit, twin.limit_seed = limit, seed
        return twin

    # -- items -------------------------------------------------------------------------------------------------------

    @cached_property
    def items(self) -> tuple[Item, ...]:
        """All items.

        Raises:
            TaskError: If a row is broken, lacks a column, or an id stands twice; names the row.
        """
        items = self._build_items(self.source)
        if self.limit is None or self.limit >= len(items):
            return items
        if self.limit_seed is None:
            return items[: self.limit]
        chosen = random.Random(self.limit_seed).sample(range(len(items)), self.limit)
        return tuple(items[index] for index in sorted(chosen))

    @cached_property
    def examples(self) -> tuple[Item, ...]:
        """The pool of solved examples."""
        few = self.spec.fewshot
        if few is None:
            return ()
        if few.source is not None:
            pool = self._build_items(_build_source(few.source, f"task {self.name!r} [fewshot.source]"))
        elif few.split is not None:
            pool = self._build_items(self.source.with_split(few.split))
        else:
            pool = self._build_items(self.source)
        if len(pool) < few.num:
            raise TaskError(f"task {self.name!r}: fewshot.num", got=few.num, allowed=f"at most {len(pool)} examples")
        return pool

    def _build_items(self, source: Source) -> tuple[Item, ...]:
        make_id = compile_expression(self.spec.id, "id") if self.spec.id else None
        slices = {name: compile_expression(text, f"slices.{name}") for name, text in self.spec.slices.items()}
        cluster = compile_expression(self.spec.cluster, "cluster") if self.spec.cluster else None
        items: list[Item] = []
        origins: dict[str, str] = {}
        for index, row in enumerate(source.rows()):
            try:
                item = Item(
                    id=str(make_id(row.data)) if make_id else f"{index:06d}",
                    row=row.data,
                    target=self.kind.target(row.data),
                    slices={name: str(read(row.data)) for name, read in slices.items()},
                    cluster=str(cluster(row.data)) if cluster else None,
                )
            except TaskError as error:
                raise TaskError(f"{row.origin}: {error.message}") from None
            if item.id in origins:
                raise TaskError(f"{row.origin}: the id {item.id!r} stands already at {origins[item.id]}")
            origins[item.id] = row.origin
            items.append(item)
        if not items:
            raise TaskError(f"task {self.name!r} has no items")
        return tuple(items)

    # -- requests and samples ----------------------------------------------------------------------------------------

    def uses_chat(self, engine_has_chat: bool) -> bool:
        """Whether prompts are sent as chat messages to an engine that has a chat template, or has none."""
        if self.spec.chat == "auto":
            return engine_has_chat and (self.kind.chat_by_default or self.spec.messages is not None)
        return self.spec.chat == "always"

    def requests(self, item: Item, chat: bool, seed: int = 0) -> list[Request]:
        """First requests of an item.

        Args:
            item: One of `items`.
            chat: Whether prompts are chat messages.
            seed: Seed of the evaluation.

        Raises:
            TaskError: If the item's row does not fit a template.
        """
        try:
            return self.kind.requests(item, self._examples_for(item), chat, seed)
        except TaskError as error:
            raise TaskError(f"task {self.name!r}, item {item.id!r}: {error.message}") from None

    def _examples_for(self, item: Item) -> Sequence[Item]:
        few = self.spec.fewshot
        if few is None:
            return ()
        own_pool = few.split is None and few.source is None
        pool = [e for e in self.examples if not (own_pool and e.id == item.id)]
        if few.seed is None:
            return pool[: few.num]
        return random.Random(f"{few.seed}:{item.id}").sample(pool, few.num)

    def follow_up(self, item: Item, turns: Sequence[Output]) -> str | None:
        """What is said back to the model after its turns so far; None ends the conversation, as it does here.

        Override it for tasks of several turns.

        Args:
            item: The item.
            turns: The model's turns, the last one just given.
        """
        return None

    def next_request(self, item: Item, request: Request, turns: Sequence[Output], seed: int) -> Request | None:
        """The next turn of a conversation, or None at its end."""
        if not isinstance(self.kind, Generate) or turns[-1].error is not None:
            return None
        feedback = self.follow_up(item, turns)
        return None if feedback is None else self.kind.next_turn(request, turns[-1], feedback, item, seed)

    def sample(self, item: Item, index: int, outputs: Sequence[Output | None]) -> Sample:
        """One attempt at an item, read from its outputs in order of their parts; None = not answered."""
        return self.kind.sample(item, index, outputs)

    # -- identity ----------------------------------------------------------------------------------------------------

    @cached_property
    def _prompt_fields(self) -> dict[str, Any]:
        grading = {"metrics", "answer", "answer_pick", "slices", "description", "source", "sampling", "samples", "name"}
        fields = self.spec.model_dump(mode="json", exclude=grading)
        fields["examples"] = _digest([_item_content(e) for e in self.examples])
        return fields

    def fingerprint_parts(self) -> dict[str, str]:
        """SHA-256 of what is asked (`items`, `prompt`, `sampling`) and how answers are read (`answer`).

        The pipeline adds the versions of the metrics.
        """
        content = sorted((_item_content(item) for item in self.items), key=lambda c: str(c["id"]))
        return {
            "items": _digest(content),
            "prompt": _digest(self._prompt_fields),
            "sampling": _digest([self.spec.sampling.model_dump(mode="json"), self.spec.samples]),
            "answer": _digest([self.spec.answer, self.spec.answer_pick]),
        }


def _source_table(source: Rows) -> dict[str, Any]:
    if isinstance(source, Mapping):
        return dict(source)
    if isinstance(source, str | Path):
        return {"kind": "file", "path": str(source)}
    if callable(source):
        return {"kind": "function", "function": source}
    rows = list(source)
    return {"kind": "function", "function": lambda: rows}


def _build_source(table: Mapping[str, Any], origin: str) -> Source:
    kind = table.get("kind")
    if not isinstance(kind, str):
        raise TaskError(f"{origin}: kind", got=kind, allowed=", ".join(catalog.keys("midflight.tasks.sources")))
    return build(catalog.load("midflight.tasks.sources", kind, Source), table, origin)


def _item_content(item: Item) -> dict[str, Any]:
    return {"id": item.id, "row": item.row, "target": item.target, "slices": item.slices, "cluster": item.cluster}


def _digest(value: Any) -> str:
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
