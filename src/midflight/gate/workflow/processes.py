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
        output: The end of what it wrote to standard output and standard error.
    """

    code: int
    output: str

    @property
    def last_line(self) -> str:
        """The last line that is not empty, which mostly says why."""
        return next((line.strip() for line in reversed(self.output.splitlines()) if line.strip()), "")

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
                stderr=subprocess.STDOUT,
                cwd=folder,
                env={**os.environ, **environment},
                start_new_session=True,
            )
    except (OSError, ValueError) as error:  # a ValueError is a null byte in an argument
        raise StepError(f"{words[0]}: cannot be run: {error}") from None
    _groups.add(process.pid)
    reader = _Tail(process)
    try:
        code = process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        _end(process)
        late = StepError(f"{words[0]}: took more than {timeout_s:g} s and was killed")
        late.output = reader.text()
        raise late from None
    except BaseException:
        _end(process)
        raise
    finally:
        _groups.discard(process.pid)
    return Finished(code, reader.text())


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


class _Tail:
    """Keeps the end of what a process writes; reads on, so that it never waits for us."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process, self._kept, self._cut = process, b"", False
        self._thread = threading.Thread(target=self._read, name="midflight-output", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        pipe = self._process.stdout
        assert pipe is not None
        with pipe:
            while data := os.read(pipe.fileno(), OUTPUT_BYTES):
                kept = self._kept + data
                self._cut = self._cut or len(kept) > OUTPUT_BYTES
                self._kept = kept[-OUTPUT_BYTES:]

    def text(self) -> str:
        self._thread.join(1.0)  # what it left running in the background may hold the pipe open
        # half of a line may be half of a secret
        kept = re.split(rb"[\r\n]", self._kept, maxsplit=1)[-1] if self._cut else self._kept
        return kept.decode("utf-8", "replace")
