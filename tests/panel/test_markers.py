"""What stands at the steps of a run, and what was released: from a real gate, real workflows and real checkpoints."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import pytest
from serving import answered, solver, task

from midflight.analyse.evidence import side_of
from midflight.engines import Fake
from midflight.errors import ConfigError
from midflight.gate import Policy, decide
from midflight.gate.workflow import WorkflowExecutor
from midflight.panel.panel import Panel
from midflight.pipeline import evaluate_checkpoint
from midflight.records import Progress
from midflight.run import Run

POLICY = Policy.model_validate(
    {"name": "release", "rules": [{"task": "sums", "metric": "exact_match", "at_least": 0.4}]}
)
SOLVED = {0: range(2), 100: range(20), 200: range(24), 300: range(22)}
"""Items that each checkpoint solves: the best one is that of step 200."""


class Loaded(Fake):
    """A scripted model that names the path that it was loaded from, as one of `midflight watch` does."""

    def __init__(self, solved, path, version):
        super().__init__(solver(set(solved)).answers, version=version)
        self.path = path

    def fingerprint(self):
        return {**super().fingerprint(), "model": self.path}


def evaluated(store, path=lambda step: "tiny-llama", name="r", steps=SOLVED):
    with Run("p", name, store=store, resume="never") as run:
        for step in steps:
            engine = Loaded(SOLVED[step], path(step), f"{name}-{step}")
            evaluate_checkpoint(task(), engine, run=run, progress=Progress(step))
    return store


def checkpoint(folder: Path, step: int) -> Path:
    path = folder / f"checkpoint-{step}"
    path.mkdir(parents=True)
    (path / "model.safetensors").write_bytes(bytes([step % 256]) * 100)
    return path


def workflow(folder: Path, smoke: str = "pass") -> Path:
    program = json.dumps([sys.executable, "-S", "-c", smoke])
    steps = f"""
        [[steps]]
        name = "production"
        kind = "promote"
        target = "models/production"
        [[steps]]
        name = "smoke"
        kind = "command"
        run = {program}
    """
    path = folder / f"release{len(smoke)}.toml"
    path.write_text(steps)
    return path


def release(store, folder: Path, step: int, smoke: str = "pass", run: str = "r"):
    verdict = decide(POLICY, side_of(store, f"{run}@{step}"), None, store, id=f"v{step}{run}", created_at=1.0)
    return WorkflowExecutor(workflow(folder, smoke), store).run(checkpoint(folder / run, step), verdict)


def marks(store, run=1):
    found = {}
    for marker in answered(Panel(store, background=False), f"/api/runs/{run}")["markers"]:
        found.setdefault(marker["kind"], []).append((marker["step"], marker["text"]))
    return found


def test_a_run_without_checkpoints_has_evaluations_and_its_best(store):
    found = marks(evaluated(store))
    assert found == {
        "evaluation": [(step, f"sums (fake-r-{step})") for step in SOLVED],
        "best": [(200, "sums exact_match")],
    }


def test_a_single_evaluation_is_no_best_one(store):
    assert set(marks(evaluated(store, steps=[100]))) == {"evaluation"}


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        (lambda step: f"out/checkpoint-{step}", [0, 100, 200, 300]),
        (lambda step: f"/runs/global_step_{step:06}", [0, 100, 200, 300]),
        (lambda step: "runs/checkpoint-100", []),  # training began with it: it is no checkpoint of each step
        (lambda step: f"Qwen/Qwen2.5-0.{step}B", []),
        (lambda step: f"fake-{step}", []),
        (lambda step: f"out/{step}-steps", []),
    ],
)
def test_weights_read_from_a_path_of_their_own_are_a_checkpoint(store, path, steps):
    assert marks(evaluated(store, path)).get("checkpoint", []) == [(step, path(step)) for step in steps]


def test_what_was_released_is_marked_and_what_was_taken_back_is_a_checkpoint(store, tmp_path):
    evaluated(store)
    assert release(store, tmp_path, 0).step("production").status == "skipped"
    assert release(store, tmp_path, 100).status == "done"
    assert release(store, tmp_path, 300, smoke="raise SystemExit(1)").status == "failed"
    found = marks(store)
    assert [step for step, _ in found["checkpoint"]] == [0, 100, 300]
    assert found["checkpoint"][1][1] == str(tmp_path / "r" / "checkpoint-100")
    digest = hashlib.sha256((tmp_path / "r" / "checkpoint-100" / "model.safetensors").read_bytes()).hexdigest()
    weights = hashlib.sha256(f"{digest}  model.safetensors\n".encode()).hexdigest()
    assert found["promoted"] == [(100, f"{tmp_path / 'models/production'} ({weights[:12]}), release4")]


def test_another_run_of_the_name_is_not_meant(store, tmp_path):
    evaluated(evaluated(store))  # names of runs need not differ
    release(store, tmp_path, 100)  # the newest
    assert "checkpoint" not in marks(store, 1)
    assert [step for step, _ in marks(store, 2)["checkpoint"]] == [100]


def test_the_page_of_gates_says_what_was_released_and_what_holds(store, tmp_path):
    evaluated(evaluated(store), name="other")
    first, second = release(store, tmp_path, 100), release(store, tmp_path, 200)
    other = release(store, tmp_path, 300, run="other")
    panel = Panel(store, background=False)
    releases = answered(panel, "/api/gates")["releases"]
    assert [one["execution"] for one in releases] == [other.id, second.id, first.id]
    assert [one["current"] for one in releases] == [True, False, False]
    trail = [
        event
        for event in store.audit()
        if (event.execution, event.step, event.event) == (first.id, "production", "done")
    ]
    assert (releases[2]["at"], releases[2]["who"]) == (trail[0].at, trail[0].who)
    assert (releases[2]["verdict"], releases[2]["weights"]) == ("v100r", first.weights)
    assert (tmp_path / "models/production").resolve() == tmp_path / "other" / "checkpoint-300"
    assert [one["execution"] for one in answered(panel, "/api/gates?runs=1")["releases"]] == [second.id, first.id]


def test_executions_whose_gate_is_a_step_belong_to_their_run(store, tmp_path):
    evaluated(store)
    (tmp_path / "policy.toml").write_text('[[rules]]\ntask = "sums"\nmetric = "exact_match"\nat_least = 0.4\n')
    gate = '[[steps]]\nname = "gate"\nkind = "gate"\npolicy = "policy.toml"\n'
    (tmp_path / "whole.toml").write_text(gate + workflow(tmp_path).read_text())
    execution = WorkflowExecutor(tmp_path / "whole.toml", store).run(checkpoint(tmp_path, 200), project="p", run="r")
    assert (execution.status, execution.verdict) == ("done", "")
    answer = answered(Panel(store, background=False), "/api/gates?runs=1")
    assert [one["id"] for one in answer["executions"]] == [execution.id]
    assert answer["releases"][0]["verdict"] == answer["verdicts"][0]["id"]
    assert [step for step, _ in marks(store)["promoted"]] == [200]


# -- what can be chosen ----------------------------------------------------------------------------------------------


def test_pages_say_which_metrics_there_are(filled):
    panel = Panel(filled, background=False)
    known = ["exact_match", "response_length"]
    assert answered(panel, "/api/items?run=1&task=sums")["metrics"] == known
    assert answered(panel, "/api/compare?baseline=1&candidates=2&task=sums")["metrics"] == known
    assert set(answered(panel, "/api/compare?baseline=1&candidates=2")["metrics"]) == {*known, "perplexity"}
    groups = answered(panel, "/api/groups?pattern=(.%2B)-seed%5Cd%2B&task=sums&metric=response_length")
    assert (groups["tasks"], groups["metrics"]) == (["bpb", "sums"], known)
    assert {curve["metric"] for curve in groups["curves"]} == {"response_length"}


def test_an_item_is_graded_by_the_metric_that_was_asked_for(filled):
    panel = Panel(filled, background=False)
    url = "/api/item?item=i3&runs=1&task=sums"
    assert answered(panel, url)["history"][0]["values"] == [0, 1, 1, 1]
    lengths = answered(panel, f"{url}&metric=response_length")
    assert (lengths["history"][0]["metric"], lengths["history"][0]["values"][-1]) == ("response_length", 1)
    with pytest.raises(ConfigError):
        answered(panel, f"{url}&metric=nothing")
