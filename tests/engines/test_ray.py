"""Copies of an engine on a real Ray cluster of several nodes on this machine."""

from __future__ import annotations

import os
import signal
import sys
import time
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


class Together:
    """Answers once so many processes are asked; says who answers, and where."""

    def __init__(self, folder: Path, count: int):
        self.folder, self.count = folder, count
        folder.mkdir(exist_ok=True)

    def __call__(self, request) -> str:
        (self.folder / str(os.getpid())).touch()
        while len(list(self.folder.iterdir())) < self.count:
            time.sleep(0.01)
        return f"{request.item_id} {ray.get_runtime_context().get_node_id()} {os.getpid()}"


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


def test_each_request_is_answered_once_by_several(cluster, tmp_path):
    engine = mf.engines.Ray(Fake(Together(tmp_path / "pids", 3)), workers=3)
    outputs = list(engine.run(requests(100)))
    assert Counter(o.request_id for o in outputs) == Counter(r.id for r in requests(100))
    assert all(o.text.split()[0] == o.request_id[:4] for o in outputs)
    assert sum(nodes_of(outputs).values()) == 3
    assert str(os.getpid()) not in {o.text.split()[2] for o in outputs}
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


def nodes_of(outputs) -> Counter:
    """How many actors answered on each node."""
    return Counter(node for node, _ in {tuple(output.text.split()[1:]) for output in outputs})


def test_actors_share_as_many_nodes_as_they_are_told(cluster, tmp_path):
    for nodes, workers, wanted in ((1, 2, [2]), (2, 2, [1, 1]), (2, 3, [1, 2])):
        together = Together(tmp_path / f"{nodes} {workers}", workers)
        engine = mf.engines.Ray(Fake(together), workers=workers, local_eval_nodes=nodes)
        outputs = list(engine.run(requests(100)))
        assert Counter(o.request_id for o in outputs) == Counter(r.id for r in requests(100))
        assert sorted(nodes_of(outputs).values()) == wanted
        engine.close()


def test_one_of_the_nodes_is_lost_and_there_is_no_other(cluster):
    """Those on the other node go on; what the lost one had is asked again."""
    extra = cluster.add_node(num_cpus=0, resources={"here": 1}, object_store_memory=80_000_000)
    other = cluster.add_node(num_cpus=0, resources={"here": 1}, object_store_memory=80_000_000)
    engine = mf.engines.Ray(Fake("1", delay_s=0.01), workers=2, local_eval_nodes=2, num_cpus=0, resources={"here": 1})
    outputs = []
    for number, output in enumerate(engine.run(requests(300))):
        outputs.append(output)
        if number == 30:
            cluster.remove_node(extra, allow_graceful=False)
    assert Counter(o.request_id for o in outputs) == Counter(r.id for r in requests(300))
    assert all(o.error is None for o in outputs)
    engine.close()
    cluster.remove_node(other, allow_graceful=False)


def test_what_the_cluster_does_not_have(cluster):
    engine = mf.engines.Ray(Fake("1"), workers=1, resources={"unobtainium": 1}, start_s=1.0)
    with pytest.raises(EngineDiedError, match=r"no actor of the Ray cluster started within 1 s.*unobtainium"):
        list(engine.run(requests(3)))
    engine.close()
    scattered = mf.engines.Ray(Fake("1"), workers=9, local_eval_nodes=9, start_s=1.0)
    with pytest.raises(EngineDiedError, match=r"no actor.*within 1 s.*on 9 nodes"):
        list(scattered.run(requests(3)))
    scattered.close()
    with pytest.raises(ConfigError, match="local_eval_nodes; got 3; allowed: 1 to 2"):
        mf.engines.Ray(Fake("1"), workers=2, local_eval_nodes=3)
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
