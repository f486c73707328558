"""Which evaluations of a task make one curve (those of one fingerprint, engine and seed), and what tells curves apart.

A name of the model (its path or URL) changes from checkpoint to checkpoint. It tells curves apart only where two models
were evaluated at one step.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from midflight.errors import shorten
from midflight.records import EvalReport

PLACES = ("model", "url")
"""Traits that say where the model was; they change from checkpoint to checkpoint."""
_DIGEST = 8


@dataclass(frozen=True, slots=True)
class Variant:
    """Evaluations of one task that can be compared with each other.

    Attributes:
        traits: What they have in common: seed, settings of the engine, parts of the task's fingerprint.
        reports: The evaluations, by step.
    """

    traits: dict[str, str]
    reports: list[EvalReport]


def variants_of(reports: Sequence[EvalReport]) -> list[Variant]:
    """Evaluations of one task in one run as curves, in the order in which they begin."""
    found: dict[tuple[tuple[str, str], ...], list[EvalReport]] = {}
    for report in reports:
        found.setdefault(tuple(_traits(report).items()), []).append(report)
    variants = [Variant(dict(traits), members) for traits, members in found.items()]
    for name in PLACES:
        variants = [part for variant in variants for part in _split(variant, name)]
    return variants


def labels_of(variants: Sequence[Variant]) -> list[str]:
    """What tells each variant from the others, e.g. ``dtype=bfloat16, seed=1``; empty where nothing does."""
    names = dict.fromkeys(name for variant in variants for name in variant.traits)
    telling = [
        name
        for name in names
        if len({variant.traits.get(name) for variant in variants}) > 1
        # what only one kind of engine has is told by the engine's name
        and (name in PLACES or all(name in variant.traits for variant in variants))
    ]
    return [
        ", ".join(f"{name}={_short(variant.traits[name])}" for name in telling if name in variant.traits)
        for variant in variants
    ]


def row_labels(reports: Sequence[EvalReport]) -> dict[str, str]:
    """What tells evaluations of one task in one run from each other, by their ids.

    Where a variant has two at one step their weights differ, and are named.
    """
    variants = variants_of(reports)
    found = {}
    for variant, label in zip(variants, labels_of(variants), strict=True):
        at = Counter(report.progress.step for report in variant.reports)
        for report in variant.reports:
            weights = f"weights={_short(report.weights)}" if at[report.progress.step] > 1 else ""
            found[report.id] = ", ".join(filter(None, (label, weights)))
    return found


def newest_of_each(reports: Sequence[EvalReport]) -> list[tuple[EvalReport, str]]:
    """The last evaluation of each task, of each of its variants, with what tells these apart."""
    found = []
    for task in dict.fromkeys(report.task for report in reports):
        variants = variants_of([report for report in reports if report.task == task])
        for variant, label in zip(variants, labels_of(variants), strict=True):
            found.append((newest_by_step(variant.reports)[-1], label))
    return found


def newest_by_step(reports: Sequence[EvalReport]) -> list[EvalReport]:
    """The evaluations of a variant with one a step: that which was begun last."""
    newest = {report.progress.step: report for report in sorted(reports, key=lambda report: report.started_at)}
    return [newest[step] for step in sorted(newest)]


def _traits(report: EvalReport) -> dict[str, str]:
    engine = {name: str(value) for name, value in report.engine.items() if name not in PLACES}
    parts = report.fingerprint_parts or {"task": report.task_fingerprint}
    return {**engine, "seed": str(report.seed), **parts}


def _short(trait: str) -> str:
    """A trait for a label: of a digest, the beginning."""
    return trait[:_DIGEST] if re.fullmatch(r"[0-9a-f]{16,}", trait) else shorten(trait, 40)


def _split(variant: Variant, name: str) -> list[Variant]:
    """By model or URL, if there are several at one step."""
    parts: dict[str, list[EvalReport]] = {}
    for report in variant.reports:
        parts.setdefault(_place(report, name), []).append(report)
    steps = Counter(step for members in parts.values() for step in {report.progress.step for report in members})
    if len(parts) < 2 or max(steps.values()) < 2:
        return [variant]
    return [Variant({**variant.traits, name: place}, members) for place, members in parts.items()]


def _place(report: EvalReport, name: str) -> str:
    """Model or URL with its own step left open: `checkpoint-100` and `checkpoint-200` are one series."""
    return re.sub(rf"(?<!\d)0*{report.progress.step}(?!\d)", "{step}", str(report.engine.get(name, "")))
