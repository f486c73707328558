"""Datasets of the Hugging Face Hub, through `datasets`; a local copy or the cache serves without a network."""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Literal

from midflight.errors import TaskError, missing_extra
from midflight.tasks.sources.base import Row, Source

SAVED_TO_DISK = ("dataset_dict.json", "state.json")
"""Files by which a folder made by `save_to_disk` is known."""

PROBE_S = 2.5
"""Seconds in which the Hub has to answer; `datasets` itself tries for half a minute."""


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
        local = Path(self.path).expanduser()
        try:
            if any((local / name).is_file() for name in SAVED_TO_DISK):
                found = datasets.load_from_disk(str(local))
                return found[self.split] if isinstance(found, dict) else found
            with nullcontext() if local.exists() or datasets.config.HF_HUB_OFFLINE or _hub_answers() else _offline():
                return datasets.load_dataset(self.path, self.config, split=self.split, revision=self.revision)
        except Exception as error:  # datasets raises dozens of kinds; each becomes the one line that a user can act on
            reason = str(error).split("\n", 1)[0]
            raise TaskError(
                f"{self._label()}: cannot be loaded: {type(error).__name__}: {reason}",
                hint="offline? name a local copy of the rows instead: --task KEY@PATH, in Python load_task('KEY@PATH')",
            ) from error


def _hub_answers() -> bool:
    """Whether the Hub can be reached, through a proxy where one is set; anything that it says is an answer."""
    import urllib.error
    import urllib.request

    found = []

    def ask() -> None:
        url = os.environ.get("HF_ENDPOINT", "https://huggingface.co")
        try:
            urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=PROBE_S).close()
        except urllib.error.HTTPError:
            pass
        except (OSError, ValueError):
            return
        found.append(True)

    # in a thread, since no timeout holds for the look-up of a name
    thread = threading.Thread(target=ask, name="midflight-hub", daemon=True)
    thread.start()
    thread.join(PROBE_S)
    return bool(found)


@contextmanager
def _offline() -> Iterator[None]:
    """Lets `datasets` look into its cache only; both libraries read their switch once, when they are imported."""
    modules = [importlib.import_module(name) for name in ("datasets.config", "huggingface_hub.constants")]
    before = [module.HF_HUB_OFFLINE for module in modules]
    for module in modules:
        module.HF_HUB_OFFLINE = True  # type: ignore[attr-defined]
    try:
        yield
    finally:
        for module, value in zip(modules, before, strict=True):
            module.HF_HUB_OFFLINE = value  # type: ignore[attr-defined]
