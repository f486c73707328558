"""A training run: `run.log`, and where its evaluations belong."""

from midflight.run._rows import MAX_KEY
from midflight.run._run import Run, checked_name

__all__ = ["MAX_KEY", "Run", "checked_name"]
