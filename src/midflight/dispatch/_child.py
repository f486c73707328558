"""A process that evaluates: started by `process`, fed through standard input, gone when its parent is.

Messages are pickled and come from the parent alone; answers are lines of JSON, since what a model wrote is in them.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import struct
import sys
import threading
from queue import SimpleQueue
from typing import Any, BinaryIO

from midflight.snapshot import Buffer, Replica


def main() -> None:
    """Serves jobs until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever prints, prints to standard error
    messages: SimpleQueue[tuple[Any, ...]] = SimpleQueue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, messages), daemon=True).start()
    limits = messages.get()[0]
    limits.apply()
    replica: Replica | None = None
    buffers: dict[Any, Buffer] = {}
    while True:
        kind, *content = messages.get()
        if kind == "engine":
            replica, buffers = Replica(*content), {}
            continue
        call, path, runs = content
        try:
            assert replica is not None
            if path not in buffers:
                buffers[path] = Buffer(path, replica.layout)
            engine = replica.show(buffers[path].views)
            answers.write("begun\n")
            answers.flush()
            answer = {"result": call(engine, runs)}
        except BaseException as error:  # the parent decides what becomes of it
            answer = {"error": f"{type(error).__name__}: {error}"}
        with contextlib.suppress(BrokenPipeError):
            answers.write(json.dumps(answer) + "\n")
            answers.flush()


def _listen(source: BinaryIO, messages: SimpleQueue[tuple[Any, ...]]) -> None:
    """Reads messages in a thread of its own, so that the end of the parent is noticed in the middle of a job."""
    while True:
        head = source.read(8)
        body = source.read(struct.unpack("<Q", head)[0]) if len(head) == 8 else b""
        if not body:
            os._exit(0)  # the parent is gone, and all that counts is in the store
        try:
            messages.put(pickle.loads(body))
        except BaseException as error:  # e.g. the user's module cannot be imported here
            messages.put(("job", _Raise(f"{type(error).__name__}: {error}"), None, False))


class _Raise:
    def __init__(self, reason: str) -> None:
        self.reason = reason

    def __call__(self, *_: Any) -> str:
        raise RuntimeError(self.reason)


if __name__ == "__main__":
    main()
