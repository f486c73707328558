"""What stands at the steps of a run: evaluations, checkpoints, resumes, and what did not take place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from typing_extensions import TypedDict

from midflight.errors import ConfigError
from midflight.panel.panel import Panel
from midflight.panel.releases import judged_checkpoints, releases_of
from midflight.records import EvalReport
from midflight.store import RunInfo
from midflight.triggers.checkpoints import step_of

MOST_MARKERS = 1000
TEXT = 300
"""Characters that say what it is."""
SHORT = 12
"""Characters of a hash."""

Kind = Literal["evaluation", "missing", "checkpoint", "best", "promoted", "resume"]


class Marker(TypedDict):
    """Something that stands at a step.

    A `checkpoint` is one that is kept under a path, as far as the store knows: it was evaluated from there, or a
    workflow was carried out for it; `promoted` is one that was released. `best` is what was measured best.
    """

    kind: Kind
    step: int
    text: str


def markers_of(
    panel: Panel, run: RunInfo, reports: Sequence[EvalReport], missing: Iterable[Mapping[str, Any]], level: float
) -> list[Marker]:
    """The markers of a run by step, the newest if there are too many.

    Args:
        panel: Where the run is.
        run: The run.
        reports: Its evaluations.
        missing: Those that were due and did not take place.
        level: Confidence level of the best checkpoints.
    """
    found: list[tuple[Kind, int, str]] = [
        *_evaluations(reports),
        *_checkpoints(panel, run, reports),
        *_best(panel, run, level),
        *(("missing", one["step"], f"{one['task']}: {one['reason']}") for one in missing),
        *(
            ("resume", step, f"attempt {number}")
            for number, _, step in panel.store.attempts(run.id)
            if number > 1 and step is not None
        ),
    ]
    made: list[Marker] = [{"kind": kind, "step": step, "text": text[:TEXT]} for kind, step, text in found]
    return sorted(made, key=lambda marker: marker["step"])[-MOST_MARKERS:]


def _evaluations(reports: Sequence[EvalReport]) -> Iterator[tuple[Kind, int, str]]:
    """A marker a step, with the tasks and the weights."""
    by_step: dict[int, list[EvalReport]] = {}
    for report in reports:
        by_step.setdefault(report.progress.step, []).append(report)
    for step, own in by_step.items():
        tasks = ", ".join(dict.fromkeys(report.task for report in own))
        weights = ", ".join(dict.fromkeys(report.weights[:SHORT] for report in own if report.weights))
        yield "evaluation", step, f"{tasks} ({weights})" if weights else tasks


def _checkpoints(panel: Panel, run: RunInfo, reports: Sequence[EvalReport]) -> Iterator[tuple[Kind, int, str]]:
    """Where checkpoints are kept, and which were released as what."""
    paths = dict(_evaluated_paths(reports))
    for step, execution in judged_checkpoints(panel, run, [report.id for report in reports]):
        paths.setdefault(step, execution.checkpoint)
        for release in releases_of([execution], []):
            yield "promoted", step, f"{release['target']} ({release['weights'][:SHORT]}), {release['workflow']}"
    for step, path in paths.items():
        yield "checkpoint", step, path


def _evaluated_paths(reports: Sequence[EvalReport]) -> Iterator[tuple[int, str]]:
    """Paths that weights were read from, by step.

    In a training process an engine names the model that training began with, at each step the same: what counts is a
    path whose name ends with the step, and which was evaluated at no other step.
    """
    steps: dict[str, set[int]] = {}
    for report in reports:
        steps.setdefault(str(report.engine.get("model", "")), set()).add(report.progress.step)
    for path, found in steps.items():
        if len(found) == 1 and _named_step(path) in found:
            yield found.pop(), path


def _named_step(path: str) -> int | None:
    """The number that the name of a path ends with; None if it is no path in a folder, or does not."""
    try:
        step = step_of(Path(path))
    except ConfigError:
        return None
    in_folder = Path(path).parent != Path()
    return step if in_folder and Path(path.removesuffix(".gguf")).name.endswith(str(step)) else None


def _best(panel: Panel, run: RunInfo, level: float) -> Iterator[tuple[Kind, int, str]]:
    """The best checkpoint of each task that has several and a better direction, by its first metric."""
    tasks: dict[int, list[str]] = {}
    for curve in panel.curves(run):
        trend = panel.trend(run, curve, level) if len(curve.reports) > 1 else None
        if trend is not None and trend.best is not None:
            tasks.setdefault(trend.best.step, []).append(f"{curve.task} {curve.metric}")
    for step, named in tasks.items():
        yield "best", step, ", ".join(named)
