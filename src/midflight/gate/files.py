"""A verdict as files for CI: verdict.json, junit.xml and summary.md, each whole or not there."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from midflight.errors import ConfigError
from midflight.gate.junit import to_junit
from midflight.gate.markdown import to_markdown
from midflight.records import Verdict
from midflight.schema import verdict_to_json


def write_files(verdict: Verdict, folder: Path) -> list[Path]:
    """Writes the three files into a folder, which is made if it is not there.

    Raises:
        ConfigError: If it cannot be written to; then no file has changed.
    """
    texts = {
        "verdict.json": verdict_to_json(verdict, indent=2) + "\n",
        "junit.xml": to_junit(verdict),
        "summary.md": to_markdown(verdict),
    }
    finals = [folder / name for name in texts]
    drafts = [final.with_name(f".{final.name}.{os.getpid()}") for final in finals]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for draft, text in zip(drafts, texts.values(), strict=True):
            draft.write_text(text, encoding="utf-8")
        for draft, final in zip(drafts, finals, strict=True):
            draft.replace(final)
    except OSError as error:
        for draft in drafts:
            with suppress(OSError):
                draft.unlink()
        raise ConfigError(f"{folder}: cannot be written: {error.strerror or error}") from None
    return finals
