"""Mean curves of runs that differ in their seed alone, with t-intervals over runs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from typing_extensions import TypedDict

from midflight.analyse.group_difference import Aggregate, GroupDifference, aggregates_of, differences_of
from midflight.analyse.groups import Group, GroupCurve, group_curves, groups_of
from midflight.panel.panel import Panel
from midflight.panel.parameters import Choice, Flag, Level, Text, Texts
from midflight.panel.plain import metrics_of
from midflight.records import EvalReport

PATH = "/api/groups"
PARAMETERS = (
    Text("project", "Only runs of this project."),
    Texts("pattern", "Glob, or regular expression whose group names the strategy; repeat it.", most=20),
    Choice("by", "What a pattern is held against.", default="name", values=("name", "tag")),
    Text("task", "Only this task."),
    Text("metric", "The metric; else the first of each task."),
    Text("slice", "A slice, as `name=value`."),
    Flag("paired", "Whether runs of the same seed are pairs."),
    Level("level", "Confidence level."),
)
MOST_RUNS = 500
_SEED = re.compile(r"(.*[-_ .])?((?:seed|s|rep|run)[-_=]?)([0-9]{1,6})$", re.IGNORECASE)


class Member(TypedDict):
    """A run of a group."""

    id: int
    name: str
    seed: str | None


class GroupShape(TypedDict):
    """Runs of one strategy."""

    name: str
    runs: list[Member]


class Answer(TypedDict):
    """Groups; the records are those of `midflight groups --json`."""

    groups: list[GroupShape]
    tasks: list[str]
    metrics: list[str]
    curves: list[GroupCurve]
    differences: list[GroupDifference]
    aggregates: list[Aggregate]
    suggested: list[str]


def answer(
    panel: Panel,
    *,
    project: str,
    pattern: Sequence[str],
    by: Any,
    task: str,
    metric: str,
    slice: str,
    paired: bool,
    level: float,
) -> Answer:
    """The groups that patterns make of runs; without a pattern, patterns that would make some."""
    runs = panel.store.runs(project or None)
    suggested = _suggested([run.name for run in runs])
    if not pattern:
        return {
            "groups": [],
            "tasks": [],
            "metrics": [],
            "curves": [],
            "differences": [],
            "aggregates": [],
            "suggested": suggested,
        }
    groups = groups_of(runs[:MOST_RUNS], pattern, by)
    reports = [report for group in groups for report in _first_reports(panel, group)]
    curves = group_curves(panel.store, groups, task or None, metric or None, slice, level)
    return {
        "groups": [
            {
                "name": group.name,
                "runs": [{"id": one.run.id, "name": one.run.name, "seed": one.seed} for one in group.members],
            }
            for group in groups
        ],
        "tasks": list(dict.fromkeys(report.task for report in reports)),
        "metrics": list(dict.fromkeys(key for one in reports if task in ("", one.task) for key in metrics_of(one))),
        "curves": curves,
        "differences": differences_of(curves, paired),
        "aggregates": aggregates_of(curves, seed=0),
        "suggested": suggested,
    }


def _first_reports(panel: Panel, group: Group) -> list[EvalReport]:
    """Evaluations of the first run of a group that has any: the others were asked the same."""
    return next(filter(None, (panel.store.reports(one.run.id) for one in group.members)), [])


def _suggested(names: Sequence[str]) -> list[str]:
    r"""Patterns by which at least two runs are one strategy: their names end in a seed.

    >>> _suggested(["a-seed0", "a-seed1", "b-seed0", "other"])
    ['(.+)-seed\\d+']
    """
    found: Counter[str] = Counter()
    stems: dict[str, Counter[str]] = {}
    for name in dict.fromkeys(names):
        match = _SEED.match(name)
        if match is not None and match[1]:
            pattern = f"(.+){re.escape(match[1][-1] + match[2])}\\d+".replace("\\-", "-")
            found[pattern] += 1
            stems.setdefault(pattern, Counter())[match[1]] += 1
    return [pattern for pattern, _ in found.most_common() if max(stems[pattern].values()) > 1]
