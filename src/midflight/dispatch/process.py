"""Evaluates in processes of their own, while training goes on: weights are copied once, and workers stay warm."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import struct
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from midflight.dispatch.queue import Job, JobQueue, Outcome, Weights, WhenBusy
from midflight.dispatch.seal import Seal, is_right, seals
from midflight.dispatch.shared_folder import left_beside, shared_folder
from midflight.environ import Limits
from midflight.errors import CapabilityError, DispatchError
from midflight.snapshot import Buffer, Skeleton

BEGUN = b"begun"
"""What a worker says before a job: the time that it takes to start does not count."""

TRIES = 3
"""How often a job is begun again whose worker dies in it, or cannot reach the store."""
STORE_S = 30.0
"""Seconds to wait for a store that is out of reach, before each new try."""


class Process:
    """Runs jobs in `workers` processes on this machine.

    Args:
        workers: Processes; each has one set of weights in use.
        max_waiting: Snapshots that may wait beside those in use; each takes the room of the model's weights.
        when_busy: What becomes of new weights while others still wait.
        limits: What each worker may use of the machine.
        snapshot_dir: Folder for snapshots; None = shared memory.
        device: Where workers put the weights; None = where they are in training.
    """

    def __init__(
        self,
        *,
        workers: int = 1,
        max_waiting: int = 1,
        when_busy: WhenBusy = "queue",
        limits: Limits | None = None,
        snapshot_dir: str | Path | None = None,
        device: str | None = None,
    ) -> None:
        self.when_busy, self.limits, self.device = when_busy, limits or Limits(), device
        self._room = workers + max_waiting
        self._snapshot_dir = snapshot_dir
        self._folder: Path | None = None
        self._skeleton: Skeleton | None = None
        self._weights: list[Weights] = []
        self.copied_bytes, self.copy_s = 0, 0.0
        """What was copied so far, and the seconds that it took."""
        self._queue = JobQueue()
        self._workers = [_Worker(self._queue, self.limits) for _ in range(workers)]
        self._closer = weakref.finalize(self, _close, self._queue, self._workers, self._weights)

    def prepare(self, engine: Any, modules: Sequence[Any]) -> None:
        """Takes the engine apart and makes the folder, so that what cannot work is found out before training begins.

        Raises:
            CapabilityError: If no other process can have the engine.
            DispatchError: If `snapshot_dir` is no folder.
        """
        self._skeleton = Skeleton(engine, modules)
        self._make_folder()

    def reserve(
        self, engine: Any, modules: Sequence[Any], jobs: Sequence[Job], must: bool = False
    ) -> Weights | list[Outcome]:
        """Room for a copy of the weights.

        Args:
            engine: What the jobs are called with, in another process.
            modules: The torch modules in it.
            jobs: What is to be done with the copy.
            must: Whether they are taken also while others run, where `when_busy` is ``skip``.

        Returns:
            The room; or, if there is none, the jobs that were refused, as `when_busy` says.

        Raises:
            CapabilityError: If the engine cannot be handed to another process.
            DispatchError: If there is no memory for a copy, or the dispatcher was closed.
        """
        if not self._closer.alive:
            raise DispatchError("the dispatcher was closed", hint="finish() ends it; make another Evaluator")
        if self.when_busy == "skip" and self._queue.unfinished and not must:
            return [Outcome(job, "skipped", reason="earlier weights are still being evaluated") for job in jobs]
        if self.when_busy == "latest":
            self._queue.supersede(f"by the weights of step {jobs[0].step}")
        weights = self._free(engine, modules)
        if weights is None:
            reason = f"{self._room} snapshots are in use or wait"
            return [Outcome(job, "skipped", reason=reason) for job in jobs]
        return weights

    def wait_for_room(self, timeout_s: float | None = None) -> bool:
        """Waits until nothing uses one of the copies; whether that is so."""
        return self._queue.wait(lambda: any(not weights.open for weights in self._weights), timeout_s)

    def submit(
        self,
        weights: Weights,
        jobs: Sequence[Job],
        wholes: Iterable[tuple[Any, Any]] = (),
        note: Mapping[str, Any] | None = None,
    ) -> None:
        """Copies the weights and queues jobs on them.

        Args:
            weights: Room for them.
            jobs: What to do.
            wholes: Parameters that lie in shards, each with the whole of it.
            note: What the copy is, for a process that adopts it if this one is killed; None = it is lost then.
        """
        if weights.seal is not None:
            weights.seal.open()
        began = time.monotonic()
        weights.buffer.write(weights.skeleton.tensors(), wholes)
        self.copy_s += time.monotonic() - began
        self.copied_bytes += weights.skeleton.layout.size
        weights.seal = None if note is None else Seal(weights.buffer.path, note)
        self.enqueue(weights, jobs)

    def enqueue(self, weights: Weights, jobs: Sequence[Job]) -> None:
        """Queues jobs on weights that are copied."""
        for worker in self._workers:
            worker.begin(self.device)
        for job in jobs:
            self._queue.put(job, weights)

    def adopt(self, run: str, wanted: Callable[[Mapping[str, Any]], bool]) -> Iterator[Weights]:
        """Copies that killed processes of a run have left: those that are wanted, whole, and fit this engine.

        What else they left of this run is removed. `prepare` comes first.

        Args:
            run: The run, as ``run`` in the notes on its copies.
            wanted: Whether a copy with such a note is wanted.
        """
        assert self._skeleton is not None
        assert self._folder is not None
        layout = self._skeleton.layout
        for left in left_beside(self._folder):
            for path, note in seals(left).items():
                if note.get("run") != run:
                    continue
                if len(self._weights) < self._room and wanted(note) and layout.describes(path) and is_right(path):
                    mine = self._folder / path.name
                    with contextlib.suppress(OSError):  # another process was faster
                        os.rename(path, mine)
                        self._weights.append(Weights(self._skeleton, Buffer(mine, layout), seal=Seal(mine, note)))
                        yield self._weights[-1]
                path.unlink(missing_ok=True)
            if not seals(left):
                shutil.rmtree(left, ignore_errors=True)

    def _free(self, engine: Any, modules: Sequence[Any]) -> Weights | None:
        """Room for a snapshot that nothing uses."""
        if self._skeleton is None or not self._skeleton.fits():
            self._skeleton = Skeleton(engine, modules)
        layout = self._skeleton.layout
        for weights in list(self._weights):
            if not weights.open and weights.skeleton is self._skeleton:
                return weights
            if not weights.open:  # of a model that has changed its shapes
                weights.buffer.path.unlink()
                self._weights.remove(weights)
        if len(self._weights) >= self._room:
            return None
        path = self._make_folder() / f"{time.monotonic_ns()}.safetensors"
        self._weights.append(Weights(self._skeleton, Buffer(path, layout, create=True)))
        return self._weights[-1]

    def _make_folder(self) -> Path:
        if self._folder is None:
            self._folder = shared_folder(self._snapshot_dir)
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        return self._folder

    def poll(self) -> list[Outcome]:
        """Jobs that have ended since the last call."""
        return self._queue.poll()

    @property
    def unfinished(self) -> int:
        """Jobs that wait or run."""
        return self._queue.unfinished

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits until a job has ended that `poll` gives; whether one has."""
        return self._queue.wait(lambda: bool(self._queue.outcomes) or not self._queue.unfinished, timeout_s)

    def pause(self) -> None:
        """Has no further job begin; what runs goes on."""
        self._queue.pause()

    def resume(self) -> None:
        """Lets jobs begin again."""
        self._queue.resume()

    def close(self) -> None:
        """Ends the workers."""
        self._closer()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def _close(queue: JobQueue, workers: Sequence[_Worker], weights: list[Weights]) -> None:
    queue.cancel("the dispatcher was closed")
    queue.close()
    for worker in workers:
        worker.stop("the dispatcher was closed")
        worker.join()
    for copy in weights:
        if copy.seal is not None:
            copy.seal.open()
    weights.clear()


class _Worker:
    """A process and the thread that looks after it."""

    def __init__(self, queue: JobQueue, limits: Limits) -> None:
        self._queue, self._limits = queue, limits
        self._process: subprocess.Popen[bytes] | None = None
        self._device: str | None = None
        self._has: Skeleton | None = None
        self._thread: threading.Thread | None = None
        self._stopped = ""
        self._wake = threading.Event()  # set when the worker is stopped
        self._began = 0.0
        self._read = b""  # of the process, beyond the last line

    def begin(self, device: str | None) -> None:
        """Serves the queue from now on."""
        self._device = device
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="midflight-dispatch", daemon=True)
            self._thread.start()

    def stop(self, reason: str) -> None:
        """Kills the process, whatever it does."""
        self._stopped = reason
        self._wake.set()
        if self._process is not None:
            self._process.kill()

    def join(self) -> None:
        """Waits until the thread has ended."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _serve(self) -> None:
        while (taken := self._queue.take()) is not None:
            job, weights = taken
            self._stopped = ""
            self._wake.clear()
            try:
                self._run(job, weights)
            except Exception as error:  # a thread that ends would leave its job running for ever
                self._queue.end(job, "failed", reason=f"{type(error).__name__}: {error}")
        self._end()

    def _run(self, job: Job, weights: Weights) -> None:
        reason, runs = "", True
        for _ in range(TRIES + 1):
            answer = self._ask(job, weights, runs)
            if answer is not None and "result" in answer:
                return self._queue.end(job, "done", answer["result"])
            if answer is not None and not answer["error"].startswith("StoreError"):
                return self._queue.end(job, "failed", reason=answer["error"])
            if self._stopped:
                return self._queue.end(job, "cancelled", reason=self._stopped)
            if answer is not None:  # what is in the store is not asked again
                reason = answer["error"]
                self._wake.wait(STORE_S)
                continue
            reason = "its worker died"
            if self._overdue(job):  # what it had answered is in the store: once more, without the engine
                reason, runs = f"it took more than {job.limit_s:g} s", False
        return self._queue.end(job, "failed", reason=f"{reason}, {TRIES + 1} times")

    def _overdue(self, job: Job) -> bool:
        return job.limit_s is not None and time.monotonic() - self._began >= job.limit_s

    def _ask(self, job: Job, weights: Weights, runs: bool) -> dict[str, str] | None:
        """What the worker answers; None if it died, or was killed because it took too long."""
        try:
            process = self._started(weights.skeleton)
            self._send(process, ("job", job.call, weights.buffer.path, runs))
            line = self._line(process, None)  # it has begun, or failed to
            self._began = time.monotonic()
            if line == BEGUN:
                line = self._line(process, job.limit_s if runs else None)
        except (BrokenPipeError, OSError):
            line = b""
        if line:
            found: dict[str, str] = json.loads(line)
            return found
        self._end()
        return None

    def _started(self, skeleton: Skeleton) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "midflight.dispatch._child"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, **self._limits.variables(), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                start_new_session=True,  # Ctrl-C is the parent's to handle
            )
            self._has = None
            self._send(self._process, (self._limits,))
        if self._has is not skeleton:
            self._send(self._process, ("engine", skeleton.content, skeleton.layout, self._device))
            self._has = skeleton
        return self._process

    def _send(self, process: subprocess.Popen[bytes], message: tuple[Any, ...]) -> None:
        body = _pickled(message)
        assert process.stdin is not None
        process.stdin.write(struct.pack("<Q", len(body)) + body)
        process.stdin.flush()

    def _line(self, process: subprocess.Popen[bytes], limit_s: float | None) -> bytes:
        """The next line of the process; nothing if it ends, or takes too long."""
        assert process.stdout is not None
        end = None if limit_s is None else time.monotonic() + limit_s
        while b"\n" not in self._read:
            left = None if end is None else max(0.0, end - time.monotonic())
            if not select.select([process.stdout], [], [], left)[0]:
                return b""
            part = os.read(process.stdout.fileno(), 1 << 20)
            if not part:
                return b""
            self._read += part
        line, _, self._read = self._read.partition(b"\n")
        return line

    def _end(self) -> None:
        self._read = b""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    try:
                        pipe.close()
                    except BrokenPipeError:
                        continue
        self._process = self._has = None


def check_job(call: Callable[[Any, bool], str], what: str) -> None:
    """Refuses a job that no other process can have.

    Raises:
        CapabilityError: With what it holds that cannot be pickled.
    """
    try:
        _pickled(call)
    except Exception as error:  # what a user's object raises when it is pickled can be anything
        raise CapabilityError(
            f"{what} cannot be handed to another process: {type(error).__name__}: {error}",
            hint="evaluate in the loop (async_mode=False), or make its functions importable",
        ) from error


def _pickled(thing: Any) -> bytes:
    import cloudpickle

    content: bytes = cloudpickle.dumps(thing)
    return content
