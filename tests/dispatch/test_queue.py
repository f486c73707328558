"""Which job comes next, and what becomes of those that do not."""

from __future__ import annotations

import threading

from midflight.dispatch.queue import Job, JobQueue, Weights


def job(name: str, step: int, priority: int = 0) -> Job:
    return Job(name, step, lambda engine, runs: "", priority)


def test_priority_first_then_the_oldest_weights():
    queue = JobQueue()
    for step in (10, 20):
        weights = Weights(None, None)
        for name, priority in (("long", 0), ("sentinel", 5)):
            queue.put(job(name, step, priority), weights)
    order = [queue.take()[0] for _ in range(4)]
    assert [(j.name, j.step) for j in order] == [("sentinel", 10), ("sentinel", 20), ("long", 10), ("long", 20)]


def test_weights_are_free_when_their_last_job_has_ended():
    queue, weights = JobQueue(), Weights(None, None)
    for name in "ab":
        queue.put(job(name, 1), weights)
    first, second = queue.take()[0], queue.take()[0]
    queue.end(second, "done", "x")
    assert weights.open == 1
    queue.end(first, "failed", reason="no")
    assert weights.open == 0
    assert [(o.job.name, o.ending, o.result, o.reason) for o in queue.poll()] == [
        ("b", "done", "x", ""),
        ("a", "failed", "", "no"),
    ]
    assert queue.poll() == []


def test_newer_weights_replace_those_of_which_nothing_runs():
    queue = JobQueue()
    running, waiting = Weights(None, None), Weights(None, None)
    for name in "ab":
        queue.put(job(name, 1), running)
    queue.put(job("a", 2), waiting)
    queue.take()
    queue.supersede("by newer ones")
    assert [(o.job.name, o.job.step, o.ending) for o in queue.poll()] == [("a", 2, "superseded")]
    assert (running.open, waiting.open) == (2, 0)
    assert queue.unfinished == 2


def test_pause_resume_and_close():
    queue, taken = JobQueue(), []
    thread = threading.Thread(target=lambda: [taken.append(queue.take()), taken.append(queue.take())])
    queue.pause()
    queue.put(job("a", 1), Weights(None, None))
    thread.start()
    assert not queue.wait(lambda: bool(taken), 0.05)
    queue.resume()
    queue.wait(lambda: queue._waiting == [], 10)
    queue.close()
    thread.join(10)
    assert [bool(t) for t in taken] == [True, False]
