"""``wandb-summary.json``: the last value of each series of a Weights & Biases run."""

from __future__ import annotations

from midflight.analyse.importers._json import json_object, plain_values
from midflight.analyse.importers._numbers import step_of
from midflight.analyse.importers._records import Records
from midflight.analyse.importers._source import Source
from midflight.analyse.importers.base import Importer
from midflight.errors import ConfigError

_STEPS = ("train/global_step", "trainer/global_step", "global_step", "_step")
_MAX = 1 << 24


class WandbSummary(Importer):
    """One value a series, at the last step."""

    label = "W&B summary"

    @classmethod
    def recognises(cls, source: Source) -> bool:
        """By the keys that W&B adds."""
        text = source.head_text.lstrip()
        return text.startswith("{") and '"_runtime"' in text and '"_step"' in text and "\n{" not in text

    def read(self, source: Source, records: Records) -> None:
        """Reads the object."""
        raw = json_object(source.whole(_MAX), source)
        if raw is None:
            raise ConfigError(f"log {source.path}: broken JSON", allowed="what W&B writes as wandb-summary.json")
        raw.pop("_wandb", None)
        values = plain_values(raw, source)
        step = next((step for key in _STEPS if (step := step_of(values.get(key))) is not None), 0)
        wall = values.pop("_timestamp", None)
        points = {key: value for key, value in values.items() if key not in _STEPS and key != "_runtime"}
        records.summary.update({key: values[key] for key in ("_runtime",) if key in values})
        records.add(step, points, wall)
        records.note("a summary: the last value of each series and no curve")
