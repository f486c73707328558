"""The verifier that each reasoning-gym task brings: full credit 1, partial credit between."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, ClassVar

from midflight.errors import MetricError
from midflight.metrics._pool import grader_pool
from midflight.metrics.base import Grade, SampleMetric
from midflight.records import Sample

LIMIT_S = 10.0


class ReasoningGym(SampleMetric):
    """Score by reasoning-gym's own verifier, in a process of its own: it parses what a model wrote."""

    low: ClassVar[float | None] = 0.0
    high: ClassVar[float | None] = 1.0

    def grades(self, samples: Sequence[Sample]) -> list[Grade]:
        """Verdicts on the extracted answers; where none was found, 0."""
        for sample in samples:
            if not isinstance(sample.item.row.get("puzzle"), dict):
                raise MetricError("the metric reasoning_gym grades rows of the reasoning_gym source only",
                                  got=f"columns {', '.join(sample.item.row)}")  # fmt: skip
        asked = [sample for sample in samples if sample.prediction is not None]
        calls = [(sample.item.row["puzzle"], str(sample.prediction)) for sample in asked]
        results = iter(grader_pool().map(f"{__name__}:verify", calls, LIMIT_S, "gym"))
        return [
            Grade(0.0, None if sample.state == "truncated" else "unparsed")
            if sample.prediction is None
            else _grade(next(results))
            for sample in samples
        ]


def _grade(result: dict[str, Any]) -> Grade:
    if "error" in result:
        return Grade(None, "error", result["error"])
    return Grade(float(result["value"]))


def verify(puzzle: dict[str, Any], answer: str) -> float:
    """The verdict of reasoning-gym; runs in a worker."""
    dataset = _dataset(puzzle["name"], puzzle["size"], puzzle["seed"], json.dumps(puzzle["options"]))
    return float(dataset.score_answer(answer=answer, entry=dataset[puzzle["index"]]))


@lru_cache(maxsize=8)
def _dataset(name: str, size: int, seed: int, options: str) -> Any:
    import reasoning_gym

    return reasoning_gym.create_dataset(name, size=size, seed=seed, **json.loads(options))
