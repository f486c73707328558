"""What a run is said to be: never running when its process is gone, and never failed when a person stopped it."""

from __future__ import annotations

import dataclasses
import socket
import subprocess
import sys

import pytest

from midflight import environ
from midflight.engines import Fake
from midflight.pipeline import evaluate_checkpoint
from midflight.records import Progress
from midflight.run import Run
from midflight.show.state import unfinished_line, view_run
from midflight.tasks import Task

TASK = Task("sums", [{"a": a} for a in range(12)], prompt="{{ a }}", target="a", metrics=["exact_match"])


class Stopped(Fake):
    """Ctrl-C after five answers."""

    def run(self, requests):
        for index, output in enumerate(super().run(requests)):
            if index == 5:
                raise KeyboardInterrupt
            yield output


def view(store):
    return view_run(store, store.runs()[0])


def test_a_process_that_is_gone_is_lost_and_one_that_lives_is_running(store):
    store.create_run("p", "alive", owner=environ.owner())
    assert view(store).state == "running"
    store.create_run("p", "killed", owner=f"{socket.gethostname()}:999999999:1")
    assert view(store).state == "lost"


@pytest.mark.parametrize(
    ("error", "state"), [(None, "finished"), (ValueError, "failed"), (KeyboardInterrupt, "interrupted")]
)
def test_how_a_run_ended(store, error, state):
    try:
        with Run("p", "r", store=store) as run:
            run.log(1, x=1.0)
            if error:
                raise error
    except (ValueError, KeyboardInterrupt):
        pass
    assert view(store).state == state


def test_a_new_run_beside_one_of_its_name_is_announced(store, caplog):
    for resume in ("auto", "auto", "never"):
        with Run("p", "r", store=store, resume=resume):
            pass
    assert [record.getMessage() for record in caplog.records] == [
        "midflight: new run 2 beside finished run 1 of that name, 'r'"
    ]


class TestAnInterruptedEvaluation:
    @pytest.fixture(autouse=True)
    def _stopped(self, store):
        with pytest.raises(KeyboardInterrupt), Run("p", "r", store=store) as run:
            evaluate_checkpoint(TASK, Stopped("1"), run=run, progress=Progress(3))

    def test_says_how_far_it_came(self, store):
        found = view(store)
        assert found.state == "interrupted"
        assert [unfinished_line(one) for one in found.unfinished] == [
            "sums at step 3: interrupted, 5 of 12 items answered"
        ]

    def test_completed_by_another_process_it_is_finished(self, store):
        with Run("p", "r", store=store, resume="attach") as run:
            evaluate_checkpoint(TASK, Fake("1"), run=run, progress=Progress(3))
        assert (view(store).state, view(store).unfinished) == ("finished", [])

    def test_what_a_later_attempt_superseded_is_not_waited_for(self, store):
        with Run("p", "r", store=store) as run:
            run.begin_at(2)
            run.log(3, x=1.0)
        assert view(store).unfinished == []


def test_points_that_were_superseded_are_not_counted(store):
    for attempt in range(2):
        with Run("p", "r", store=store, resume="auto" if attempt == 0 else "must") as run:
            run.begin_at(4)
            for step in range(5 * attempt, 10):
                run.log(step, loss=1.0)
    assert store.heads(run.id)[0].num_points == 15
    done = subprocess.run(
        [sys.executable, "-m", "midflight", "show", "r", "--store", store.url], capture_output=True, text=True
    )
    assert done.stdout.splitlines()[-1].split() == ["loss", "1", "9", "10"]


def test_last_step_of_nothing_is_none(store):
    store.create_run("p", "r", owner=environ.owner())
    assert view(store).last_step is None
    assert dataclasses.asdict(view(store))["reports"] == []
