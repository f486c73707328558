"""What is known of one set of weights: the report of each task, and the item scores behind it, wherever they lie."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from midflight.catalog import unknown
from midflight.errors import ConfigError, shorten
from midflight.records import EvalReport, Item, Output, Subject
from midflight.schema import reports_from_json
from midflight.store import RunInfo, ScoreColumns, Store, open_store

NO_SCORES = ScoreColumns()


@dataclass(frozen=True)
class Evidence:
    """One task on one set of weights: its report alone, as a file has it.

    Attributes:
        report: The report.
    """

    report: EvalReport

    def scores(self, metric: str) -> ScoreColumns:
        """Score of each item; empty if they are not kept, or the metric scores no items."""
        return NO_SCORES

    @property
    def items(self) -> Mapping[str, Item]:
        """Items by id; empty if they are not kept."""
        return {}

    def outputs(self) -> Mapping[str, Output]:
        """Outputs by request id; empty if they are not kept."""
        return {}

    @property
    def clustered(self) -> bool:
        """Whether some items are not independent, as far as the report tells."""
        return any(e.clusters < e.num_scored for e in self.report.estimates if "cluster" in e.method)

    @cached_property
    def contents(self) -> dict[str, str]:
        """Item ids by what the items say: an id may be a mere line number."""
        found: dict[str, str] = {}
        for item in self.items.values():
            text = json.dumps([item.row, item.target], sort_keys=True, default=str)
            found.setdefault(hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest(), item.id)
        return found


@dataclass(frozen=True)
class StoredEvidence(Evidence):
    """One task on one set of weights, as a store has it.

    Attributes:
        store: The store.
    """

    store: Store

    def scores(self, metric: str) -> ScoreColumns:
        """Score of each item."""
        return self.store.score_columns(self.report.id, metric)

    @cached_property
    def items(self) -> Mapping[str, Item]:  # read once
        """Items by id."""
        return self.store.items(self.report.task_fingerprint)

    def outputs(self) -> Mapping[str, Output]:
        """Outputs by request id."""
        return self.store.outputs(self.report.id)


@dataclass(frozen=True)
class Side:
    """One side of a comparison: a set of weights with all that was evaluated on it.

    Attributes:
        label: As the user named it.
        evidence: By task.
    """

    label: str
    evidence: Mapping[str, Evidence]

    def of(self, task: str) -> Evidence:
        """The evidence of a task.

        Raises:
            UnknownKeyError: If it was not evaluated.
        """
        if task not in self.evidence:
            raise unknown(f"evaluated tasks of {self.label}", task, sorted(self.evidence))
        return self.evidence[task]

    @property
    def subject(self) -> Subject:
        """What it is, for a record."""
        reports = [evidence.report for evidence in self.evidence.values()]
        steps, weights, runs = (
            {r.progress.step for r in reports},
            {r.weights for r in reports},
            {(r.project, r.run) for r in reports},
        )
        project, run = next(iter(runs)) if len(runs) == 1 else ("", "")
        return Subject(
            label=self.label,
            project=project,
            run=run,
            step=next(iter(steps)) if len(steps) == 1 else None,
            weights=next(iter(weights)) if len(weights) == 1 else "",
            evaluations={report.task: report.id for report in reports},
        )


def side_of(store: Store | None, wanted: str) -> Side:
    """What a person names: a run (its last evaluation of each task), ``RUN@STEP``, or a file or folder of results.

    Args:
        store: Where runs are looked for; None = only files are named.
        wanted: ``RUN``, ``RUN@STEP``, ``RUN@first``, ``RUN@last`` (all tasks of the last evaluated step), a report's
            JSON file, or a result file or folder of lm-evaluation-harness.

    Raises:
        ConfigError: If there is no such thing; says what there is.
    """
    if is_file(wanted):
        return side_of_files(Path(wanted))
    if store is None:
        raise ConfigError(f"no file or folder {shorten(wanted)!r}")
    _, reports = reports_of(store, wanted)
    newest = {report.task: report for report in sorted(reports, key=lambda r: (r.progress.step, r.started_at))}
    return Side(wanted, {task: StoredEvidence(report, store) for task, report in sorted(newest.items())})


def reports_of(store: Store, wanted: str) -> tuple[RunInfo, list[EvalReport]]:
    """The run that a person means, and its evaluations by step; behind an ``@`` those of a step, ``first`` or ``last``.

    Raises:
        ConfigError: If there is no such run, or no such evaluation; says what there is.
    """
    name, at, step = wanted.rpartition("@")
    if at and any(run.name == wanted for run in store.runs()):
        name, at = "", ""  # the @ is part of a name
    run = find_run(store, name if at else wanted)
    reports = store.reports(run.id)
    if not reports:
        raise ConfigError(f"run {run.name!r} has no finished evaluation", hint=f"midflight show {run.name}")
    return run, _at_step(reports, step, run.name) if at else reports


def named_sides(wanted: Sequence[str], store: str | None = None) -> list[Side]:
    """What a person names, each as `side_of` reads it; the store is opened only if a run is among them.

    Args:
        wanted: Runs, steps of runs, files.
        store: URL of the store; None = the default one.

    Raises:
        ConfigError: If one is not there.
        StoreError: If a run is named and there is no store.
    """
    opened = None if all(map(is_file, wanted)) else open_store(store, create=False)
    return [side_of(opened, one) for one in wanted]


def is_file(wanted: str) -> bool:
    """Whether a person names a file or folder, and no run."""
    return Path(wanted).suffix == ".json" or (is_there(wanted) and Path(wanted).is_dir())


def is_there(wanted: str) -> bool:
    """Whether a person names a file or folder that is there."""
    try:
        return wanted != "" and Path(wanted).exists()  # Path("") is the folder that one is in
    except OSError:  # a name that is too long for a file
        return False


def _at_step(reports: list[EvalReport], step: str, run: str) -> list[EvalReport]:
    steps = sorted({report.progress.step for report in reports})
    named = {"first": steps[0], "last": steps[-1]}
    chosen = named.get(step, int(step) if step.isdecimal() and len(step) < 20 else None)
    if chosen not in steps:
        raise ConfigError(f"step of run {run!r}", got=step, allowed=f"first, last, {', '.join(map(str, steps))}")
    return [report for report in reports if report.progress.step == chosen]


def side_of_files(path: Path) -> Side:
    """The results in a file or folder.

    Raises:
        ConfigError: If it cannot be read, or holds no results.
    """
    from midflight.analyse.lm_eval import is_lm_eval, read_lm_eval

    if path.is_dir():
        return read_lm_eval(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None
    if is_lm_eval(text):
        return read_lm_eval(path)
    try:
        reports = reports_from_json(text)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error.message}") from None
    if not reports:
        raise ConfigError(f"{path} holds no report")
    return Side(str(path), {report.task: Evidence(report) for report in reports})


def runs_of(store: Store, project: str | None = None) -> list[RunInfo]:
    """All runs, or those of a project, the newest first.

    Raises:
        ConfigError: If there is no such project; says which there are.
    """
    found = store.runs(project)
    if project is not None and not found:
        raise unknown_project(store, project, {run.project for run in store.runs()})
    return found


def unknown_project(store: Store, project: str, known: Iterable[str]) -> ConfigError:
    """The error for a project that is not there."""
    names = ", ".join(sorted(known)[:20]) or "none yet"
    return ConfigError(f"no project {shorten(project)!r} in {store.url}", hint=f"there are: {shorten(names, 500)}")


def find_run(store: Store, wanted: str, project: str | None = None) -> RunInfo:
    """The run that a person means: its number, its name, or project/name; the newest of that name.

    Args:
        store: Where it is.
        wanted: What the person says.
        project: Only of this project.

    Raises:
        ConfigError: If there is none; says which there are.
    """
    runs = runs_of(store, project)
    if wanted.isdecimal() and len(wanted) < 20:
        found = [run for run in runs if run.id == int(wanted)]
    else:
        found = [run for run in runs if wanted in (run.name, f"{run.project}/{run.name}")]
    if not found:
        names = ", ".join(dict.fromkeys(run.name for run in runs[:10])) or "none yet"
        where = f"project {shorten(project)!r} of {store.url}" if project is not None else store.url
        raise ConfigError(f"no run {shorten(wanted)!r} in {where}", hint=f"there are: {shorten(names, 500)}")
    return found[0]
