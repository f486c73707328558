"""Copies of an engine on a real Ray cluster of several nodes on this machine."""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch

import midflight as mf
from conftest import tiny_llama
from midflight.engines.fake import Fake
from midflight.errors import ConfigError, EngineDiedError
from midflight.records import Request, Sampling

ray = pytest.importorskip("ray")


@pytest.fixture(scope="module")
def cluster():
    from ray.cluster_utils import Cluster

    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))  # workers import this file
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    node = {"num_cpus": 2, "object_store_memory": 80_000_000}
    found = Cluster(initialize_head=True, head_node_args=node)
    found.add_node(**node)
    ray.init(address=found.address, log_to_driver=False, logging_level="ERROR")
    yield found
    ray.shutdown()
    found.shutdown()


def requests(count: int) -> list[Request]:
    return [Request(f"{i:04d}/0/0", f"{i:04d}", "generate", "x" * (i % 7), sampling=Sampling()) for i in range(count)]


def echo(request) -> str:
    return f"{request.item_id} {os.getpid()}"


class KillOnce:
    """Kills the first process that gets to the item; writes down who answered what."""

    def __init__(self, folder: Path, item: str):
        self.folder, self.item = folder, item

    def __call__(self, request) -> str:
        if request.item_id == self.item:
            try:
                (self.folder / "killed").touch(exist_ok=False)
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        return request.item_id


def test_each_request_is_answered_once_by_several(cluster):
    engine = mf.engines.Ray(Fake(echo), workers=3)
    outputs = list(engine.run(requests(100)))
    assert Counter(o.request_id for o in outputs) == Counter(r.id for r in requests(100))
    assert all(o.text.split()[0] == o.request_id[:4] for o in outputs)
    assert len({o.text.split()[1] for o in outputs}) > 1
    assert str(os.getpid()) not in {o.text.split()[1] for o in outputs}
    assert sum(engine.timings().values()) > 0
    assert list(engine.run([])) == []
    engine.close()


def test_an_actor_that_is_killed_is_replaced_and_costs_nothing(cluster, tmp_path):
    engine = mf.engines.Ray(Fake(KillOnce(tmp_path, "0042")), workers=2)
    outputs = list(engine.run(requests(100)))
    assert (tmp_path / "killed").exists()
    assert Counter(o.request_id for o in outputs) == Counter(r.id for r in requests(100))
    assert all(o.error is None for o in outputs)
    engine.close()


def test_what_kills_every_actor_ends_the_evaluation_and_keeps_what_was_answered(cluster, tmp_path):
    def kill(request) -> str:
        if request.item_id == "0003":
            os.kill(os.getpid(), signal.SIGKILL)
        return "1"

    task = mf.Task(
        "t", [{"q": i} for i in range(40)], prompt="{{ q }}", target="1", metrics=["exact_match"], id="'%04d' % q"
    )
    engine = mf.engines.Ray(Fake(kill), workers=1)
    report = mf.evaluate_lm(engine, task)
    assert report.status == "failed"
    assert "too many actors of the Ray cluster were lost" in next(iter(report.errors))
    engine.close()


def test_what_raises_costs_its_own_piece(cluster):
    def fail(request) -> str:
        return str(1 / (int(request.item_id) - 5))

    engine = mf.engines.Ray(Fake(fail), workers=2)
    outputs = {o.request_id: o for o in engine.run(requests(64))}
    assert len(outputs) == 64
    assert outputs["0005/0/0"].error == "ZeroDivisionError: division by zero"
    assert sum(o.error is not None for o in outputs.values()) == 4  # 64 requests in 16 pieces
    engine.close()


def test_a_model_in_training_gives_its_own_numbers_after_each_update(cluster, word_tokenizer):
    model = tiny_llama(word_tokenizer)
    inner = mf.engines.HF(model, word_tokenizer)
    engine = mf.engines.Ray(inner, workers=2)
    task = mf.Task(
        "t", [{"a": a} for a in range(12)], prompt="{{ a }}+1=", target="a", sampling={"max_tokens": 3},
        metrics=["exact_match", "token_entropy"],
    )  # fmt: skip
    for _ in range(2):
        mine, theirs = (mf.evaluate_lm(e, task) for e in (engine, inner))
        assert mine.weights == theirs.weights
        assert mine.task_fingerprint == theirs.task_fingerprint
        assert mine.estimate("token_entropy").value == pytest.approx(theirs.estimate("token_entropy").value, rel=1e-5)
        with torch.no_grad():
            model.lm_head.weight.mul_(1.5)
    engine.close()


def test_a_node_that_is_lost_costs_nothing(cluster):
    extra = cluster.add_node(num_cpus=2, resources={"extra": 2}, object_store_memory=80_000_000)
    engine = mf.engines.Ray(Fake("1", delay_s=0.01), workers=3)
    outputs = []
    for number, output in enumerate(engine.run(requests(300))):
        outputs.append(output)
        if number == 30:
            cluster.remove_node(extra, allow_graceful=False)
    assert Counter(o.request_id for o in outputs) == Counter(r.id for r in requests(300))
    assert all(o.error is None for o in outputs)
    engine.close()


def test_what_the_cluster_does_not_have(cluster):
    engine = mf.engines.Ray(Fake("1"), workers=1, resources={"unobtainium": 1}, start_s=1.0)
    with pytest.raises(EngineDiedError, match=r"no actor of the Ray cluster started within 1 s.*unobtainium"):
        list(engine.run(requests(3)))
    engine.close()
    with pytest.raises(ConfigError, match="workers; got 0"):
        mf.engines.Ray(Fake("1"), workers=0)


def test_beside_training(cluster):
    engine = mf.engines.Ray(Fake("1"), workers=2, address=cluster.address)
    task = mf.Task("t", [{"q": i} for i in range(9)], prompt="{{ q }}", target="1", metrics=["exact_match"])
    with mf.Evaluator(mf.EvaluatorConfig(async_mode=True, freq_steps=1), [task], engine, quiet=True) as ev:
        ev.step(1)
    (report,) = ev.reports
    assert (report.status, report.estimate("exact_match").value) == ("done", 1.0)
    assert report.cost.rank_seconds
