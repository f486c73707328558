"""Batches by token budget, and what happens when one does not fit into memory: it is halved, and the work goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

import torch


class Sized(Protocol):
    """Anything with a length in tokens."""

    @property
    def tokens(self) -> Sequence[int]:
        """Its tokens."""


Entry = TypeVar("Entry", bound=Sized)
Result = TypeVar("Result")


def pack(entries: list[Entry], budget: int, extra: int = 0) -> Iterator[list[Entry]]:
    """Entries of similar length together, longest first: a memory error shows at once, and padding is small.

    Args:
        entries: What to batch.
        budget: Rows × longest length at most; one entry alone may exceed it.
        extra: Tokens that each row grows by.
    """
    batch: list[Entry] = []
    longest = 0
    for entry in sorted(entries, key=lambda e: len(e.tokens), reverse=True):
        length = len(entry.tokens) + extra
        if batch and (len(batch) + 1) * longest > budget:
            yield batch
            batch = []
        if not batch:
            longest = length
        batch.append(entry)
    if batch:
        yield batch


def halve_on_oom(
    batch: list[Entry], compute: Callable[[list[Entry]], list[Result]], give_up: Callable[[Entry], Result]
) -> list[Result]:
    """Results of a batch; out of memory, its halves are tried, down to one entry, which is then given up.

    Args:
        batch: Entries.
        compute: Gives a result for each.
        give_up: The result for an entry that does not fit even alone.
    """
    try:
        return compute(batch)
    except (RuntimeError, MemoryError) as error:
        if not is_oom(error):
            raise
    # outside the handler, so that the traceback no longer holds the tensors of the failed attempt
    _free_cache()
    if len(batch) == 1:
        return [give_up(batch[0])]
    half = len(batch) // 2
    return halve_on_oom(batch[:half], compute, give_up) + halve_on_oom(batch[half:], compute, give_up)


def is_oom(error: BaseException) -> bool:
    """Whether an error says that memory has run out: an accelerator's or the machine's."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    text = str(error)
    return "out of memory" in text or "can't allocate memory" in text or "CUBLAS_STATUS_ALLOC_FAILED" in text


def _free_cache() -> None:
    for device in ("cuda", "xpu", "mps"):
        api: Any = getattr(torch, device, None)
        if api is not None and api.is_available():
            api.empty_cache()
