"""Stage 1, when: takes the progress of training, gives the decision to evaluate; comes first, goes to dispatch.

`frequency` counts steps, epochs, tokens and seconds; `backoff` tries again what failed; `checkpoints` watches a folder.
"""

from midflight.triggers.backoff import Backoff
from midflight.triggers.budget import Budget
from midflight.triggers.checkpoints import Checkpoint, CheckpointWatcher
from midflight.triggers.frequency import EpochStepTimeFreqCtl

__all__ = ["Backoff", "Budget", "Checkpoint", "CheckpointWatcher", "EpochStepTimeFreqCtl"]
