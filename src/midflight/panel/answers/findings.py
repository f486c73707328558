"""What is wrong with runs: findings with their evidence, and which detectors could judge."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import TypedDict

from midflight import catalog
from midflight.analyse.diagnose import PACKAGE
from midflight.panel.panel import Panel
from midflight.panel.parameters import Ids, Text
from midflight.panel.shapes import DiagnosisShape

PATH = "/api/findings"
PARAMETERS = (
    Text("project", "Only runs of this project."),
    Ids("runs", "Only these runs; else the newest 200."),
)
MOST_RUNS = 200


class RunDiagnosis(TypedDict):
    """A run and what the detectors say of it."""

    run: int
    name: str
    diagnosis: DiagnosisShape


class DetectorShape(TypedDict):
    """A detector."""

    kind: str
    summary: str


class Answer(TypedDict):
    """Diagnoses of runs, newest first."""

    runs: list[RunDiagnosis]
    detectors: list[DetectorShape]


def answer(panel: Panel, *, project: str, runs: Sequence[int]) -> Answer:
    """The diagnoses."""
    pulses = {pulse.run: pulse for pulse in panel.store.pulses()}
    chosen = panel.chosen(runs) if runs else panel.store.runs(project or None)[:MOST_RUNS]
    return {
        "runs": [
            {"run": run.id, "name": run.name, "diagnosis": panel.diagnoses.of(run, pulses[run.id])}
            for run in chosen
            if run.id in pulses
        ],
        "detectors": [{"kind": key, "summary": catalog.summary(PACKAGE, key)} for key in catalog.keys(PACKAGE)],
    }
