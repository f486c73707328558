"""One evaluation over several ranks: the report of one process, whatever the layout, and whoever fails."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import time
from pathlib import Path

import pytest
import torch.distributed as dist
from ranks import run_ranks

import midflight as mf
from midflight.evaluator import across_ranks
from midflight.sequential import SequentialRule

ROWS = [{"a": a, "b": "x" * (a * a % 37)} for a in range(23)]


def tasks(rows=ROWS) -> list[mf.Task]:
    common = {"prompt": "{{ a }} {{ b }}", "target": "a", "slices": {"odd": "a % 2"}}
    return [
        mf.Task("numbers", rows, metrics=["exact_match", "token_entropy"], **common),
        mf.Task("more", rows, metrics=["exact_match"], samples=3, sampling={"temperature": 1.0}, **common),
    ]


def answer(request) -> str:
    """Right for two thirds of the items."""
    number = int(request.item_id)
    return str(number if number % 3 else number + 1)


def plain(report) -> dict:
    return {
        "status": report.status,
        "errors": dict(report.errors),
        "fingerprint": report.task_fingerprint,
        "estimates": [(e.metric, e.slice, e.value, e.stderr, e.ci_low, e.ci_high, dict(e.counts)) for e in report.estimates
                      if not e.unit.startswith(("tokens/s", "bytes"))],
    }  # fmt: skip


def evaluate(rank, size, nodes_of=None, answers=answer, rows=ROWS, gate=None, **config):
    """Reports of two evaluations, what failed, and how many requests this rank answered."""
    if nodes_of is not None:
        os.environ.update(RANK=str(rank), WORLD_SIZE=str(size), GROUP_RANK=str(nodes_of[rank]))
    across_ranks.GRACE_S = 1.0
    engine = mf.engines.Fake(answers)
    ev = mf.Evaluator(mf.EvaluatorConfig(distributed=True, freq_steps=1, **config), tasks(rows), engine, quiet=True)
    ev.start()
    found = [[plain(report) for report in ev.step(1)]]
    if rank == 0 and gate is not None:
        Path(gate).touch()  # the first evaluation is over: what hung in it goes on
    found.append([plain(report) for report in ev.step(2)])
    with contextlib.suppress(RuntimeError):  # a rank may be gone; the others stay until all have read their letters
        dist.barrier()
    seconds = [dict(report.cost.rank_seconds) for report in ev.reports]
    return {"reports": found, "seconds": seconds, "asked": len(engine.seen), "state": ev.state_dict()["evaluations"]}


def alone(rows=ROWS):
    return [plain(mf.evaluate_lm(mf.engines.Fake(answer), task)) for task in tasks(rows)]


@pytest.mark.parametrize(
    ("size", "nodes_of", "config"),
    [
        (2, None, {}),
        (3, [0, 0, 1], {"local_eval_nodes": 1}),
        (4, [0, 1, 2, 3], {"local_eval_nodes": 2}),
        (8, [0, 0, 1, 1, 2, 2, 3, 3], {"local_eval_nodes": 2}),
    ],
)
def test_the_report_is_that_of_one_process(size, nodes_of, config):
    ranks = run_ranks(_evaluate_with, size, size, nodes_of, config)
    assert ranks[0]["reports"] == [alone(), alone()]
    assert all(rank["reports"] == [[], []] for rank in ranks[1:])
    assert [list(seconds) for seconds in ranks[0]["seconds"]] == [[f"rank {rank}" for rank in range(size)]] * 4
    assert sum(rank["asked"] for rank in ranks) == 2 * (23 + 3 * 23)
    assert min(rank["asked"] for rank in ranks) > 0
    assert all(rank["state"] == {"measured": {"numbers": 2, "more": 2}, "failing": {}} for rank in ranks)


def _evaluate_with(rank, size, nodes_of, config):
    return evaluate(rank, size, nodes_of, **config)


def test_more_ranks_than_items():
    ranks = run_ranks(_evaluate_few, 4, 4)
    assert ranks[0]["reports"] == [alone(ROWS[:2])] * 2


def _evaluate_few(rank, size):
    return evaluate(rank, size, rows=ROWS[:2])


class Fault:
    """On one rank, in the first evaluation, the third answer."""

    def __init__(self, rank: int, at: int, kind: str, gate: str | None):
        self.here, self.kind, self.gate, self.count = rank == at, kind, gate, 0

    def __call__(self, request) -> str:
        self.count += 1
        if self.here and self.count == 3:
            if self.kind == "raises":
                raise MemoryError("no room")
            if self.kind == "hangs":
                while not Path(self.gate).exists():
                    time.sleep(0.01)
            if self.kind == "dies":
                os.kill(os.getpid(), signal.SIGKILL)
        return answer(request)


def _evaluate_with_fault(rank, size, nodes_of, at, kind, config, gate=None):
    return evaluate(rank, size, nodes_of, answers=Fault(rank, at, kind, gate), gate=gate, **config)


@pytest.mark.parametrize("at", [1, 2])
def test_a_rank_that_raises_costs_its_own_share(at):
    """Rank 2 leads the second group of nodes, rank 1 leads nothing."""
    ranks = run_ranks(_evaluate_with_fault, 4, 4, [0, 0, 1, 1], at, "raises", {"local_eval_nodes": 1})
    (first, second), again = ranks[0]["reports"]
    assert (first["status"], second["status"]) == ("partial", "done")
    counts = first["estimates"][0][-1]
    assert counts["ok"] + counts["error"] == 23
    assert counts["error"] >= 1
    assert [reason.replace("error: ", "") for reason in first["errors"]] == [f"rank {at}: MemoryError: no room"]
    assert again == alone()
    assert all(rank["state"]["failing"] == {} for rank in ranks)


@pytest.mark.parametrize("at", [1, 2])
def test_a_rank_that_hangs_costs_its_own_share_and_comes_back(at, tmp_path):
    config = {"local_eval_nodes": 1, "limit_s": 1.0}
    ranks = run_ranks(_evaluate_with_fault, 4, 4, [0, 0, 1, 1], at, "hangs", config, str(tmp_path / "gate"))
    first = ranks[0]["reports"][0][0]
    assert first["status"] == "partial"
    assert all(f"rank {at}: " in reason for reason in first["errors"] if "in time" in reason or "within" in reason)
    assert isinstance(ranks[at], dict)  # it went on


def test_a_rank_that_dies_costs_its_own_share():
    ranks = run_ranks(_evaluate_with_fault, 4, 4, [0, 0, 1, 1], 1, "dies", {"local_eval_nodes": 1, "limit_s": 2.0})
    assert ranks[1] == "died"
    for reports in ranks[0]["reports"]:
        counts = reports[0]["estimates"][0][-1]
        assert reports[0]["status"] == "partial"
        assert counts["ok"] + counts["error"] == 23


def test_the_leader_of_a_group_that_dies_costs_its_group():
    ranks = run_ranks(_evaluate_with_fault, 4, 4, [0, 0, 1, 1], 2, "dies", {"local_eval_nodes": 1, "limit_s": 2.0})
    assert ranks[2] == "died"
    assert ranks[0]["reports"][0][0]["status"] == "partial"
    assert ranks[3][0] == "EvaluationError"
    assert "the post office of rank 2 is gone" in ranks[3][1]


def _resume_untold(rank, folder):
    run = mf.Run("p", "r", store=f"{folder}/s.db", resume="must")
    ev = mf.Evaluator(
        mf.EvaluatorConfig(distributed=True, freq_steps=1, eval_before_train=True),
        tasks(),
        mf.engines.Fake(answer),
        run,
        quiet=True,
    )
    ev.start()  # nobody says at which step: nothing is measured, on no rank
    found = [len(ev.reports), len(ev.step(1))]
    dist.barrier()
    return found


def test_a_run_that_is_resumed_is_so_on_all_ranks(tmp_path):
    mf.Run("p", "r", store=f"{tmp_path}/s.db").finish()
    assert run_ranks(_resume_untold, 2, str(tmp_path)) == [[0, 2], [0, 0]]


def decide(rank, size, store):
    """What a rule says of an equal model, and how many requests this rank answered."""
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(size))
    engine = mf.engines.Fake(answer)
    task = tasks([{"a": a, "b": ""} for a in range(300)])[0]
    rule = SequentialRule(task="numbers", margin=0.1, look=16)
    config = mf.EvaluatorConfig(distributed=size > 1, eval_before_train=True, sequential=[rule])
    run = mf.Run("p", f"ranks-{size}", store=store)
    ev = mf.Evaluator(config, [task], engine, run, quiet=True)
    ev.start()
    ev.step(1)
    found = [(report.status, report.decided) for report in ev.finish()]
    if size > 1:
        dist.barrier()  # rank 0 stays until all have read their letters
    return found, len(engine.seen)


def test_a_rule_ends_an_evaluation_over_ranks(tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "0")  # and put back what `decide` sets here
    monkeypatch.setenv("WORLD_SIZE", "1")
    (((status, decided),), asked) = decide(0, 1, str(tmp_path / "one.db"))
    ranks = run_ranks(decide, 3, 3, str(tmp_path / "ranks.db"))
    (((status_of_ranks, of_ranks),), _) = ranks[0]
    assert (status, status_of_ranks, decided.outcome, decided.early) == ("done", "done", "pass", True)
    assert dataclasses.replace(of_ranks, baseline="", evaluation="") == dataclasses.replace(
        decided, baseline="", evaluation=""
    )
    assert [found for found, _ in ranks[1:]] == [[], []]
    assert sum(count for _, count in ranks) == asked
