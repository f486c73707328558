"""The object in the user's training loop: `loop` decides when; how is `between_steps`, or `beside_training`."""

from midflight.evaluator.config import EvaluatorConfig
from midflight.evaluator.loop import Evaluator

__all__ = ["Evaluator", "EvaluatorConfig"]
