"""Midflight evaluates a language model while it trains.

    run = mf.Run(project="mt-math", name="mt4-seed0", config=cfg)
    with mf.Evaluator(mf.EvaluatorConfig(freq_steps=100, eval_before_train=True), tasks=["gsm8k", my_task],
                      engine=mf.engines.HF(model, tokenizer), run=run) as ev:
        for step, batch in enumerate(loader, start=1):
            run.log(step, loss=train_step(batch))
            ev.step(step, epoch=epoch)

Names are imported when they are used: `import midflight` itself loads next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from midflight import engines, environ
    from midflight.analyse.compare import compare
    from midflight.analyse.gradient_watch import GradientWatch
    from midflight.distributed import broadcast_tensor_container
    from midflight.evaluator import Evaluator, EvaluatorConfig
    from midflight.gate.workflow import WorkflowExecutor
    from midflight.metrics import BaseMetric
    from midflight.pipeline import evaluate_lm, evaluate_rw
    from midflight.run import Run
    from midflight.store import open_store
    from midflight.tasks import Task
    from midflight.triggers import EpochStepTimeFreqCtl

_HOMES = {
    "BaseMetric": "midflight.metrics",
    "EpochStepTimeFreqCtl": "midflight.triggers",
    "GradientWatch": "midflight.analyse.gradient_watch",
    "Evaluator": "midflight.evaluator",
    "EvaluatorConfig": "midflight.evaluator",
    "Run": "midflight.run",
    "Task": "midflight.tasks",
    "WorkflowExecutor": "midflight.gate.workflow",
    "broadcast_tensor_container": "midflight.distributed",
    "compare": "midflight.analyse.compare",
    "evaluate_lm": "midflight.pipeline",
    "evaluate_rw": "midflight.pipeline",
    "open_store": "midflight.store",
}
_MODULES = ("engines", "environ")

__all__ = [  # noqa: RUF022 - what a newcomer needs first comes first
    "Run",
    "Evaluator",
    "EvaluatorConfig",
    "EpochStepTimeFreqCtl",
    "Task",
    "BaseMetric",
    "engines",
    "environ",
    "evaluate_lm",
    "evaluate_rw",
    "open_store",
    "compare",
    "GradientWatch",
    "broadcast_tensor_container",
    "WorkflowExecutor",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"midflight.{name}")
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'midflight' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
