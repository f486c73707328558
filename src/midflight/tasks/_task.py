"""A task: items, the requests they become, and a fingerprint that says when two results are comparable."""

from __future__ import annotations

import json
import logging
import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from midflight import catalog
from midflight.config import build
from midflight.errors import ConfigError, TaskError
from midflight.records import Item, Output, Request, RequestKind, Sample, Settings
from midflight.tasks._items import build_items, check_text, digest, draw, item_content, row_key
from midflight.tasks._spec import TaskSpec
from midflight.tasks.kinds.base import Kind
from midflight.tasks.kinds.generate import Generate
from midflight.tasks.sources.base import Source

logger = logging.getLogger("midflight")

Rows = str | Path | Mapping[str, Any] | Iterable[Mapping[str, Any]] | Callable[[], Iterable[Mapping[str, Any]]]


_NOT_PROMPT = (
    *("name", "description", "source", "limit", "limit_seed", "slices"),
    *("samples", "sampling", "answer", "answer_pick", "metrics"),
)
"""Fields that have a part of the fingerprint of their own, or none."""


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

    def __init__(self, /, name: str, source: Rows, **spec: Any) -> None:
        self.metric_classes: dict[str, type] = {}
        if isinstance(spec.get("metrics"), list | tuple):
            spec["metrics"] = [self._metric_key(metric) for metric in spec["metrics"]]
        self.spec = build(TaskSpec, {"name": name, "source": _source_table(source), **spec}, f"task {name!r}")
        check_text("", self.spec.model_dump(exclude={"source": True, "fewshot": {"source"}}))
        self.source = _build_source(self.spec.source, f"task {name!r} [source]")
        self.kind = catalog.load("midflight.tasks.kinds", self.spec.kind, Kind)(self.spec)  # type: ignore[type-abstract]

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
        self.kind = catalog.load("midflight.tasks.kinds", self.spec.kind, Kind)(self.spec)  # type: ignore[type-abstract]

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

    def limited(self, limit: int | None, seed: int = 0) -> Task:
        """The same task with fewer items, drawn at random; its fingerprint differs.

        Args:
            limit: Items at most; None = all.
            seed: Fixes which ones: the same for the same rows and seed, in whatever order the rows are, and those of a
                smaller limit are among those of a larger one.

        Raises:
            TaskError: If `limit` is below 1.
        """
        if limit is not None and limit < 1:
            raise TaskError("limit", got=limit, allowed="a number of items from 1")
        twin = object.__new__(type(self))
        derived = [name for name, member in vars(Task).items() if isinstance(member, cached_property)]
        twin.__dict__.update({key: value for key, value in self.__dict__.items() if key not in derived})
        twin.spec = self.spec.model_copy(update={"limit": limit, "limit_seed": seed})
        return twin

    # -- items -------------------------------------------------------------------------------------------------------

    @cached_property
    def items(self) -> tuple[Item, ...]:
        """All items.

        Raises:
            TaskError: If a row is broken, lacks a column, or an id stands twice; names the row.
        """
        limit, items = self.spec.limit, build_items(self.spec, self.kind, self.source)
        if limit is None or limit >= len(items):
            return items
        return draw(items, limit, self.spec.limit_seed, named=self.spec.id is not None)

    @cached_property
    def examples(self) -> tuple[Item, ...]:
        """The pool of solved examples."""
        few = self.spec.fewshot
        if few is None:
            return ()
        source = self.source
        if few.source is not None:
            source = _build_source(few.source, f"task {self.name!r} [fewshot.source]")
        elif few.split is not None:
            source = source.with_split(few.split)
        return build_items(self.spec, self.kind, source)

    @cached_property
    def _example_places(self) -> dict[str, list[int]]:
        """Where the examples of each row stand in the pool; says so where examples are evaluated too.

        Raises:
            ConfigError: If there are too few of them for an item, which is never an example of its own.
        """
        places: dict[str, list[int]] = {}
        for index, example in enumerate(self.examples):
            places.setdefault(row_key(example), []).append(index)
        shared = places.keys() & set(map(row_key, self.items))
        most = len(self.examples) - max((len(places[key]) for key in shared), default=0)
        if self.spec.fewshot is not None and self.spec.fewshot.num > most:
            got, allowed = self.spec.fewshot.num, f"at most {most} examples beside the item itself"
            raise ConfigError(f"task {self.name!r}: fewshot.num", got=got, allowed=allowed)
        if shared:
            logger.warning(
                "midflight: task %r: %d of the few-shot examples are evaluated too, so that the answers of other items"
                " stand in the prompts; give [fewshot] another split, or a source of its own",
                self.name,
                len(shared),
            )
        return places

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
        own = self._example_places.get(row_key(item), ())  # an item is never its own example, wherever these come from
        wanted = few.num + len(own)
        order = range(len(self.examples))
        first = order[:wanted] if few.seed is None else random.Random(f"{few.seed}:{item.id}").sample(order, wanted)
        return [self.examples[index] for index in first if index not in own][: few.num]

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

    @property
    def settings(self) -> Settings:
        """How it is asked, for reports."""
        spec, few = self.spec, self.spec.fewshot
        sampling = spec.sampling.model_dump(exclude={"stop"}) if self.capability == "generate" else {}
        # a report is JSON, whatever a function in Python is given
        source = json.loads(
            json.dumps(spec.source, skipkeys=True, default=lambda v: getattr(v, "__name__", type(v).__name__))
        )
        return Settings(
            kind=spec.kind,
            samples=spec.samples,
            num_fewshot=few.num if few else 0,
            limit=spec.limit,
            limit_seed=spec.limit_seed,
            source=source,
            **sampling,
        )

    # -- identity ----------------------------------------------------------------------------------------------------

    @cached_property
    def _prompt_fields(self) -> dict[str, Any]:
        # what an examples' source gives is what counts; as a function it has no text that is the same in every process
        fields = self.spec.model_dump(mode="json", exclude={**dict.fromkeys(_NOT_PROMPT, True), "fewshot": {"source"}})
        if self.spec.fewshot is not None:
            _ = self._example_places  # too few examples show here, before anything runs
        fields["examples"] = digest([item_content(e) for e in self.examples])
        return fields

    def fingerprint_parts(self) -> dict[str, str]:
        """SHA-256 of what is asked (`items`, `prompt`, `sampling`) and how answers are read (`answer`).

        The pipeline adds the versions of the metrics.
        """
        content = sorted((item_content(item) for item in self.items), key=lambda c: str(c["id"]))
        return {
            "items": digest(content),
            "prompt": digest(self._prompt_fields),
            "sampling": digest([self.spec.sampling.model_dump(mode="json"), self.spec.samples]),
            "answer": digest([self.spec.answer, self.spec.answer_pick]),
        }


def _source_table(source: Rows) -> dict[str, Any]:
    if isinstance(source, Mapping):
        return dict(source)
    if isinstance(source, str | Path):
        return {"kind": "file", "path": str(source)}
    if callable(source):
        return {"kind": "function", "function": source}
    found = list(source)

    def rows() -> list[Mapping[str, Any]]:
        return found

    return {"kind": "function", "function": rows}


def _build_source(table: Mapping[str, Any], origin: str) -> Source:
    kind = table.get("kind")
    if not isinstance(kind, str):
        raise TaskError(f"{origin}: kind", got=kind, allowed=", ".join(catalog.keys("midflight.tasks.sources")))
    return build(catalog.load("midflight.tasks.sources", kind, Source), table, origin)  # type: ignore[type-abstract]
