"""Datasets of the Hugging Face Hub, through `datasets`; a local copy or the cache serves without a network."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from midflight.errors import TaskError, missing_extra
from midflight.tasks.sources.base import Row, Source


class HubSource(Source):
    """Rows of a Hub dataset, or of a folder made by `save_to_disk` or holding data files.

    Attributes:
        path: Name on the Hub (``openai/gsm8k``) or a local folder.
        config: Configuration of the dataset.
        split: Its split.
        revision: Commit, branch or tag; pin it where the numbers have to be compared over time.
    """

    kind: Literal["hub"] = "hub"
    path: str
    config: str | None = None
    split: str = "test"
    revision: str | None = None

    def rows(self) -> Iterator[Row]:
        """All rows of the split, in order."""
        data = self._load()
        if len(data) == 0:
            raise TaskError(f"{self._label()}: no rows in it")
        for index, row in enumerate(data):
            yield Row(row, f"{self._label()}[{index}]")

    def with_split(self, split: str) -> HubSource:
        """The same dataset, another split."""
        return self.model_copy(update={"split": split})

    def _label(self) -> str:
        return ":".join(part for part in (self.path, self.config, self.split) if part)

    def _load(self) -> Any:
        try:
            import datasets
        except ImportError as error:
            raise missing_extra("a Hub dataset", "data", error) from None
        from pathlib import Path

        local = Path(self.path).expanduser()
        try:
            if (local / "dataset_dict.json").is_file() or (local / "state.json").is_file():
                found = datasets.load_from_disk(str(local))
                return found[self.split] if isinstance(found, dict) else found
            return datasets.load_dataset(self.path, self.config, split=self.split, revision=self.revision)
        except Exception as error:  # datasets raises dozens of kinds; each becomes the one line that a user can act on
            reason = str(error).split("\n", 1)[0]
            raise TaskError(
                f"{self._label()}: cannot be loaded: {type(error).__name__}: {reason}",
                hint="offline? name a local copy instead: --task KEY@PATH",
            ) from error
