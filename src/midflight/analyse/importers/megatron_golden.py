"""Golden values of Megatron-LM's tests: a JSON object of curves, ``{"lm loss": {"start_step": 1, "values": {…}}}``.

Megatron's extraction writes the text "nan" at steps that have no value; a NaN that was measured is a bare ``NaN``.
"""

from __future__ import annotations

from typing import Any

from midflight.analyse.importers._json import members
from midflight.analyse.importers._numbers import number, step_of
from midflight.analyse.importers._records import Records
from midflight.analyse.importers._source import Source
from midflight.analyse.importers.base import Importer


class MegatronGolden(Importer):
    """Curves by name, each with its steps."""

    label = "Megatron-LM golden values"

    @classmethod
    def recognises(cls, source: Source) -> bool:
        """By the keys of a curve."""
        text = source.head_text.lstrip()
        return text.startswith("{") and all(
            f'"{key}"' in text[:4096] for key in ("start_step", "step_interval", "values")
        )

    def read(self, source: Source, records: Records) -> None:
        """Reads curve by curve, and makes records of them by step."""
        rows: dict[int, dict[str, float]] = {}
        planned = 0
        for name, curve in members(source):
            if not isinstance(curve, dict) or "values" not in curve:
                source.skip("members that are no curve", name)
                continue
            planned = max(planned, step_of(curve.get("end_step")) or 0)
            for step, value in _points(curve):
                if step is None or not isinstance(value, int | float):
                    source.skip("missing values", f"{name}: {value!r} at step {step}")
                else:
                    rows.setdefault(step, {})[name] = float(value)
        for step in sorted(rows):
            records.add(step, rows[step])
        records.planned = planned or None


def _points(curve: dict[str, Any]) -> list[tuple[int | None, Any]]:
    """Steps and values, of a text only where it is a number."""
    values = curve["values"]
    if isinstance(values, list):  # the older layout
        start, every = step_of(curve.get("start_step")) or 0, step_of(curve.get("step_interval")) or 1
        pairs: list[tuple[int | None, Any]] = [(start + every * place, value) for place, value in enumerate(values)]
    else:
        pairs = [(step_of(step), value) for step, value in dict(values).items()]
    return [(step, _measured(value) if isinstance(value, str) else value) for step, value in pairs]


def _measured(text: str) -> float | str:
    found = number(text)
    return text if found is None or found != found else found
