"""Stage 2, where: takes a due evaluation, gives its result; comes after triggers, goes to the pipeline's work.

`inline` evaluates now, in this process, and leaves training untouched (`untouched` holds how).
"""

from midflight.dispatch.inline import Inline
from midflight.dispatch.untouched import untouched

__all__ = ["Inline", "untouched"]
