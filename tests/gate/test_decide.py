"""Looks and verdicts in a store: counted once each, by many processes, and not needed where nothing counts."""

from __future__ import annotations

import subprocess
import sys

import pytest
from sides import N, evaluate, policy, rule, solves, task

from midflight.analyse.evidence import Side
from midflight.errors import StoreError
from midflight.gate import decide
from midflight.store import Store, open_store

EVERY = policy(rule(at_least=0.5), looks="every-checkpoint")


def decided(asked, side, store, id="v", at=1.0):
    return decide(asked, side, None, store, id=id, created_at=at)


def test_the_same_weights_are_the_same_look_and_others_are_another(store):
    sides = [evaluate(store, "run", solves(*range(5, N)), task(), step=step) for step in (1, 2, 3)]
    looks = [decided(EVERY, side, store, f"{i}").look for i, side in enumerate([*sides, sides[0], sides[2]])]
    assert looks == [1, 2, 3, 1, 3]
    other_policy = policy(rule(at_least=0.6), looks="every-checkpoint")
    assert decided(other_policy, sides[2], store, "other").look == 1
    assert decided(EVERY, evaluate(store, "another", solves(), task()), store, "run").look == 1


def test_other_samples_from_the_same_weights_are_another_chance(store):
    sides = [evaluate(store, "run", solves(), task(), step=seed, seed=seed, weights="same") for seed in (0, 1)]
    assert [decided(EVERY, side, store, f"{i}").look for i, side in enumerate(sides)] == [1, 2]


def test_a_task_that_is_added_to_the_same_weights_is_no_other_look(store):
    first = evaluate(store, "run", solves(), task(), weights="same")
    second = evaluate(store, "run", solves(), task("more"), weights="same")
    assert [decided(EVERY, side, store, f"{i}").look for i, side in enumerate((first, second))] == [1, 1]


def test_verdicts_come_back_newest_first(store):
    side = evaluate(store, "run", solves(*range(5, N)), task())
    kept = [decided(EVERY, side, store, id, at) for id, at in (("a", 1.0), ("b", 2.0))]
    decided(EVERY, evaluate(store, "other", solves(), task()), store, "c", 3.0)
    assert [v.id for v in store.verdicts()] == ["c", "b", "a"]
    assert [v.id for v in store.verdicts("p", "run")] == ["b", "a"]
    assert store.verdicts("q") == []
    assert store.verdicts("p", "run")[1].reasons == kept[0].reasons
    assert kept[0].software["midflight"]
    assert kept[0].environment["host"]


COUNT = """
import sys
from midflight.store import open_store
store = open_store(sys.argv[1])
for i in range(25):
    print(store.take_look("p", "r", "policy", f"{sys.argv[2]}-{i}"))
"""


def test_gates_in_many_processes_count_each_look_once(store):
    children = [
        subprocess.Popen([sys.executable, "-c", COUNT, store.location, str(i)], stdout=subprocess.PIPE, text=True)
        for i in range(3)
    ]
    numbers = [int(line) for child in children for line in child.communicate(timeout=120)[0].split()]
    assert sorted(numbers) == list(range(1, 76))


class ReadOnly:
    """A store on a disk that takes no writes."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def __getattr__(self, name):
        return getattr(self.store, name)

    def take_look(self, *_):
        raise StoreError("it cannot be written to")

    add_verdict = take_look


def test_a_store_that_cannot_be_written_to_serves_unless_looks_are_paid_for(store):
    side = evaluate(store, "run", solves(*range(5, N)), task())
    once = policy(rule(at_least=0.5))
    for place in (ReadOnly(store), None):
        found = decided(once, side, place)
        assert (found.outcome, found.look) == ("pass", 0)
        assert found.warnings == ([] if place is None else ["this verdict is kept nowhere: it cannot be written to"])
    with pytest.raises(StoreError, match="cannot be written"):
        decided(EVERY, side, ReadOnly(store))
    assert store.verdicts() == []


def test_what_nobody_judged_is_not_counted_as_seen(store, tmp_path):
    empty = Side("nothing", {})
    assert decided(policy(rule(at_least=0.5)), empty, store).outcome == "inconclusive"
    assert open_store(str(tmp_path / "test.db")).verdicts()[0].candidate.label == "nothing"
