"""Runs a program for a step: without a shell, in a process group of its own that ends with its time limit."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from midflight.errors import StepError
from midflight.signals import before_termination

OUTPUT_BYTES = 1 << 16
"""Bytes of a program's output that are kept: its end."""

GRACE_S = 2.0
"""Seconds between the request to end and the end."""

_groups: set[int] = set()  # process groups that run


@dataclass(frozen=True, slots=True)
class Finished:
    """How a program ended.

    Attributes:
        code: Its exit code; negative = the signal that ended it.
        output: The end of what it wrote to standard output and standard error, in the order in which it came.
        errors: The end of what it wrote to standard error.
    """

    code: int
    output: str
    errors: str = ""

    @property
    def last_line(self) -> str:
        """What mostly says why: the last line of standard error, or of all where there is none.

        Many programs, Python's among them, write what is left of standard output behind their last words.
        """
        lines = (line.strip() for text in (self.errors, self.output) for line in reversed(text.splitlines()))
        return next(filter(None, lines), "")

    def failure(self, what: str) -> StepError:
        """The error for a program that failed."""
        ended = f"signal {-self.code}" if self.code < 0 else f"exit code {self.code}"
        error = StepError(f"{what}: {ended}" + (f": {self.last_line}" if self.last_line else ""))
        error.output = self.output
        return error


def run_program(
    words: Sequence[str], *, timeout_s: float, environment: Mapping[str, str], folder: Path, input: Path | None = None
) -> Finished:
    """Runs a program to its end.

    Args:
        words: The program and its arguments.
        timeout_s: Seconds that it may take; then it is killed together with what it began.
        environment: Variables beside those of this process.
        folder: Where it runs.
        input: What it reads on standard input; None = nothing.

    Raises:
        StepError: If it cannot be begun, or took too long.
    """
    before_termination(_kill_groups)
    try:
        with open(input if input is not None else os.devnull, "rb") as given:
            process = subprocess.Popen(
                words,
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=folder,
                env={**os.environ, **environment},
                start_new_session=True,
            )
    except (OSError, ValueError) as error:  # a ValueError is a null byte in an argument
        raise StepError(f"{words[0]}: cannot be run: {error}") from None
    _groups.add(process.pid)
    reader = _Reader(process)
    try:
        code = process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        _end(process)
        late = StepError(f"{words[0]}: took more than {timeout_s:g} s and was killed")
        late.output = reader.output()
        raise late from None
    except BaseException:
        _end(process)
        raise
    finally:
        _groups.discard(process.pid)
    return Finished(code, reader.output(), reader.errors())


def _end(process: subprocess.Popen[bytes]) -> None:
    """Asks the group to end, and ends it."""
    _signal(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(GRACE_S)
    _signal(process.pid, signal.SIGKILL)
    process.wait()


def _signal(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _kill_groups() -> None:
    for group in list(_groups):
        _signal(group, signal.SIGKILL)


class _Reader:
    """Reads what a process writes, so that it never waits for us, and keeps the end of it."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        self._all, self._errors, self._lock = _Tail(), _Tail(), threading.Lock()
        self._threads = [
            threading.Thread(target=self._read, args=pipe, name="midflight-output", daemon=True)
            for pipe in ((process.stdout, [self._all]), (process.stderr, [self._all, self._errors]))
        ]
        for thread in self._threads:
            thread.start()

    def _read(self, pipe: IO[bytes], tails: list[_Tail]) -> None:
        with pipe:
            while data := os.read(pipe.fileno(), OUTPUT_BYTES):
                with self._lock:
                    for tail in tails:
                        tail.add(data)

    def _text(self, tail: _Tail) -> str:
        while self._threads:
            self._threads.pop().join(0.5)  # what it left running in the background may hold the pipe open
        with self._lock:
            return tail.text()

    def output(self) -> str:
        """The end of all that it wrote."""
        return self._text(self._all)

    def errors(self) -> str:
        """The end of what it wrote to standard error."""
        return self._text(self._errors)


class _Tail:
    """The end of a text."""

    def __init__(self) -> None:
        self._kept, self._cut = b"", False

    def add(self, data: bytes) -> None:
        kept = self._kept + data
        self._cut = self._cut or len(kept) > OUTPUT_BYTES
        self._kept = kept[-OUTPUT_BYTES:]

    def text(self) -> str:
        # half of a line may be half of a secret
        kept = re.split(rb"[\r\n]", self._kept, maxsplit=1)[-1] if self._cut else self._kept
        return kept.decode("utf-8", "replace")
