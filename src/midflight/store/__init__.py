"""Stage 7, kept: takes points, outputs, scores and reports, gives them back to whoever asks; goes to analyse and show.

`base` says what a store does, `sqlite` is the one that comes with Midflight.
"""

from __future__ import annotations

import os

from midflight.errors import ConfigError
from midflight.store.base import EvaluationHandle, Head, Points, RunInfo, ScoreColumns, Store, UnfinishedEvaluation
from midflight.store.nouns import EvaluationRow, Lease, Overviews, Pulse, SeriesCount

__all__ = [
    "EvaluationHandle",
    "EvaluationRow",
    "Head",
    "Lease",
    "Overviews",
    "Points",
    "Pulse",
    "RunInfo",
    "ScoreColumns",
    "SeriesCount",
    "Store",
    "UnfinishedEvaluation",
    "default_url",
    "open_store",
]

DEFAULT = "sqlite:///midflight.db"


def default_url() -> str:
    """``$MIDFLIGHT_STORE``, or `midflight.db` in the working directory."""
    return os.environ.get("MIDFLIGHT_STORE") or DEFAULT


def open_store(url: str | None = None, create: bool = True, read_only: bool = False) -> Store:
    """The store at a URL.

    Args:
        url: ``sqlite:///relative.db``, ``sqlite:////absolute.db`` or a plain path; None = the default.
        create: Whether it may be made.
        read_only: Whether nothing is ever written to it; a file that takes its place is then refused.

    Raises:
        ConfigError: If there is no such kind of store.
        StoreError: If it cannot be opened.
    """
    url = default_url() if url is None else url
    kind, separator, path = url.partition(":///")
    if not separator:
        kind, path = "sqlite", url
    if kind != "sqlite" or not path or "://" in path:
        raise ConfigError("store", got=url, allowed="sqlite:///FILE, or a file's path")
    from midflight.store.sqlite import SQLiteStore

    return SQLiteStore(path, create, read_only)
