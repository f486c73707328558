"""Which runs, read from the files of one folder, are one, and what the one has of each.

Two are one if they hold the same values at the same steps (a log and a tracker's copy of it), or if the later one is of
the same format and goes on where the earlier one ends, or behind its start, as after a resume.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from midflight.analyse.importers._records import newest
from midflight.analyse.importers._source import Unread
from midflight.analyse.importers.base import ImportedRun, Series
from midflight.analyse.names import CLOCKS, canonical_name, canonical_names

_NEAR, _NEAR_ABSOLUTE = 1e-3, 1e-4  # a console prints four digits
_AGREE, _ENOUGH = 0.95, 2
_SHARED = 0.5
_TELLS_NOTHING = CLOCKS | {"learning_rate"}
SUMMARY = "wandb_summary"


def join(runs: Sequence[ImportedRun], name: str) -> list[ImportedRun]:
    """Runs of a folder, those that are one joined.

    Args:
        runs: In the order of their files.
        name: Of the folder: what a run of several files is called.
    """
    curves = [run for run in runs if run.series and SUMMARY not in run.formats]
    others = [run for run in runs if not (run.series and SUMMARY not in run.formats)]
    if not curves:
        return list(runs[:1]) if not any(run.series for run in runs) else list(runs)
    joined: list[ImportedRun] = []
    for run in curves:
        for place, known in enumerate(joined):
            if (one := _one(known, run)) is not None:
                joined[place] = replace(one, name=name)
                break
        else:
            joined.append(run)
    if len(joined) == 1:
        for other in others:
            joined = [_with_summary(joined[0], other)]
    return joined


def _one(first: ImportedRun, second: ImportedRun) -> ImportedRun | None:
    """Both as one run; None if they are two."""
    if _same_values(first, second):
        return _union(first, second)
    if first.formats == second.formats and _goes_on(first, second):
        return _concatenated(first, second)
    return None


def _same_values(first: ImportedRun, second: ImportedRun) -> bool:
    agreeing = compared = 0
    for name, series in first.series.items():
        other = _counterpart(name, first, second)
        if (
            other is None
            or (canonical_name(name) or name) in _TELLS_NOTHING
            or (series.values == series.values[0]).all()
        ):
            continue
        _, ours, theirs = np.intersect1d(series.steps, second.series[other].steps, return_indices=True)
        near = np.isclose(
            series.values[ours], second.series[other].values[theirs], _NEAR, _NEAR_ABSOLUTE, equal_nan=True
        )
        agreeing, compared = agreeing + int(near.sum()), compared + len(near)
    return compared >= _ENOUGH and agreeing >= _AGREE * compared


def _counterpart(name: str, first: ImportedRun, second: ImportedRun) -> str | None:
    """The name in the second run of what the first one calls so."""
    if name in second.series:
        return name
    meant = first.canonical.get(name) or _bare(name)
    return next((other for other in second.series if (second.canonical.get(other) or _bare(other)) == meant), None)


def _bare(name: str) -> str:
    return name.removeprefix("train/")


def _union(first: ImportedRun, second: ImportedRun) -> ImportedRun:
    """Each quantity once, from the run that has more points of it."""
    series, evals = dict(first.series), set(first.eval_keys)
    for name, one in second.series.items():
        ours = _counterpart(name, second, first)
        if ours is None or len(one) > len(first.series[ours]):
            if ours is not None:
                series.pop(ours, None)
            series[name] = one
            evals |= {name} & second.eval_keys
    return _combined(first, second, series, evals, f"joined: {_files(second)} holds the same run")


def _goes_on(first: ImportedRun, second: ImportedRun) -> bool:
    shared = first.series.keys() & second.series.keys()
    if not shared or len(shared) < _SHARED * min(len(first.series), len(second.series)):
        return False
    starts = min(int(first.series[key].steps[0]) for key in shared)
    again = min(int(second.series[key].steps[0]) for key in shared)
    return again > starts


def _concatenated(first: ImportedRun, second: ImportedRun) -> ImportedRun:
    series = {**first.series, **second.series}
    evals = set(first.eval_keys | second.eval_keys)
    superseded = 0
    for name in first.series.keys() & second.series.keys():
        parts = (first.series[name], second.series[name])
        steps = np.concatenate([part.steps for part in parts])
        keep, _ = newest(steps, late=name in evals)
        superseded += len(steps) - len(keep)
        walls = None
        if parts[0].walls is not None and parts[1].walls is not None:
            walls = np.concatenate([parts[0].walls, parts[1].walls])[keep]
        series[name] = Series(steps[keep], np.concatenate([part.values for part in parts])[keep], walls)
    both = _combined(first, second, series, evals, f"joined: {_files(second)} goes on at step {second.first_step}")
    return replace(both, num_superseded=both.num_superseded + superseded)


def _combined(
    first: ImportedRun, second: ImportedRun, series: dict[str, Series], evals: set[str], note: str
) -> ImportedRun:
    counts = [one for one in (first.planned_steps, second.planned_steps) if one is not None]
    reached = [one for one in (first.reached_step, second.reached_step) if one is not None]
    both = replace(
        first,
        files=first.files + second.files,
        formats=tuple(dict.fromkeys(first.formats + second.formats)),
        series=series,
        canonical=canonical_names(series),
        eval_keys=frozenset(evals & series.keys()),
        config={**first.config, **second.config},
        summary={**first.summary, **second.summary},
        planned_steps=max(counts, default=None),
        reached_step=max(reached, default=None),
        num_superseded=first.num_superseded + second.num_superseded,
        unread=_counted_together(first.unread + second.unread),
    )
    ends = "ends at step "
    notes = [one for one in (*first.notes, *second.notes) if not one.startswith(ends)]
    return replace(both, notes=(*dict.fromkeys(notes), note, *both.ending()))


def _with_summary(run: ImportedRun, other: ImportedRun) -> ImportedRun:
    """A run with what a file without a curve says beside it."""
    last = {name: float(series.values[-1]) for name, series in other.series.items()}
    return replace(
        run,
        files=run.files + other.files,
        formats=tuple(dict.fromkeys(run.formats + other.formats)),
        config={**other.config, **run.config},
        summary={**last, **other.summary, **run.summary},
    )


def _counted_together(unread: Sequence[Unread]) -> tuple[Unread, ...]:
    kinds: dict[str, Unread] = {}
    for one in unread:
        known = kinds.get(one.kind)
        kinds[one.kind] = one if known is None else replace(known, count=known.count + one.count)
    return tuple(kinds.values())


def _files(run: ImportedRun) -> str:
    return ", ".join(name.rsplit("/", 1)[-1] for name in run.files)
