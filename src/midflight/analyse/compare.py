"""Two sets of weights or more, task by task: which is better, by how much, and is it noise?"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from midflight.analyse.evidence import Evidence, Side, named_sides
from midflight.analyse.pairing import PARTS, Pairing, check_comparable, pair
from midflight.catalog import unknown
from midflight.errors import ConfigError
from midflight.estimate.paired import holm
from midflight.estimate.quantiles import normal_quantile, normal_tail
from midflight.records import Comparison, Conclusion, Difference, Estimate, OverallIndex


def compare(
    baseline: Side | str | Path,
    *candidates: Side | str | Path,
    store: str | None = None,
    tasks: Collection[str] = (),
    metrics: Collection[str] = (),
    slices: bool = False,
    only_common_items: bool = False,
    across: Collection[str] = (),
    level: float = 0.95,
) -> Comparison:
    """Compares sets of weights with a baseline, item by item.

    Args:
        baseline: A run (``NAME``, ``NAME@STEP``), a report's JSON file, or results of lm-evaluation-harness.
        candidates: One or more of the same.
        store: URL of the store where runs are looked for; None = the default one.
        tasks: Tasks to compare; empty = all that both sides have.
        metrics: Metrics to compare; empty = the first of each task; ``all`` = all of them.
        slices: Whether to compare slice by slice, too.
        only_common_items: Compares the items that both sides have, where they have not the same.
        across: Parts of the task that may differ, because their effect is in question: prompt, grader, sampling.
        level: Confidence level; 1 − level is the family-wise error rate of the findings.

    Returns:
        One row a candidate, task, metric and slice, with p-values adjusted over all of them.

    Raises:
        ConfigError: If a side is not there, or was not asked the same.
    """
    if not candidates:
        raise ConfigError("nothing to compare with", hint="name a baseline, and one or more candidates")
    for part in across:
        if part not in PARTS[1:]:
            raise unknown("parts that may differ", part, list(PARTS[1:]))
    if not 0 < level < 1:
        raise ConfigError("level", got=level, allowed="between 0 and 1")
    first, *others = _sides([baseline, *candidates], store)
    rows: list[Difference] = []
    left_out: list[str] = []
    for side in others:
        chosen = _tasks(side, first, tasks)
        left_out += [
            f"{task}: {side.label if task in side.evidence else first.label} alone has it"
            for task in sorted({*side.evidence, *first.evidence} - set(chosen))
            if not tasks
        ]
        for task in chosen:
            a, b = side.of(task), first.of(task)
            differing = check_comparable(a, b, only_common_items=only_common_items, allowed=across)
            for estimate in _estimates(a, b, {_plain(metric, task) for metric in metrics}, slices):
                row = _difference(side.label, pair(a, b, estimate.metric, estimate.slice), estimate, task, level)
                rows.append(replace(row, note="; ".join(filter(None, [*_notes(a, b, differing, across), row.note]))))
    _check_metrics(metrics, rows, [side.of(task) for side in others for task in _tasks(side, first, tasks)])
    if not rows:
        raise ConfigError("no task was evaluated on both sides", hint="; ".join(left_out))
    rows = judged(rows, level)
    overall = [index for side in others if (index := _overall(side, rows, level))]
    return Comparison(first.subject, [side.subject for side in others], rows, overall, left_out)


def _sides(wanted: Sequence[Side | str | Path], store: str | None) -> list[Side]:
    named = iter(named_sides([str(side) for side in wanted if not isinstance(side, Side)], store))
    sides = [side if isinstance(side, Side) else next(named) for side in wanted]
    twice = next((side.label for side in sides if [s.label for s in sides].count(side.label) > 2), None)
    if twice is not None:
        raise ConfigError(f"{twice!r} is named more than twice")
    return sides


def _tasks(candidate: Side, baseline: Side, wanted: Collection[str]) -> list[str]:
    """Tasks to compare.

    Raises:
        UnknownKeyError: If one that was asked for is not on both sides.
    """
    for task in wanted:
        candidate.of(task), baseline.of(task)
    return [task for task in candidate.evidence if task in baseline.evidence and (not wanted or task in wanted)]


def _estimates(a: Evidence, b: Evidence, metrics: Collection[str], slices: bool) -> Iterator[Estimate]:
    """The estimates of the candidate that are to be compared."""
    judging, theirs = a.report.judging, {(e.metric, e.slice) for e in b.report.estimates}
    wanted = set(metrics) or {e.metric for e in judging[:1]}
    for estimate in a.report.estimates:
        key = (estimate.metric, estimate.slice)
        if wanted & {estimate.metric, "all"} and key in theirs and (slices or not estimate.slice):
            yield estimate


def _plain(metric: str, task: str) -> str:
    """The metric that ``task/metric`` names for this task."""
    return metric.removeprefix(f"{task}/")


def _check_metrics(metrics: Collection[str], rows: Sequence[Difference], asked: Sequence[Evidence]) -> None:
    """Refuses a metric that no task has.

    Raises:
        UnknownKeyError: Says what there is.
    """
    found = {name for row in rows for name in (row.metric, f"{row.task}/{row.metric}")}
    known = sorted({estimate.metric for evidence in asked for estimate in evidence.report.estimates})
    for metric in set(metrics) - {"all"} - found:
        raise unknown("metrics of these tasks", metric, known)


def _notes(a: Evidence, b: Evidence, differing: Collection[str], across: Collection[str]) -> Iterator[str]:
    """What a reader has to know of the two sides before the numbers."""
    if a.report.id == b.report.id:
        yield "the same evaluation on both sides"
    elif a.report.weights and a.report.weights == b.report.weights:
        yield "the same weights on both sides"
    crossed = [part for part in differing if part in across]
    if crossed:
        yield f"other {', '.join(crossed)}"


def _difference(label: str, pairing: Pairing, estimate: Estimate, task: str, level: float) -> Difference:
    row = Difference(
        label,
        task,
        estimate.metric,
        estimate.slice,
        candidate_value=pairing.candidate,
        baseline_value=pairing.baseline,
        level=level,
        only_candidate=pairing.only_candidate,
        only_baseline=pairing.only_baseline,
        correlation=pairing.correlation,
        unit=estimate.unit,
        higher_is_better=estimate.higher_is_better,
        note=pairing.note,
    )
    found = pairing.difference
    if found is None:
        return _unpaired(row, *pairing.estimates)
    interval = found.interval(level)
    p_value, test = found.p_value
    up, down = found.num_better, found.num_worse
    better, worse = (up, down) if estimate.higher_is_better is not False else (down, up)
    return replace(
        row, value=interval.value, stderr=interval.stderr, ci_low=interval.low, ci_high=interval.high, p_value=p_value,
        test=test, method=interval.method, n=found.n, num_better=better, num_worse=worse,
    )  # fmt: skip


def _unpaired(row: Difference, candidate: Estimate, baseline: Estimate) -> Difference:
    """The difference of two estimates as if of independent items: √(se² + se²), which pairs would make smaller."""
    n = min(candidate.num_scored, baseline.num_scored)
    if candidate.value is None or baseline.value is None:
        notes = [row.note, *(f"no value: {e.note}" for e in (candidate, baseline) if e.value is None and e.note)]
        return replace(row, n=n, method="none", note="; ".join(filter(None, notes)))
    value = candidate.value - baseline.value
    if not candidate.stderr or not baseline.stderr or not math.isfinite(value):
        return replace(row, value=value, n=n, method="unpaired, no error known")
    stderr = math.hypot(candidate.stderr, baseline.stderr)
    half = normal_quantile((1 + row.level) / 2) * stderr
    return replace(
        row, value=value, stderr=stderr, ci_low=value - half, ci_high=value + half, n=n,
        p_value=2 * normal_tail(abs(value) / stderr), test="normal", method="unpaired, normal",
    )  # fmt: skip


def judged(rows: Sequence[Difference], level: float) -> list[Difference]:
    """The rows with p-values adjusted over all of them, and what they come to.

    Args:
        rows: All that is told together.
        level: 1 − level is the family-wise error rate of the findings.
    """
    tested = [index for index, row in enumerate(rows) if row.p_value is not None]
    adjusted = dict(zip(tested, holm([rows[index].p_value or 0.0 for index in tested]), strict=True))
    return [
        replace(row, p_adjusted=adjusted.get(index), finding=_finding(row, adjusted.get(index), level))
        for index, row in enumerate(rows)
    ]


def _finding(row: Difference, p_adjusted: float | None, level: float) -> Conclusion:
    if p_adjusted is None or p_adjusted > 1 - level or not row.value:
        return "undecided"
    if row.higher_is_better is None:
        return "different"
    return "better" if (row.value > 0) == row.higher_is_better else "worse"


def _overall(side: Side, rows: Sequence[Difference], level: float) -> OverallIndex | None:
    """The mean over tasks; None with fewer than two that can be averaged."""
    first: dict[str, Difference] = {}
    for row in rows:
        if row.candidate == side.label and not row.slice:
            first.setdefault(row.task, row)
    scaled, left_out = [], []
    for task, row in first.items():
        estimate = side.of(task).report.estimate(row.metric)
        if estimate.lowest is None or estimate.highest is None or row.higher_is_better is None:
            left_out.append(f"{task}: {row.metric} has no range or direction")
        elif row.value is None or not row.stderr:
            left_out.append(f"{task}: its difference has no error")
        else:
            scale = (estimate.highest - estimate.lowest) * (1 if row.higher_is_better else -1)
            scaled.append((task, row.value / scale, row.stderr / abs(scale)))
    if len(scaled) < 2:
        return None
    value = math.fsum(value for _, value, _ in scaled) / len(scaled)
    stderr = math.sqrt(math.fsum(error**2 for *_, error in scaled)) / len(scaled)
    half = normal_quantile((1 + level) / 2) * stderr
    p_value = 2 * normal_tail(abs(value) / stderr)
    tasks = [task for task, *_ in scaled]
    return OverallIndex(side.label, value, stderr, value - half, value + half, level, p_value, tasks, left_out)
