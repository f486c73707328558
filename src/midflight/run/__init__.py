"""A training run: `run.log`, and where its evaluations belong."""

from midflight.run._run import Run

__all__ = ["Run"]
