"""What ranks say to each other; beside the stages, used by the evaluator.

`agree` gives every rank what rank 0 has decided.
"""

from midflight.distributed.agree import agreement

__all__ = ["agreement"]
