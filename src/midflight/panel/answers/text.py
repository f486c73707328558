"""A text whole: an output, or a column of an item's row."""

from __future__ import annotations

from midflight.errors import ConfigError, NotFoundError
from midflight.panel.panel import Panel
from midflight.panel.parameters import Number, Text
from midflight.panel.plain import bounded, readable
from midflight.panel.references import curve_named
from midflight.panel.shapes import BoundedText as Answer

PATH = "/api/text"
PARAMETERS = (
    Text("evaluation", "The evaluation of an output."),
    Text("request", "The request that it answers."),
    Number("run", "The run of an item.", default=None, high=(1 << 59)),
    Text("task", "The item's task."),
    Text("item", "The item's id."),
    Text("column", "The column of its row, or `target`."),
)
WHOLE = 1 << 20


def answer(
    panel: Panel, *, evaluation: str, request: str, run: int | None, task: str, item: str, column: str
) -> Answer:
    """The text, up to a million characters."""
    if evaluation and request:
        output = panel.store.output(evaluation, request)
        if output is None:
            raise NotFoundError("output", got=request, hint="this evaluation has no such request")
        return bounded(output.text, WHOLE)
    if run is None or not (task and item and column):
        raise ConfigError("parameters", allowed="evaluation and request, or run, task, item and column")
    curve = curve_named(panel, panel.run(run), task, "", "")
    found = panel.store.item(curve.reports[-1].task_fingerprint, item)
    if found is None:
        raise NotFoundError("item", got=item, hint=f"{task} has no such item")
    if column == "target":
        return readable(found.target, WHOLE)
    if column not in found.row:
        raise NotFoundError("column", got=column, allowed=", ".join(map(str, found.row)))
    return readable(found.row[column], WHOLE)
