"""Runs that differ in their number of workers: speed-up, efficiency and Amdahl's law."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import TypedDict

from midflight.analyse.scaling import Timing, scaling_of
from midflight.errors import ConfigError
from midflight.estimate.amdahl import Amdahl, Prediction
from midflight.panel.panel import Panel
from midflight.panel.parameters import Ids, Level, Text

PATH = "/api/scaling"
PARAMETERS = (
    Ids("runs", "The runs.", most=100),
    Text("by", "Key of the configuration that says how many workers a run has; else its number of ranks."),
    Text("goal", "`step=1000`, `SERIES=value` or `task/metric=value`; else the steps that all runs have logged."),
    Level("level", "Confidence level."),
)
CURVE_POINTS = 40
REACH = 2
"""Times the largest number of workers that the law is drawn up to."""


class Answer(TypedDict):
    """What `midflight scaling --json` says; `curve` is what the law says of counts up to twice the largest."""

    work: str
    unit: str
    timings: list[Timing]
    law: Amdahl | None
    curve: list[Prediction]


def answer(panel: Panel, *, runs: Sequence[int], by: str, goal: str, level: float) -> Answer:
    """The timings and the law."""
    if not runs:
        raise ConfigError("parameter runs", allowed="one run or more, as in runs=3,4")
    found = scaling_of(panel.store, panel.chosen(runs), by=by, goal=goal, level=level)
    return {
        "work": found.work,
        "unit": found.unit,
        "timings": list(found.timings),
        "law": found.law,
        "curve": [] if found.law is None else _curve(found.law),
    }


def _curve(law: Amdahl) -> list[Prediction]:
    """The law at counts that are evenly spread on a log axis."""
    low, high = law.counts
    return [law.at(low * (REACH * high / low) ** (i / CURVE_POINTS)) for i in range(CURVE_POINTS + 1)]
