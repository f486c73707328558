"""One evaluation item by item: what was asked, answered, right, and how it was scored; all of it hostile text."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from midflight.errors import shorten
from midflight.records import SCORED, EvalReport, Item, Output, Score, State
from midflight.show.lines import number, visible
from midflight.store import Store

ITEMS_SHOWN = 20
_LABEL = 10
"""Columns of what stands before a text."""


@dataclass(frozen=True, slots=True)
class ItemResult:
    """What became of one item.

    Attributes:
        item: The item.
        state: How it ended.
        note: Why it is not `ok`.
        failed: True if it is not `ok`, or its first score from 0 to 1 is below 1.
        scores: Score of each metric that scores items.
        outputs: What the engine answered, in order of samples and parts.
    """

    item: Item
    state: State
    note: str
    failed: bool
    scores: Sequence[Score]
    outputs: Sequence[Output]

    def plain(self) -> dict[str, Any]:
        """As plain as JSON wants it."""
        return {
            "id": self.item.id,
            "row": self.item.row,
            "target": self.item.target,
            "slices": self.item.slices,
            "state": self.state,
            "note": self.note,
            "failed": self.failed,
            "scores": {score.metric: {"value": score.value, "state": score.state} for score in self.scores},
            "outputs": [dataclasses.asdict(output) for output in self.outputs],
        }


def results_of(store: Store, report: EvalReport) -> list[ItemResult]:
    """The items of an evaluation as the store has them, sorted by id."""
    outputs: dict[str, list[Output]] = {}
    for output in sorted(store.outputs(report.id).values(), key=lambda o: place(o.request_id)):
        outputs.setdefault(output.request_id.rsplit("/", 2)[0], []).append(output)
    keys = dict.fromkeys(e.metric for e in [*report.judging, *report.estimates])
    scores = {key: {score.item_id: score for score in store.scores(report.id, key)} for key in keys}
    graded = _is_graded(next((list(found.values()) for found in scores.values() if found), []))
    results = []
    for item in sorted(store.items(report.task_fingerprint).values(), key=lambda item: item.id):
        own = [found[item.id] for found in scores.values() if item.id in found]
        answers = outputs.get(item.id, [])
        state, note = _ending(own, answers)
        wrong = graded and bool(own) and own[0].value is not None and own[0].value < 1
        results.append(ItemResult(item, state, note, state != "ok" or wrong, own, answers))
    return results


def place(request: str) -> tuple[int, int]:
    """Where an output stands among those of its item: sample and part."""
    _, sample, part = request.rsplit("/", 2)
    return int(sample), int(part)


def _is_graded(scores: Sequence[Score]) -> bool:
    """Whether a score says how right an answer is: from 0 to 1."""
    return all(0 <= score.value <= 1 for score in scores if score.value is not None)


def _ending(scores: Sequence[Score], outputs: Sequence[Output]) -> tuple[State, str]:
    """How an item ended, as the first metric that scores items sees it, or as its outputs tell."""
    if scores:
        first = next((score for score in scores if score.state not in SCORED), scores[0])
        return first.state, first.note
    error = next((output.error for output in outputs if output.error is not None), None)
    if error is not None:
        return "error", error
    return ("ok", "") if outputs else ("not_run", "not answered")


def print_items(console: Console, results: Sequence[ItemResult], full: bool) -> None:
    """Prints items: on a line a text, as wide as the screen, or all of it.

    Args:
        console: Where to.
        results: The items.
        full: Whether to show all items, and all of their texts.
    """
    shown = results if full else results[:ITEMS_SHOWN]
    for result in shown:
        console.print(_heading(result), soft_wrap=True)
        for label, text in _texts(result):
            console.print(Text(f"  {label:<{_LABEL}}") + Text(_fitted(text, console.width, full)), soft_wrap=True)
    if len(shown) < len(results):
        console.print(f"{len(shown)} of {len(results)} items; --full shows all of them, and all of their texts")


def _heading(result: ItemResult) -> Text:
    """Id, state, scores and slices of an item."""
    scores = ", ".join(f"{shorten(score.metric, 40)} {number(score.value)}" for score in result.scores)
    slices = ", ".join(f"{name}={value}" for name, value in result.item.slices.items())
    heading = Text(shorten(result.item.id, 60), style="bold")
    heading.append(f"  {result.state}", style="red" if result.failed else "green")
    heading.append(f"  {scores}" + (f"  [{shorten(slices, 80)}]" if slices else ""), style="not bold")
    return heading


def _texts(result: ItemResult) -> list[tuple[str, str]]:
    """What is shown of an item, each with what it is."""
    found = [("row", json.dumps(result.item.row, ensure_ascii=False, default=str))]
    if result.item.target is not None:
        found.append(("target", said(result.item.target)))
    found += [("output", answer_text(output)) for output in result.outputs if output.error is None]
    if result.note:
        found.append(("note", result.note))
    return found


def said(value: Any) -> str:
    """A value of a row as text."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def answer_text(output: Output) -> str:
    """What an output says: text, log-probability or reward."""
    if output.logprob is not None:
        return f"log-probability {number(output.logprob)} over {output.num_tokens} tokens"
    if output.reward is not None:
        return f"reward {number(output.reward)}"
    return output.text + (" … cut at max_tokens" if output.finish == "length" else "")


def _fitted(text: str, width: int, full: bool) -> str:
    """A text with its control characters made visible: on one line of the screen, or on as many as it has."""
    if not full:
        return shorten(text, max(20, width - _LABEL - 2))
    return visible(text).replace("\n", "\n" + " " * (_LABEL + 2))
