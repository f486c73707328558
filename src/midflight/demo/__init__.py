"""The demo: a small language model is really trained, under two strategies, and evaluated in flight.

`arithmetic` is the task, `model` the transformer, `training` the warm-up and GRPO, `story` what is shown at the end.
"""

from midflight.demo.conductor import run_demo

__all__ = ["run_demo"]
