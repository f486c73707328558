r"""Mathematical equality, by Math-Verify: ½, 0.5 and \frac{1}{2} are the same answer.

Two inputs on which Math-Verify 0.9 says yes where the answer is plainly no are put right here: numbers that differ by
less than its numeric precision (1/2004! and 1/2006!), and an upright ``\mathrm{e}``, at whose brace it stops reading.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar

from midflight.metrics.base import Grade, SampleMetric
from midflight.records import READ_CHARACTERS, Sample
from midflight.workers import worker_pool

LIMIT_S = 5.0
VERIFY = f"{__name__}:verify"


class MathEqual(SampleMetric):
    """1 if the answer in the text equals the target, else 0; in a process of its own, with a hard time limit.

    The answer is what Math-Verify extracts from the prediction: the last boxed or final expression. A text without
    any is `unparsed`; a verifier that runs out of time says nothing, and the item is an `error`, not a wrong answer.
    """

    low: ClassVar[float | None] = 0.0
    high: ClassVar[float | None] = 1.0
    version: ClassVar[str] = "1"

    def grades(self, samples: Sequence[Sample]) -> list[Grade]:
        """Verdicts, several at a time."""
        asked = [sample for sample in samples if sample.prediction is not None]
        calls = [(str(sample.item.target), str(sample.prediction)[-READ_CHARACTERS:]) for sample in asked]
        results = iter(worker_pool().map(VERIFY, calls, LIMIT_S, "math"))
        return [Grade(0.0) if sample.prediction is None else _grade(next(results), sample) for sample in samples]


def _grade(result: dict[str, Any], sample: Sample) -> Grade:
    if "error" in result:
        return Grade(None, "error", f"Math-Verify: {result['error']}")
    value, answer = result["value"]
    if answer is None:
        return Grade(0.0, None if sample.state == "truncated" else "unparsed", "no expression in the answer")
    return Grade(value, answer=answer)


def verify(gold: str, prediction: str) -> tuple[float, str | None]:
    """Verdict and normalised answer (None if there is none); runs in a worker.

    Raises:
        ValueError: If the target itself cannot be read.
    """
    from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse
    from math_verify import verify as equal

    def read(text: str) -> list[Any]:
        # no time limit of Math-Verify's own: this process is killed when its time is up
        return list(parse(_upright(text), [LatexExtractionConfig(), ExprExtractionConfig()], parsing_timeout=None))

    # a target is a formula by definition; an answer in plain words is none
    targets = next(filter(None, map(read, (*_ways(gold), f"${gold}$"))), [])
    if not targets:
        raise ValueError(f"the target {gold[:100]!r} is no expression")
    answers = list(filter(None, map(read, _ways(prediction))))
    if not answers:
        return 0.0, None
    right = (
        answer
        for answer in answers
        if equal(targets, answer, timeout_seconds=None) and not _numerically_apart(targets[0], answer[0])
    )
    found = next(right, None)
    return float(found is not None), str((found or answers[0])[0])[:200]


def _ways(text: str) -> tuple[str, ...]:
    """How a text may be read. Bare LaTeX, as datasets hold answers, is a formula first; anything else is what it is."""
    if any(mark in text for mark in ("$", "\\boxed", "\\(", "\\[")):
        return (text,)
    return (f"${text}$", text) if "\\" in text else (text,)


def _upright(text: str) -> str:
    """An upright letter as the letter itself."""
    return re.sub(r"\\mathrm\{\s*([a-zA-Z])\s*\}", r"\1", text)


def _numerically_apart(a: Any, b: Any) -> bool:
    """Whether two exact numbers differ by more than a millionth of the larger: not by rounding."""
    import sympy  # type: ignore[import-untyped]

    if not all(isinstance(x, sympy.Expr) and x.is_number for x in (a, b)):
        return False
    if any(x.has(sympy.Float) for x in (a, b)):
        return False  # a decimal stands for all numbers that round to it
    difference, sizes = abs(sympy.N(a - b, 30)), [abs(sympy.N(x, 30)) for x in (a, b)]
    if not all(x.is_comparable for x in (difference, *sizes)):
        return False
    return bool(difference > max(sizes) * sympy.Rational(1, 10**6))
