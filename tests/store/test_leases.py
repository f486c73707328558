"""Work that one process does at a time: no clock is trusted, and one that was taken for dead finds out."""

from __future__ import annotations

import multiprocessing
import time

import pytest

from midflight.errors import LeaseLostError
from midflight.store import open_store
from midflight.store.leases import Leases


@pytest.fixture
def store(tmp_path):
    return open_store(str(tmp_path / "s.db"))


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def leases(store, owner: str, clock=None, dead_s: float = 60.0) -> Leases:
    return Leases(store, owner, dead_s, clock or Clock())


def test_one_at_a_time_and_again_when_it_is_given_back(store):
    a, b = leases(store, "a"), leases(store, "b")
    with a.held("x") as mine:
        assert mine is not None
        with b.held("x") as theirs, b.held("y") as other:
            assert theirs is None
            assert other is not None
    with b.held("x") as theirs:
        assert theirs.number == mine.number + 1


def test_an_exception_gives_it_back(store):
    with pytest.raises(ZeroDivisionError), leases(store, "a").held("x"):
        raise ZeroDivisionError
    with leases(store, "b").held("x") as theirs:
        assert theirs is not None


def test_a_silent_holder_is_replaced_and_finds_out(store):
    clock = Clock()
    b = leases(store, "b", clock)
    with leases(store, "a").held("x") as mine:
        for at, free in ((0, False), (59, False), (60, True)):
            clock.now = at
            with b.held("x") as theirs:
                assert (theirs is not None) == free
                if theirs is not None:
                    assert not store.renew_lease("x", mine.number)
                    mine._lost = True  # what its thread would find
                    with pytest.raises(LeaseLostError, match="another process took over: x"):
                        mine.check()
                    theirs.check()


def test_a_holder_that_renews_keeps_it_however_the_clock_jumps(store):
    clock = Clock()
    b = leases(store, "b", clock)
    with leases(store, "a").held("x") as mine:
        for _ in range(5):
            with b.held("x") as theirs:
                assert theirs is None
            store.renew_lease("x", mine.number)
            clock.now += 1e9  # each look sees a newer beat


def test_its_thread_renews_it(store):
    with leases(store, "a", dead_s=0.04).held("x") as mine:
        first = store.lease("x")
        deadline = time.monotonic() + 30
        while store.lease("x") == first:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        mine.check()


def _race(url: str, name: str, barrier, wins) -> None:
    store = open_store(url)
    for i in range(20):
        barrier.wait()
        if store.take_lease(f"job{i}", name) is not None:
            wins.put((i, name))
    wins.put(None)


def test_of_many_processes_one_wins_each_job(store):
    context = multiprocessing.get_context("spawn")
    barrier, wins = context.Barrier(4), context.Queue()
    jobs = [context.Process(target=_race, args=(store.url, f"p{i}", barrier, wins)) for i in range(4)]
    for job in jobs:
        job.start()
    found, ended = [], 0
    while ended < 4:
        got = wins.get(timeout=60)
        ended += got is None
        found += [got] if got is not None else []
    assert sorted(i for i, _ in found) == list(range(20))
