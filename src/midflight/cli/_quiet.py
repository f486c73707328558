"""Other libraries' progress bars and advice do not belong between our lines."""

from __future__ import annotations

import os


def quiet_libraries() -> None:
    """Before transformers and datasets are imported: shows their errors only, unless the user has said otherwise."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TQDM_DISABLE", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
