"""One item over checkpoints and runs: what it says, what was answered, how it was scored, side by side."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import TypedDict

from midflight.analyse.curves import Curve
from midflight.analyse.flips import threshold
from midflight.errors import ConfigError, NotFoundError
from midflight.panel.panel import Panel
from midflight.panel.parameters import Ids, Text
from midflight.panel.plain import bounded, readable
from midflight.panel.references import curve_named
from midflight.panel.shapes import BoundedText
from midflight.records import EvalReport, Item, Output, Score
from midflight.store import RunInfo

PATH = "/api/item"
PARAMETERS = (
    Ids("runs", "Runs side by side, the page's own first.", most=10),
    Text("task", "The task."),
    Text("label", "What tells this way of evaluating the task from others; else the first."),
    Text("metric", "The metric that grades; else the first of the task."),
    Text("item", "The item's id."),
    Ids("steps", "Steps whose answers are shown; else the first, the last, and those at which it flipped.", most=50),
)
MOST_ANSWERS = 6
MOST_OUTPUTS = 64
MOST_COLUMNS = 100
MOST_HISTORY = 2000


class ItemContent(TypedDict):
    """What the item says."""

    id: str
    row: dict[str, BoundedText]
    target: BoundedText | None
    slices: dict[str, str]
    cluster: str | None


class History(TypedDict):
    """Its score at each checkpoint of a run."""

    run: int
    name: str
    metric: str
    steps: list[int]
    values: list[float | None]
    states: list[str]


class ScoreShape(TypedDict):
    """A score."""

    metric: str
    value: float | None
    state: str
    note: str
    samples: list[float | None]


class OutputShape(TypedDict):
    """What the model answered to one request."""

    request: str
    sample: int
    part: int
    text: BoundedText
    num_prompt_tokens: int
    num_tokens: int
    finish_reason: str
    logprob: float | None
    reward: float | None
    entropy: float | None
    error: str | None


class AnswerShape(TypedDict):
    """Its evaluation at one checkpoint."""

    run: int
    name: str
    step: int
    evaluation: str
    state: str
    note: str
    scores: list[ScoreShape]
    outputs: list[OutputShape]
    num_outputs: int


class Answer(TypedDict):
    """An item; `kind` is the task's and says what parts of a sample are; the range is of the metric that grades."""

    task: str
    label: str
    kind: str
    lowest: float | None
    highest: float | None
    higher_is_better: bool | None
    item: ItemContent
    history: list[History]
    answers: list[AnswerShape]
    previous: str | None
    next: str | None


def answer(
    panel: Panel, *, runs: Sequence[int], task: str, label: str, metric: str, item: str, steps: Sequence[int]
) -> Answer:
    """The item on each run that has it."""
    if not runs or not task or not item:
        raise ConfigError("parameters runs, task and item", allowed="all three")
    histories, answers, content = list[History](), list[AnswerShape](), None
    first_curve = None
    for info in panel.chosen(runs):
        try:
            curve = curve_named(panel, info, task, label, metric)
        except ConfigError:
            if first_curve is None and info.id == runs[-1]:
                raise
            continue  # another run need not have the task
        first_curve = first_curve or curve
        fingerprint = curve.reports[-1].task_fingerprint
        content = content or panel.store.item(fingerprint, item)
        history, right = _history(panel, info, curve, item)
        histories.append(history)
        wanted = [at for at, step in enumerate(history["steps"]) if step in steps] if steps else _telling(right)
        answers += [_answer(panel, info, curve.reports[at], item, curve.metric) for at in wanted]
    if first_curve is None or not any(one["states"] and set(one["states"]) != {"unknown"} for one in histories):
        raise NotFoundError("item", got=item, hint=f"no run that was asked for has it in {task}")
    last = first_curve.estimates[-1]
    previous, following = panel.store.neighbours(first_curve.reports[-1].task_fingerprint, item)
    return {
        "task": task,
        "label": first_curve.label,
        "kind": first_curve.reports[-1].settings.kind,
        "lowest": last.lowest,
        "highest": last.highest,
        "higher_is_better": last.higher_is_better,
        "item": _content(item, content),
        "history": histories,
        "answers": answers,
        "previous": previous,
        "next": following,
    }


def _content(id: str, item: Item | None) -> ItemContent:
    if item is None:  # the items were not kept
        return {"id": id, "row": {}, "target": None, "slices": {}, "cluster": None}
    return {
        "id": id,
        "row": {str(name)[:200]: readable(value) for name, value in list(item.row.items())[:MOST_COLUMNS]},
        "target": None if item.target is None else readable(item.target),
        "slices": {name: str(value)[:200] for name, value in item.slices.items()},
        "cluster": item.cluster,
    }


def _history(panel: Panel, run: RunInfo, curve: Curve, item: str) -> tuple[History, list[bool | None]]:
    """Its scores at all checkpoints, and where it is right."""
    reports = curve.reports[-MOST_HISTORY:]
    found = panel.store.item_scores([report.id for report in reports], item, [curve.metric])
    scores = [_score(found[report.id], curve.metric) for report in reports]
    values = [None if score is None else score.value for score in scores]
    try:
        middle, up = threshold(curve.estimates[-1])
        right = [None if value is None else (value > middle) == up for value in values]
    except ConfigError:
        right = [None] * len(values)
    states = ["unknown" if score is None else score.state for score in scores]
    steps = [report.progress.step for report in reports]
    history: History = {
        "run": run.id,
        "name": run.name,
        "metric": curve.metric,
        "steps": steps,
        "values": values,
        "states": states,
    }
    return history, right


def _score(scores: Sequence[Score], metric: str) -> Score | None:
    return next((score for score in scores if score.metric == metric), None)


def _telling(right: Sequence[bool | None]) -> list[int]:
    """The first and the last checkpoint, and the newest of those at which the item flipped."""
    flipped = [at for at in range(1, len(right)) if right[at] != right[at - 1]]
    kept = {0, len(right) - 1}
    for at in reversed(flipped):
        if len(kept) < MOST_ANSWERS:
            kept.add(at)
    return sorted(kept)


def _answer(panel: Panel, run: RunInfo, report: EvalReport, item: str, metric: str) -> AnswerShape:
    metrics = list(dict.fromkeys(one.metric for one in report.estimates))
    scores = panel.store.item_scores([report.id], item, metrics)[report.id]
    outputs = panel.store.item_outputs(report.id, item)
    leading = _score(scores, metric)
    error = next((output.error for output in outputs if output.error), "")
    state = leading.state if leading is not None else "error" if error else "ok" if outputs else "not_run"
    return {
        "run": run.id,
        "name": run.name,
        "step": report.progress.step,
        "evaluation": report.id,
        "state": state,
        "note": bounded((leading.note if leading is not None else "") or error)["text"],
        "scores": [
            {
                "metric": one.metric,
                "value": one.value,
                "state": one.state,
                "note": bounded(one.note)["text"],
                "samples": list(one.samples)[:MOST_OUTPUTS],
            }
            for one in sorted(scores, key=lambda one: one.metric != metric)
        ],
        "outputs": [_output(one) for one in outputs[:MOST_OUTPUTS]],
        "num_outputs": len(outputs),
    }


def _output(output: Output) -> OutputShape:
    _, sample, part = output.request_id.rsplit("/", 2)
    return {
        "request": output.request_id,
        "sample": int(sample),
        "part": int(part),
        "text": bounded(output.text),
        "num_prompt_tokens": output.num_prompt_tokens,
        "num_tokens": output.num_tokens,
        "finish_reason": output.finish,
        "logprob": output.logprob,
        "reward": output.reward,
        "entropy": output.entropy,
        "error": None if output.error is None else bounded(output.error)["text"],
    }
