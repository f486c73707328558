"""Stage 2, where: takes a due evaluation, gives its result; comes after triggers, goes to the pipeline's work.

`inline` evaluates now, in this process, and leaves training untouched (`untouched` holds how). `process` evaluates in
warm processes of their own on a snapshot of the weights, while training goes on; `queue` says in which order.
"""

from midflight.dispatch.inline import Inline
from midflight.dispatch.process import Process
from midflight.dispatch.queue import Job, Outcome, WhenBusy
from midflight.dispatch.untouched import untouched

__all__ = ["Inline", "Job", "Outcome", "Process", "WhenBusy", "untouched"]
