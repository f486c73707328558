"""What is wrong with a run: its records go through all detectors in order, live or in hindsight alike."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from midflight import catalog
from midflight.analyse.algorithm import guess_algorithm, named_algorithm
from midflight.analyse.detectors.base import Algorithm, Detector, Facts, Moment, Track
from midflight.analyse.importers import ImportedRun, import_details
from midflight.analyse.names import canonical_name, canonical_names
from midflight.errors import UnknownKeyError, shorten
from midflight.records import SEVERITIES, EvalReport, Finding
from midflight.store import RunInfo, Store

PACKAGE = "midflight.analyse.detectors"

_Plan: TypeAlias = tuple[list[str], list[tuple[Detector, Sequence[str]]]]
"""For records of certain names: those that are kept, and detectors with those that they look at."""

Columns: TypeAlias = Mapping[str, tuple[Sequence[int], Sequence[float]]]
"""Steps and values of each series, by canonical name."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What was noticed in a run.

    Attributes:
        run: Its name.
        algorithm: What was trained how, as the detectors took it.
        findings: What was noticed, in the order in which it was.
        num_records: Records that were looked at.
        first_step: Step of the first of them.
        last_step: Step of the last.
        judged: Detectors that had enough data.
        lacking: Detectors that had their series, and too little of it.
        failed: Detectors that raised, and what; they looked at nothing after it.
    """

    run: str
    algorithm: Algorithm
    findings: Sequence[Finding]
    num_records: int
    first_step: int
    last_step: int
    judged: Sequence[str]
    lacking: Sequence[str]
    failed: Mapping[str, str] = field(default_factory=dict)


class Watch:
    """All detectors on one run, record by record.

    Args:
        facts: What is known of the run.
        kinds: Detectors to use; None = all that make sense for the algorithm.

    Attributes:
        findings: What was noticed so far, in the order in which it was.
        failed: Detectors that raised, and what: they may be anybody's, and the others go on without them.

    Raises:
        UnknownKeyError: If there is no such detector.
    """

    def __init__(self, facts: Facts, kinds: Sequence[str] | None = None) -> None:
        self.facts = facts
        self.findings: list[Finding] = []
        self.failed: dict[str, str] = {}
        self.num_records, self.first_step, self.last_step = 0, 0, 0
        self._tracks: dict[str, Track] = {}
        self._detectors: list[Detector] = []
        for kind in catalog.keys(PACKAGE) if kinds is None else kinds:
            try:
                detector = catalog.load(PACKAGE, kind, Detector)()  # type: ignore[type-abstract]
            except UnknownKeyError:
                raise
            except Exception as error:  # a plugin may raise anything, when it is imported too
                self.failed[kind] = f"{type(error).__name__}: {shorten(str(error))}"
                continue
            type(detector).kind = kind
            if facts.algorithm in detector.algorithms:
                self._detectors.append(detector)
        self._plans: dict[tuple[str, ...], _Plan] = {}
        self._asked: set[str] = set()
        self._said: dict[str, int] = {}  # kind to place of its severity

    def record(self, step: int, values: Mapping[str, float]) -> list[Finding]:
        """Takes a record, by canonical names; what was noticed at it for the first time."""
        names = tuple(values)
        plan = self._plans.get(names)
        if plan is None:
            plan = self._plans[names] = self._plan(names)
        watched, detectors = plan
        if not watched:
            return []
        span = max(1, step - self.last_step) if self.num_records else max(1, step)
        if self.num_records == 0:
            self.first_step = step
        self.num_records, self.last_step = self.num_records + 1, step
        for name in watched:
            track = self._tracks.get(name)
            if track is None:
                track = self._tracks[name] = Track()
            track.add(step, values[name])
        now = Moment(step, span, values, self._tracks, self.facts)
        found = []
        for detector, now.names in detectors:
            try:
                finding = detector.update(now)
            except Exception as error:  # a plugin may raise anything
                self._leave_out(detector.kind, error)
                continue
            if finding is not None:
                found.append(finding)
        return self._new(found) if found else []

    def _leave_out(self, kind: str, error: Exception) -> None:
        self.failed[kind] = f"{type(error).__name__}: {shorten(str(error))}"
        self._detectors = [one for one in self._detectors if one.kind != kind]
        self._plans.clear()

    def _new(self, found: Sequence[Finding]) -> list[Finding]:
        """Findings that say something new: each kind once, and once more when it has become worse.

        A detector has said all that it can when it has said it with its own severity.
        """
        new = [one for one in found if SEVERITIES.index(one.severity) > self._said.get(one.kind, -1)]
        if not new:
            return []
        self._said |= {one.kind: SEVERITIES.index(one.severity) for one in new}
        self._detectors = [
            one for one in self._detectors if self._said.get(one.kind, -1) < SEVERITIES.index(one.severity)
        ]
        self._plans.clear()
        self.findings += new
        return new

    def diagnosis(self, run: str = "") -> Diagnosis:
        """What was noticed so far, and who could judge."""
        found = {finding.kind for finding in self.findings}
        judged = sorted({detector.kind for detector in self._detectors if detector.enough} | found)
        return Diagnosis(
            run,
            self.facts.algorithm,
            list(self.findings),
            self.num_records,
            self.first_step,
            self.last_step,
            judged,
            sorted(self._asked - set(judged) - self.failed.keys()),
            dict(self.failed),
        )

    def _plan(self, names: Sequence[str]) -> _Plan:
        """Which values of a record are kept, and which detectors look at which of them."""
        wanted = {need for detector in self._detectors for need in detector.needs} | _ALWAYS
        watched = [name for name in names if name in wanted or _family(name) in wanted]
        asked: list[tuple[Detector, Sequence[str]]] = [
            (detector, named)
            for detector in self._detectors
            if (named := [name for name in names if name in detector.needs or _family(name) in detector.needs])
        ]
        self._asked |= {detector.kind for detector, _ in asked}
        return watched, asked


_ALWAYS = frozenset(
    {"loss", "eval_loss", "epoch", "reward", "clipped_ratio", "completion_length", "logps_rejected", "logps_chosen"}
)
"""Series that detectors look back on beside those that they are asked at."""


def _family(name: str) -> str:
    """``rewards/`` for ``rewards/format``."""
    head, slash, _ = name.partition("/")
    return head + slash


def diagnose(run: str, columns: Columns, facts: Facts, kinds: Sequence[str] | None = None) -> Diagnosis:
    """All that the detectors notice in a run, in hindsight; each sees only what came before.

    Args:
        run: The run's name.
        columns: Its series, by canonical name.
        facts: What is known of it.
        kinds: Detectors to use; None = all.
    """
    watch = Watch(facts, kinds)
    for step, values in records_of(columns):
        watch.record(step, values)
    return watch.diagnosis(run)


def records_of(columns: Columns) -> Iterable[tuple[int, dict[str, float]]]:
    """The records that series were made of: all values of a step together, by step."""
    records: dict[int, dict[str, float]] = {}
    for name, (steps, values) in columns.items():
        for step, value in zip(steps, values, strict=True):
            records.setdefault(int(step), {})[name] = float(value)
    return sorted(records.items())


_CHECKPOINT = re.compile(r"checkpoint-(\d+)$")


def diagnose_log(log: ImportedRun, kinds: Sequence[str] | None = None) -> Diagnosis:
    """What was wrong with a run that others logged.

    Args:
        log: The run, as it was imported.
        kinds: Detectors to use; None = all.
    """
    columns = columns_of_log(log)
    return diagnose(log.name, columns, facts_of_log(log, columns), kinds)


def columns_of_log(log: ImportedRun) -> Columns:
    """The series of a log that have a canonical name."""
    return {
        canonical: (log.series[original].steps.tolist(), log.series[original].values.tolist())
        for original, canonical in log.canonical.items()
    }


def facts_of_log(log: ImportedRun, columns: Columns) -> Facts:
    """What a log tells of its run beside the series."""
    names = {canonical: original for original, canonical in log.canonical.items()}
    facts = facts_of_config(log.config, names, columns, log.formats)
    return replace(facts, planned_steps=log.planned_steps or facts.planned_steps)


def diagnose_run(store: Store, run: RunInfo, kinds: Sequence[str] | None = None) -> Diagnosis:
    """What is wrong with a run of the store: its series, and what was evaluated on it.

    Args:
        store: The store.
        run: The run.
        kinds: Detectors to use; None = all.
    """
    columns, names = columns_of(store, run.id)
    found = diagnose(run.name, columns, facts_of_run(run, names, columns), kinds)
    known = {finding.kind for finding in found.findings}
    told = [f for f in store.findings(run.id) if f.kind not in known and (kinds is None or f.kind in kinds)]
    findings = sorted([*found.findings, *told], key=lambda finding: finding.noticed)  # what was said then stays said
    return replace(found, findings=findings)


def columns_of(store: Store, run: int) -> tuple[Columns, dict[str, str]]:
    """All series of a run that have a canonical name, with what was evaluated; and the names as they were logged."""
    names = {canonical: original for original, canonical in canonical_names(store.keys(run)).items()}
    columns: dict[str, tuple[list[int], list[float]]] = {}
    for canonical, original in names.items():
        points = store.read_points(run, original)
        columns[canonical] = points.steps.tolist(), points.values.tolist()
    for name, step, value in held_out(store.reports(run)):
        steps, values = columns.setdefault(name, ([], []))
        steps.append(step)
        values.append(value)
    return columns, names


def held_out(reports: Iterable[EvalReport]) -> Iterator[tuple[str, int, float]]:
    """What evaluations measured, as series: ``heldout/<task>/<metric>``, signed so that more is better."""
    for report in reports:
        for estimate in report.judging:
            if estimate.value is not None and estimate.higher_is_better is not None:
                sign = 1 if estimate.higher_is_better else -1
                yield f"heldout/{report.task}/{estimate.metric}", report.progress.step, sign * estimate.value


def facts_of_run(run: RunInfo, names: Mapping[str, str], columns: Columns) -> Facts:
    """What a run of the store tells beside its series: its configuration, or what the log was that it came from."""
    details = import_details(run)
    facts = facts_of_config(run.config, names, columns, details.get("formats", ()))
    return replace(facts, planned_steps=_whole(details.get("planned_steps")) or facts.planned_steps)


def facts_of_config(
    config: Mapping[str, Any], names: Mapping[str, str], columns: Columns, formats: Iterable[str] = ()
) -> Facts:
    """What a run's configuration tells of it; the keys are those of HF and TRL."""
    first = {name: values[0] for name, (_, values) in columns.items() if len(values)}
    judge, best_step = _best(config, columns)
    return Facts(
        named_algorithm(config) or guess_algorithm(names, first, formats),
        _whole(config.get("max_steps")),
        _whole(config.get("max_completion_length")),
        names,
        judge,
        best_step,
    )


def _best(config: Mapping[str, Any], columns: Columns) -> tuple[str, int | None]:
    """The series by which HF's trainer picks its best checkpoint, and the step of that; None if it tells none.

    The state of a trainer has the step and the value, its arguments the name. The loss is the default.
    """
    arguments = config.get("args")
    named = (arguments if isinstance(arguments, Mapping) else config).get("metric_for_best_model")
    checkpoint = _CHECKPOINT.search(str(config.get("best_model_checkpoint")))
    step = _whole(config.get("best_global_step")) or (int(checkpoint[1]) if checkpoint else None)
    for name, (steps, values) in columns.items():
        if name.startswith("eval_") and step in steps and values[steps.index(step)] == config.get("best_metric"):
            return name, step
    if not isinstance(named, str):
        return "eval_loss", None
    original = f"eval_{named.removeprefix('eval_')}"
    return canonical_name(original) or original, None


def _whole(value: Any) -> int | None:
    return int(value) if isinstance(value, int | float) and value > 0 else None
