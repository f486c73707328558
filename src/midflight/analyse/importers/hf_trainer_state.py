"""``trainer_state.json`` of the Hugging Face Trainer and of everything built on it (TRL, Axolotl, LLaMA-Factory)."""

from __future__ import annotations

from typing import Any

from midflight.analyse.importers._json import members, plain_values
from midflight.analyse.importers._numbers import step_of
from midflight.analyse.importers._records import Records
from midflight.analyse.importers._source import Source
from midflight.analyse.importers.base import Importer

SUMMARY = "train_runtime"
"""A record with this key sums the run up: it is no point of a curve."""
_HISTORY = "log_history"


class HFTrainerState(Importer):
    """One JSON object; its ``log_history`` holds the records."""

    label = "HF trainer_state.json"

    @classmethod
    def recognises(cls, source: Source) -> bool:
        """By the key ``log_history``."""
        text = source.head_text.lstrip()
        return text.startswith("{") and f'"{_HISTORY}"' in text and "\n{" not in text  # else it is one line of many

    def read(self, source: Source, records: Records) -> None:
        """Reads the history record by record; a file that breaks off gives those before the break."""
        state: dict[str, Any] = {}
        for place, value in members(source):
            if place == _HISTORY and isinstance(value, dict):
                self._record(value, source, records)
            elif place != _HISTORY and isinstance(value, str | int | float | bool):
                state[place] = value
        records.config.update(state)
        records.planned = step_of(state.get("max_steps")) or None
        records.reached = step_of(state.get("global_step"))

    def _record(self, raw: dict[str, Any], source: Source, records: Records) -> None:
        step = step_of(raw.pop("step", None))
        values = plain_values(raw, source)
        if SUMMARY in values:
            records.summary.update(values)
        elif step is None:
            source.skip("records without a step", str(raw))
        elif values:
            records.add(step, values)
