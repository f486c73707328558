"""Functions in processes of their own, with a hard time limit: one that hangs is killed, and costs one result.

Verifiers parse text that a model wrote. Some loop on it, some take all memory, some use SIGALRM and so fail outside
the main thread. Generators of puzzles depend on the hash seed of the process, which is fixed here. A fresh interpreter
keeps all of that away from training: not a fork, since the caller may hold threads and a GPU; not `multiprocessing`,
which would run the user's script again.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from queue import SimpleQueue
from typing import Any

from midflight.errors import MissingExtraError

IMPORT_S = 60.0
"""Seconds that a new worker may take to import what it is to call."""


class WorkerPool:
    """Processes that call functions.

    Args:
        workers: Processes at most.
    """

    def __init__(self, workers: int) -> None:
        self.workers = [_Worker() for _ in range(workers)]
        self._idle: SimpleQueue[_Worker] = SimpleQueue()
        for worker in self.workers:
            self._idle.put(worker)

    def map(self, function: str, calls: Sequence[Sequence[Any]], limit_s: float, extra: str) -> list[dict[str, Any]]:
        """Results of a function for many arguments, in their order.

        Args:
            function: ``module:name``.
            calls: Arguments of each call, plain enough for JSON.
            limit_s: Seconds that one call may take.
            extra: The extra of Midflight that brings what the function imports.

        Returns:
            For each call ``{"value": …}`` or ``{"error": reason}``.

        Raises:
            MissingExtraError: If what it imports is not installed.
        """

        def one(arguments: Sequence[Any]) -> dict[str, Any]:
            worker = self._idle.get()
            try:
                return worker.call(function, list(arguments), limit_s)
            finally:
                self._idle.put(worker)

        with ThreadPoolExecutor(len(self.workers), thread_name_prefix="midflight-worker") as threads:
            results = list(threads.map(one, calls))
        missing = next((result["missing"] for result in results if "missing" in result), None)
        if missing is not None:
            raise MissingExtraError(f"{function} needs {missing}", hint=f"pip install 'midflight[{extra}]'")
        return results

    def close(self) -> None:
        """Ends all workers, busy ones too; they start again when they are needed."""
        for worker in self.workers:
            worker.stop()


class _Worker:
    """One process, started when it is first needed and again after it was killed."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._rest = b""
        self._imported: set[str] = set()

    def call(self, function: str, arguments: list[Any], limit_s: float) -> dict[str, Any]:
        if self._process is None or self._process.poll() is not None:
            self._start()
        if function not in self._imported:
            loaded = self._ask({"function": function}, IMPORT_S)
            if "value" not in loaded:
                return loaded
            self._imported.add(function)
        return self._ask({"function": function, "args": arguments}, limit_s)

    def _ask(self, request: dict[str, Any], limit_s: float) -> dict[str, Any]:
        """The worker's answer; if there is none in time, the worker is gone."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps({**request, "limit_s": limit_s}).encode() + b"\n")
            process.stdin.flush()
            line = self._read_line(process, time.monotonic() + limit_s)
        except OSError as error:
            self.stop()
            return {"error": f"the process died: {error}"}
        if line is None:
            self.stop()
            return {"error": f"took more than {limit_s:g} s"}
        if not line:
            code = process.wait()
            self.stop()
            return {"error": f"the process died with exit code {code}"}
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _start(self) -> None:
        self._rest, self._imported = b"", set()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "midflight._worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"},
        )

    def _read_line(self, process: subprocess.Popen[bytes], deadline: float) -> bytes | None:
        """The next line; empty if the process ended, None if the time is up."""
        assert process.stdout is not None
        descriptor = process.stdout.fileno()
        while b"\n" not in self._rest:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([descriptor], [], [], left)[0]:
                return None
            data = os.read(descriptor, 1 << 16)
            if not data:
                return b""
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()


@lru_cache(maxsize=1)
def worker_pool() -> WorkerPool:
    """The pool of this process: workers stay warm from one evaluation to the next."""
    pool = WorkerPool(max(1, min(8, (os.cpu_count() or 1))))
    atexit.register(pool.close)
    return pool


os.register_at_fork(after_in_child=worker_pool.cache_clear)  # a forked child must not talk to its parent's workers
