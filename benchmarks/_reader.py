"""A reader with a real browser: `web/e2e/measure.mjs` drives Chromium, this asks it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).resolve().parents[1] / "web" / "e2e" / "measure.mjs"


def missing() -> str:
    """What there is none of, of all that a reader needs; empty if there is."""
    browser = Path(os.environ.get("CHROMIUM", "/usr/bin/chromium"))
    needs = {
        "Node.js": shutil.which("node") is not None,
        "web/node_modules (make web)": (SCRIPT.parents[1] / "node_modules" / "playwright-core").is_dir(),
        f"a browser at {browser} (or $CHROMIUM)": browser.is_file(),
    }
    return ", ".join(name for name, there in needs.items() if not there)


class Reader:
    """Asks the browser one thing after the other."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, action: str, **question: Any) -> dict[str, Any]:
        """The answer; the actions are those of `measure.mjs`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"action": action, **question}) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline() or '{"error": "the browser is gone"}')
        if "error" in answer:
            raise RuntimeError(f"{action} {question}: {answer['error']}")
        return answer


@contextmanager
def reader() -> Iterator[Reader]:
    """A browser, closed at the end."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(["node", str(SCRIPT)], stdin=pipe, stdout=pipe, text=True, cwd=SCRIPT.parents[1])
    try:
        yield Reader(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(30)
