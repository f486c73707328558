"""Whether training should end now: on evidence, from what was noticed and from whether a task still improves.

Nothing is counted: patience is the interval of the slope over the last checkpoints. All of it is read from the store,
so that a resumed run decides as if it had never stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from midflight.analyse.curves import curves_of
from midflight.analyse.paired import item_scores
from midflight.analyse.slope import Slope, slope_of
from midflight.analyse.trend import LAST
from midflight.errors import ConfigError
from midflight.records import Finding
from midflight.store import RunInfo, Store


@dataclass(frozen=True, slots=True)
class StopAdvice:
    """Why training should end, and where to go back to.

    Attributes:
        step: Where training stood when it was said.
        reason: Why, in words.
        kind: Kind of the finding; ``no_gain`` if no task improves any more.
        return_to: Step of the best checkpoint that was evaluated before the trouble; None if there is none.
    """

    step: int
    reason: str
    kind: str
    return_to: int | None

    def __str__(self) -> str:
        back = "" if self.return_to is None else f"; the best checkpoint before is that of step {self.return_to}"
        return f"training should end at step {self.step}: {self.reason}{back}"


def advice_of_findings(
    store: Store, run: RunInfo, findings: Sequence[Finding], step: int, tasks: Sequence[str]
) -> StopAdvice | None:
    """The word of the detectors: the first finding of severity `stop`.

    Args:
        store: Where the evaluations are.
        run: The run.
        findings: What was noticed in it.
        step: Where training stands.
        tasks: Tasks that tell which checkpoint is the best, the first one first.
    """
    grave = next((finding for finding in findings if finding.severity == "stop"), None)
    if grave is None:
        return None
    return StopAdvice(step, f"{grave.kind}: {grave.text}", grave.kind, _best(store, run, tasks, grave.onset))


def advice_of_trends(
    store: Store, run: RunInfo, step: int, tasks: Sequence[str], min_gain: float = 0.0, level: float = 0.95
) -> StopAdvice | None:
    """The word of the evaluations: every task that has a direction has stopped improving, by its interval.

    Args:
        store: Where the evaluations are.
        run: The run.
        step: Where training stands.
        tasks: Tasks to look at.
        min_gain: Improvement in 1,000 steps that counts, in the unit of each task's first metric.
        level: Confidence level of the slopes.
    """
    slopes = {task: _slope(store, run, task, min_gain, level) for task in tasks}
    if not slopes or any(slope is None or slope.improving in ("yes", "cannot tell") for slope in slopes.values()):
        return None
    judged = [(task, slope) for task, slope in slopes.items() if slope is not None and slope.improving == "no"]
    if not judged:
        return None
    task, slope = judged[0]
    reason = (
        f"no task improves any more: {task} {slope.value:+.3g} [{slope.ci_low:+.3g}, {slope.ci_high:+.3g}] in 1,000"
        f" steps over the last {slope.n} checkpoints"
    )
    return StopAdvice(step, reason, "no_gain", _best(store, run, tasks, step))


def _slope(store: Store, run: RunInfo, task: str, min_gain: float, level: float) -> Slope | None:
    """Slope of the newest curve of a task over its last checkpoints; None if there are too few."""
    try:
        curve = curves_of(store, [run], task)[-1]
    except ConfigError:  # not evaluated yet
        return None
    window = replace(curve, reports=curve.reports[-LAST:])
    scores = item_scores(store, window) if len(window.reports) > 1 else None
    return slope_of(window, scores, level=level, min_gain=min_gain)


def _best(store: Store, run: RunInfo, tasks: Sequence[str], before: int) -> int | None:
    """Step of the best evaluation up to a step, by the first task's first metric."""
    for task in tasks:
        found = []
        for report in store.reports(run.id, task):
            first = report.judging[0]
            if first.value is not None and first.higher_is_better is not None and report.progress.step <= before:
                found.append((first.value if first.higher_is_better else -first.value, report.progress.step))
        if found:
            return max(found, key=lambda pair: pair[0])[1]
    return None
