"""The process that calls functions: ``python -m midflight._worker``; see `midflight.workers`.

One JSON line in, one out: ``{"function": "module:name", "args": [...], "limit_s": 5}`` gives ``{"value": …}`` or
``{"error": …}``; without ``args`` the function's module is only imported. Whatever a function prints goes to standard
error, so that it cannot forge an answer.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import signal
import sys
import warnings
from typing import Any

MEMORY_BYTES = 4 << 30
"""Address space at most: a number tower in an answer must not take the machine's memory."""


def main() -> None:
    """Answers until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.setrecursionlimit(5_000)
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, resource.getrlimit(resource.RLIMIT_AS)[1]))
    for line in sys.stdin:
        call = json.loads(line)
        # a worker whose parent was killed while it hangs ends itself
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(int(call["limit_s"] * 2) + 10)
        answers.write(json.dumps(_answer(call)) + "\n")
        answers.flush()
        signal.alarm(0)


def _answer(call: dict[str, Any]) -> dict[str, Any]:
    module, _, name = call["function"].partition(":")
    try:
        function = getattr(importlib.import_module(module), name)
        return {"value": function(*call["args"]) if "args" in call else None}
    except ImportError as error:
        return {"missing": error.name or str(error)}
    except Exception as error:  # hostile text may raise anything; it is an answer about this text, not a crash
        return {"error": f"{type(error).__name__}: {error}"[:300]}


if __name__ == "__main__":
    main()
