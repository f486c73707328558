"""Results of lm-evaluation-harness at a checkpoint: a point of each task's curve; a folder of them is the curve."""

from __future__ import annotations

from midflight.analyse.importers._numbers import step_of
from midflight.analyse.importers._records import Records
from midflight.analyse.importers._source import Source
from midflight.analyse.importers._table import STEP_IN_TEXT
from midflight.analyse.importers.base import Importer
from midflight.analyse.lm_eval import is_lm_eval, read_lm_eval


class LMEvalResults(Importer):
    """The step stands in the model's name or in the path: ``checkpoint-500``, ``step_500``."""

    label = "lm-evaluation-harness results"

    @classmethod
    def recognises(cls, source: Source) -> bool:
        """As the reader of result files does."""
        text = source.head_text.lstrip()
        return text.startswith("{") and '"results"' in text and is_lm_eval(source.whole(1 << 28))

    def read(self, source: Source, records: Records) -> None:
        """Reads the metrics of all tasks."""
        side = read_lm_eval(source.path)
        engine = next(iter(side.evidence.values())).report.engine
        texts = [str(engine.get("model_args", "")), str(engine.get("model", "")), str(source.path.absolute())]
        named = next((found for text in texts if (found := STEP_IN_TEXT.search(text)) is not None), None)
        records.note("steps: from the name of the model or the path" if named else "step 0: no name tells another one")
        values = {
            f"{evidence.report.task}/{estimate.metric}": estimate.value
            for evidence in side.evidence.values()
            for estimate in evidence.report.estimates
            if estimate.value is not None
        }
        records.add(step_of(named[1]) if named else 0, values, evaluation=True)
