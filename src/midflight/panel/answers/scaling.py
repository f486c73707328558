"""Runs that differ in their number of workers: speed-up, efficiency and Amdahl's law."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from typing_extensions import TypedDict

from midflight.analyse.scaling import scaling_of
from midflight.errors import ConfigError
from midflight.panel.panel import Panel
from midflight.panel.parameters import Ids, Level, Text
from midflight.panel.shapes import Json

PATH = "/api/scaling"
PARAMETERS = (
    Ids("runs", "The runs.", most=100),
    Text("by", "Key of the configuration that says how many workers a run has; else its number of ranks."),
    Text("goal", "`step=1000`, `SERIES=value` or `task/metric=value`; else the steps that all runs have logged."),
    Level("level", "Confidence level."),
)


class Answer(TypedDict):
    """What `midflight scaling --json` says."""

    work: str
    unit: str
    timings: list[dict[str, Json]]
    law: dict[str, Json] | None


def answer(panel: Panel, *, runs: Sequence[int], by: str, goal: str, level: float) -> Answer:
    """The timings and the law."""
    if not runs:
        raise ConfigError("parameter runs", allowed="one run or more, as in runs=3,4")
    found = scaling_of(panel.store, panel.chosen(runs), by=by, goal=goal, level=level)
    return {
        "work": found.work,
        "unit": found.unit,
        "timings": [dataclasses.asdict(one) for one in found.timings],
        "law": None if found.law is None else dataclasses.asdict(found.law),
    }
