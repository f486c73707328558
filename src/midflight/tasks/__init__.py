"""Stage 3, what: takes a name, a file or an object, gives items and their requests; goes to the engine.

A task is a TOML file beside this one or a `Task` object. `sources` holds where rows come from, `kinds` what can be
asked. Outputs come back here to become samples: the answer that each output holds.
"""

from midflight.tasks._load import load_task, ready_made
from midflight.tasks._spec import FewShotSpec, SamplingSpec, TaskSpec
from midflight.tasks._task import Task

__all__ = ["FewShotSpec", "SamplingSpec", "Task", "TaskSpec", "load_task", "ready_made"]
