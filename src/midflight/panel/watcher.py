"""What is new in a store: a thread that looks a few times a second, and tells everybody who waits.

A look at a store in which nothing was written costs some microseconds: SQLite keeps a number for it. What tells a run's
change is in its pulse; a page asks again for what it shows of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Literal

from typing_extensions import TypedDict

from midflight.errors import StoreError
from midflight.panel.state import State, state_of
from midflight.store import Pulse, Store

LOOK_S = 0.2
SHARE = 10
"""A look that took long is followed by so many times as long a pause: watching costs a tenth of a processor at most."""
MOST_RUNS = 200
"""Runs that a change tells of; more, and the page loads again."""
ALIVE_S = 5.0
"""Seconds between two looks at whether the processes of running runs are alive."""

Kind = Literal["points", "evaluations", "state", "findings", "tags", "new"]


class RunChange(TypedDict):
    """What has changed in a run."""

    id: int
    state: State
    last_step: int | None
    num_points: int
    num_evaluations: int
    heartbeat: float
    changed: list[Kind]


class Change(TypedDict):
    """What has changed since a token."""

    since: str
    reset: bool
    runs: list[RunChange]


class Watcher:
    """Watches a store.

    Args:
        store: The store.
        look_s: Seconds between two looks.
    """

    def __init__(self, store: Store, look_s: float = LOOK_S) -> None:
        self._store, self._look_s = store, look_s
        self._boot = secrets.token_hex(3)  # a token of another server is not ours
        self._version = 0
        self._pulses: dict[int, Pulse] = {}
        self._states: Mapping[int, State] = {}
        self._changed: dict[int, dict[Kind, int]] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._listeners: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
        self._thread: threading.Thread | None = None

    @property
    def token(self) -> str:
        """Where the store stands now."""
        return f"{self._boot}.{self._version}"

    def start(self) -> None:
        """Looks once, then goes on in a thread of its own."""
        self._look()
        self._changed.clear()  # what was there before is not new
        self._thread = threading.Thread(target=self._loop, name="midflight-watcher", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def since(self, token: str) -> Change:
        """What has changed since a token; what it says at least, for some of it may have been known."""
        boot, _, number = token.partition(".")
        with self._lock:
            now = self.token
            if boot != self._boot or not number.isdecimal() or len(number) > 18:
                return {"since": now, "reset": bool(token), "runs": []}
            before = int(number)
            found = {
                run: [kind for kind, version in kinds.items() if version > before]
                for run, kinds in self._changed.items()
                if max(kinds.values()) > before
            }
            runs = [self._of(run, kinds) for run, kinds in found.items() if run in self._pulses]
        if len(runs) > MOST_RUNS or before > self._version:
            return {"since": now, "reset": True, "runs": []}
        return {"since": now, "reset": False, "runs": runs}

    def note(self, run: int, kind: Kind) -> None:
        """Takes note of a change that is not in the store."""
        with self._lock:
            self._version += 1
            self._changed.setdefault(run, {})[kind] = self._version
        self._tell()

    @contextlib.contextmanager
    def listening(self) -> Iterator[asyncio.Event]:
        """An event that is set whenever something is new."""
        listener = (asyncio.get_running_loop(), asyncio.Event())
        self._listeners.append(listener)
        try:
            yield listener[1]
        finally:
            self._listeners.remove(listener)

    @property
    def num_listeners(self) -> int:
        """How many wait."""
        return len(self._listeners)

    def _of(self, run: int, kinds: list[Kind]) -> RunChange:
        pulse = self._pulses[run]
        return {
            "id": run,
            "state": self._states[run],
            "last_step": pulse.last_step,
            "num_points": pulse.num_points,
            "num_evaluations": pulse.num_evaluations,
            "heartbeat": pulse.heartbeat,
            "changed": kinds,
        }

    def _loop(self) -> None:
        seen, alive_at, pause = -1, 0.0, self._look_s
        while not self._stop.wait(pause):
            pause = self._look_s
            try:
                version, now = self._store.data_version(), time.monotonic()
                if version == seen and now - alive_at < ALIVE_S:
                    continue
                seen, alive_at = version, now
                self._look()
                pause = max(self._look_s, SHARE * (time.monotonic() - now))
            except StoreError:  # it is locked or gone: pages say so when they ask
                seen = -1
        self._store.close()

    def _look(self) -> None:
        pulses = {pulse.run: pulse for pulse in self._store.pulses()}
        states = {run: state_of(self._store, pulse) for run, pulse in pulses.items()}
        changed = {
            run: kinds
            for run, pulse in pulses.items()
            if (kinds := _differences(self._pulses.get(run), pulse, self._states.get(run), states[run]))
        }
        with self._lock:
            self._pulses, self._states = pulses, states
            if not changed:
                return
            self._version += 1
            for run, kinds in changed.items():
                self._changed.setdefault(run, {}).update(dict.fromkeys(kinds, self._version))
        self._tell()

    def _tell(self) -> None:
        for loop, event in list(self._listeners):
            with contextlib.suppress(RuntimeError):  # its loop has ended
                loop.call_soon_threadsafe(event.set)


def _differences(before: Pulse | None, now: Pulse, state_before: str | None, state: str) -> list[Kind]:
    if before is None:
        return ["new"]
    found: list[tuple[Kind, bool]] = [
        ("points", before.num_points != now.num_points),
        ("evaluations", _evaluated(before) != _evaluated(now)),
        ("findings", before.num_findings != now.num_findings),
        ("tags", before.tags != now.tags),
        ("state", state_before != state),
    ]
    return [kind for kind, differs in found if differs]


def _evaluated(pulse: Pulse) -> tuple[int, int, float]:
    return pulse.num_evaluations, pulse.num_unfinished, pulse.evaluation_seconds
