"""The columns of the table of runs, and which of them a line has room for.

All that somebody has named is a `rich.text.Text` with its control characters made visible: no markup, no escape.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from rich.text import Text

from midflight.errors import shorten
from midflight.panel.shapes import DiagnosisShape, EstimateShape, FindingShape
from midflight.panel.state import State
from midflight.panel.top.row import Row, TaskLine
from midflight.panel.top.strokes import sparkline
from midflight.records import Conclusion, Difference, Severity
from midflight.show.lines import duration, interval, number, signed_with_interval

GAP = 2
"""Characters between two columns."""
SILENT_S = 60.0
"""Seconds after which a run's process is called silent: it writes every ten, whatever it does."""
NOT_READ = Text("…", "dim")
NOTHING = Text("–", "dim")

STATES: dict[State, tuple[str, str]] = {
    "running": ("●", "green"),
    "finished": ("✓", "default"),
    "failed": ("✗", "bold red"),
    "interrupted": ("‖", "yellow"),
    "lost": ("?", "bold red"),
}
SEVERITIES: dict[Severity, tuple[str, str]] = {
    "stop": ("■", "bold red"),
    "warn": ("▲", "yellow"),
    "note": ("●", "cyan"),
}
"""Sign and colour of each gravity, the worst first."""
VERDICTS: dict[Conclusion, tuple[str, str]] = {
    "better": ("better", "green"),
    "worse": ("worse", "red"),
    "different": ("different", "default"),
    "undecided": ("could be noise", "dim"),
}
"""What a comparison has found, in a word and a colour."""
IMPROVING = {"yes": ("↗", "green"), "no": ("→", "yellow"), "cannot tell": ("?", "dim")}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table.

    Attributes:
        key: Its name.
        title: What stands above it.
        width: Characters.
        most: Characters that it takes where there is room.
        cell: What it says of a run at a time, in so many characters.
    """

    key: str
    title: str
    width: int
    most: int
    cell: Callable[[Row, float, int], Text]


def columns_within(width: int) -> list[Column]:
    """The columns that a line of so many characters has room for: those that are needed most, in their order."""
    chosen: list[str] = []
    for key in _NEED:
        if chosen and sum(_BY_KEY[one].width + GAP for one in [*chosen, key]) > width:
            break
        chosen.append(key)
    room = width - sum(_BY_KEY[key].width + GAP for key in chosen)
    more: dict[str, int] = {}
    for key in _GROW:
        if key in chosen:
            more[key] = max(0, min(_BY_KEY[key].most - _BY_KEY[key].width, room))
            room -= more[key]
    return [replace(one, width=one.width + more.get(one.key, 0)) for one in COLUMNS if one.key in chosen]


def _name(row: Row, now: float, width: int) -> Text:
    del now
    return Text(shorten(row.info.name, width), "bold" if row.state == "running" else "")


def state_text(row: Row, now: float) -> Text:
    """A run's state in a sign and a word; since when nothing was heard of it, where that means something."""
    if row.damage:
        return Text("✗ damaged", "red")
    sign, style = STATES[row.state]
    silent = now - row.pulse.heartbeat
    if row.state == "running" and silent > SILENT_S:
        return Text(f"{sign} silent {short_duration(silent)}", "yellow")
    return Text(f"{sign} {row.state}" + (f" {short_duration(silent)}" if row.state == "lost" else ""), style)


def short_duration(seconds: float) -> str:
    """Time in its largest unit.

    >>> [short_duration(s) for s in (3.2, 59.7, 61, 7_300, 200_000)]
    ['3 s', '60 s', '1 min', '2 h', '2 d']
    """
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def _state(row: Row, now: float, width: int) -> Text:
    del width
    return state_text(row, now)


def step_text(row: Row, width: int = 40) -> Text:
    """The step of the planned steps."""
    pace = row.found.pace if row.found is not None else None
    step = row.pulse.last_step
    if step is None and row.found is not None:
        step = max((task.step for task in row.found.tasks), default=None)
    if step is None:
        return NOTHING
    if pace is None or pace.planned_steps is None:
        return Text(f"{step:,}")
    about = "≈" if pace.is_estimated else ""
    whole = f"{step:,}/{about}{pace.planned_steps:,}"
    return Text(whole if len(whole) <= width else f"{number(step)}/{about}{number(pace.planned_steps)}")


def _step(row: Row, now: float, width: int) -> Text:
    del now
    return step_text(row, width)


def _left(row: Row, now: float, width: int) -> Text:
    del now, width
    if row.state != "running" or row.found is None or row.found.pace.seconds_left is None:
        return NOTHING
    return Text(duration(row.found.pace.seconds_left))


def speed_text(row: Row) -> Text:
    """Tokens a second, or steps where tokens are not logged."""
    if row.found is None:
        return NOT_READ
    pace = row.found.pace
    if pace.tokens_per_second is not None and math.isfinite(pace.tokens_per_second):
        return Text(f"{number(pace.tokens_per_second, 3)} tok/s")
    return NOTHING if pace.steps_per_second is None else Text(f"{number(pace.steps_per_second, 3)} steps/s")


def _speed(row: Row, now: float, width: int) -> Text:
    del now, width
    return speed_text(row)


def value_style(value: float | None) -> str:
    """A value that is no number stands out."""
    return "bold red" if value is not None and not math.isfinite(value) else ""


def _leading(row: Row, now: float, width: int) -> Text:
    del now
    if row.found is None:
        return NOT_READ
    leading = row.found.leading
    if leading is None:
        return NOTHING
    spark = max(4, width - _NAME - _NUMBER - 2)
    name = shorten(leading.key.rpartition("/")[2] or leading.key, _NAME)
    text = Text(f"{name:<{_NAME}} ", "dim")
    text.append(f"{number(leading.value, 3):>{_NUMBER}} ", value_style(leading.value) or "not dim")
    return text.append(sparkline(leading.values, spark), "cyan not dim")


_NAME, _NUMBER = 8, 7


def estimate_text(estimate: EstimateShape) -> str:
    """A value with its interval."""
    return interval(estimate["value"], estimate["ci_low"], estimate["ci_high"])


def difference_text(difference: Difference) -> str:
    """A difference with its interval."""
    return signed_with_interval(difference.value, difference.ci_low, difference.ci_high)


def _task(row: Row, now: float, width: int) -> Text:
    del now
    if row.found is None:
        return NOT_READ
    if not row.found.tasks:
        return NOTHING
    first, *others = row.found.tasks
    value, more = estimate_text(first.estimate), f" +{len(others)}" if others else ""
    text = Text(f"{shorten(first.task, max(4, width - len(value) - len(more) - 1))} ", "dim")
    return text.append(value, "not dim").append(more, "dim")


def _since(row: Row, now: float, width: int) -> Text:
    del now, width
    if row.found is None:
        return NOT_READ
    if not row.found.tasks or row.found.tasks[0].difference is None:
        return NOTHING
    first = row.found.tasks[0]
    return verdict_text(first).append(" ").append(*improving_sign(first))


def verdict_text(task: TaskLine) -> Text:
    """The difference to the first checkpoint, in the colour of what it means."""
    if task.difference is None:
        return NOTHING.copy()
    return Text(difference_text(task.difference), VERDICTS[task.difference.finding][1])


def improving_sign(task: TaskLine) -> tuple[str, str]:
    """Whether a task still improves, in a sign and a colour."""
    return IMPROVING.get(task.improving or "", ("", ""))


def worst_first(diagnosis: DiagnosisShape) -> list[FindingShape]:
    """Findings, the worst first, the newest of them first."""
    order = list(SEVERITIES)
    return sorted(diagnosis["findings"], key=lambda one: (order.index(one["severity"]), -one["noticed"]))


def findings_text(diagnosis: DiagnosisShape, width: int) -> Text:
    """The worst finding in a word, and how many more there are."""
    found = worst_first(diagnosis)
    if not found:
        return {"ready": Text("none", "dim"), "pending": NOT_READ.copy(), "off": NOTHING.copy()}[diagnosis["status"]]
    sign, style = SEVERITIES[found[0]["severity"]]
    more = f" +{len(found) - 1}" if len(found) > 1 else ""
    text = Text(f"{sign} {shorten(found[0]['kind'], max(3, width - len(more) - 2))}", style)
    return text.append(more, "not bold dim")


def _findings(row: Row, now: float, width: int) -> Text:
    del now
    return NOT_READ if row.found is None else findings_text(row.found.diagnosis, width)


def _evaluations(row: Row, now: float, width: int) -> Text:
    del now, width
    pulse, share = row.pulse, row.found.train_share if row.found is not None else None
    if not (pulse.num_evaluations or pulse.num_unfinished):
        return NOTHING
    parts = [f"{pulse.num_evaluations:,}"]
    parts += [f"{pulse.num_unfinished} open"] if pulse.num_unfinished else []
    parts += [f"{share:.1%}".replace("%", " %")] if share is not None else []
    return Text(" · ".join(parts))


COLUMNS = (
    Column("name", "run", 12, 28, _name),
    Column("state", "state", 13, 15, _state),
    Column("step", "step", 11, 15, _step),
    Column("left", "left", 10, 10, _left),
    Column("findings", "findings", 15, 22, _findings),
    Column("leading", "training", 26, 34, _leading),
    Column("task", "newest evaluation", 30, 38, _task),
    Column("since", "since start", 25, 27, _since),
    Column("speed", "speed", 11, 12, _speed),
    Column("evaluations", "evaluations", 16, 20, _evaluations),
)
_NEED = ("name", "state", "step", "findings", "leading", "task", "since", "left", "speed", "evaluations")
_GROW = ("findings", "task", "name", "leading", "step", "state", "since", "evaluations", "speed")
_BY_KEY = {column.key: column for column in COLUMNS}
