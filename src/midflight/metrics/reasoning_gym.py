"""The verifier that each reasoning-gym task brings: full credit 1, partial credit between."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, ClassVar

from midflight.errors import MetricError
from midflight.metrics.base import Grade, SampleMetric
from midflight.records import READ_CHARACTERS, Sample
from midflight.workers import worker_pool

LIMIT_S = 10.0

VERIFY = "midflight.tasks.sources.reasoning_gym:verify"
"""Stands beside the generator, and is called in a worker."""


class ReasoningGym(SampleMetric):
    """Score by reasoning-gym's own verifier, in a process of its own: it parses what a model wrote."""

    low: ClassVar[float | None] = 0.0
    high: ClassVar[float | None] = 1.0

    def grades(self, samples: Sequence[Sample]) -> list[Grade]:
        """Verdicts on the extracted answers; where none was found, 0."""
        asked = [sample for sample in samples if sample.prediction is not None]
        calls = [(*_puzzle(sample), str(sample.prediction)[-READ_CHARACTERS:]) for sample in asked]
        results = iter(worker_pool().map(VERIFY, calls, LIMIT_S, "gym"))
        return [Grade(0.0) if sample.prediction is None else _grade(next(results)) for sample in samples]


def _puzzle(sample: Sample) -> tuple[str, int, int, str, int]:
    try:
        puzzle = sample.item.row["puzzle"]
        return puzzle["name"], puzzle["size"], puzzle["seed"], json.dumps(puzzle["options"]), puzzle["index"]
    except (KeyError, TypeError):
        raise MetricError(
            "the metric reasoning_gym grades rows of the reasoning_gym source only",
            got=f"columns {', '.join(map(str, sample.item.row))}",
        ) from None


def _grade(result: dict[str, Any]) -> Grade:
    if "error" in result:
        return Grade(None, "error", f"reasoning-gym's verifier: {result['error']}")
    return Grade(float(result["value"]))
