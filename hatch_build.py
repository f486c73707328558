"""Builds the panel's page before it is packed; without npm an editable installation goes on without the page."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PageHook(BuildHookInterface[Any]):
    """The step of the build that makes the page."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Builds the page if it is not made from these sources.

        Raises:
            RuntimeError: If there is neither a page nor npm, or npm fails.
        """
        page = runpy.run_path(str(Path(self.root, "web", "page.py")))
        try:
            page["build"]()
        except page["NoNodeError"] as error:
            if version != "editable" and not page["is_built"]():
                raise
            self.app.display_warning(f"midflight: {error}")
