"""Work that only one process may do at a time, over any number of them that share a store.

No clock is compared with another's: a lease is dead when its holder has not renewed it for so long on the monotonic
clock of the one who watches it, or at once if its holder was a process of this machine and is gone. Its number grows
with each holder, so that one that was taken for dead finds out.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from midflight import environ
from midflight.errors import LeaseLostError, StoreError
from midflight.store.base import Store


class Leases:
    """The leases of one process.

    Args:
        store: Where they are kept.
        owner: Who takes them.
        dead_s: Seconds without a renewal after which another's lease is dead.
        clock: Monotonic clock, in seconds.
    """

    def __init__(
        self, store: Store, owner: str, dead_s: float = 60.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.store, self.owner, self.dead_s, self._clock = store, owner, dead_s, clock
        self._seen: dict[str, tuple[tuple[int, int], float]] = {}  # another's lease, and since when it is as it is

    @contextmanager
    def held(self, name: str) -> Iterator[Lease | None]:
        """A lease while the block runs, renewed by a thread of its own; None if another process has it."""
        lease = self._take(name)
        try:
            yield lease
        finally:
            if lease is not None:
                lease.end()

    def _take(self, name: str) -> Lease | None:
        seen = self.store.lease(name)
        over = None
        if seen is not None:
            if not self._is_dead(name, seen):
                return None
            over = seen
        number = self.store.take_lease(name, self.owner, over)
        return None if number is None else Lease(self.store, name, number, self.dead_s / 4)

    def _is_dead(self, name: str, seen: tuple[int, int]) -> bool:
        if not environ.is_alive(self.store.lease_owner(name), heartbeat=math.inf):  # of another machine: always alive
            return True
        known, since = self._seen.get(name, (None, 0.0))
        if known != seen:
            self._seen[name] = seen, self._clock()
            return False
        return self._clock() - since >= self.dead_s


class Lease:
    """A lease that this process holds, as long as `check` does not raise."""

    def __init__(self, store: Store, name: str, number: int, every_s: float) -> None:
        self._store, self.name, self.number = store, name, number
        self._lost, self._ended = False, threading.Event()
        self._thread = threading.Thread(target=self._renew, args=(every_s,), name="midflight-lease", daemon=True)
        self._thread.start()

    def _renew(self, every_s: float) -> None:
        while not self._ended.wait(every_s) and not self._lost:
            try:
                self._lost = not self._store.renew_lease(self.name, self.number)
            except StoreError:
                continue  # out of reach for a moment; whoever takes it over meanwhile is found out next time

    def check(self) -> None:
        """Does nothing while the lease is held.

        Raises:
            LeaseLostError: If another process has taken it over.
        """
        if self._lost:
            raise LeaseLostError(
                f"another process took over: {self.name}", hint="this one had been silent for too long"
            )

    def end(self) -> None:
        """Gives it back."""
        self._ended.set()
        self._thread.join()
        if not self._lost:
            self._store.end_lease(self.name, self.number)
