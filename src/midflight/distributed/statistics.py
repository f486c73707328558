"""Statistics of training that many ranks record: means, extremes, sums, counts and variances under masks."""

from __future__ import annotations

import copy
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from midflight.distributed._moments import Array, Moments, from_columns, moments, to_columns
from midflight.distributed.hierarchy import Hierarchy
from midflight.errors import MetricError

_PENDING = 1 << 20
"""Values of a key that are kept as they came, before they are summed: bounds the memory between exports."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What all ranks recorded under one key, in the unit of the values; each figure is exact and rounded once.

    NaN and infinite values take part in every figure by the rules of IEEE 754, and are counted.

    Attributes:
        count: Values under the mask, the denominator of `mean`.
        sum: None if count is 0.
        mean: None if count is 0.
        variance: Of a sample (over count − 1); None if count is below 2.
        min: NaN if any value is; None if count is 0.
        max: NaN if any value is; None if count is 0.
        nan: Values that are NaN.
        plus_inf: Values that are +∞.
        minus_inf: Values that are −∞.
    """

    count: int
    sum: float | None
    mean: float | None
    variance: float | None
    min: float | None
    max: float | None
    nan: int = 0
    plus_inf: int = 0
    minus_inf: int = 0


class StatsTracker:
    """Records values during training and summarises them over all ranks; what AReaL calls a stats tracker.

    Figures are the same to the bit whatever the order, the batches and the ranks that recorded the values.

    >>> stats = StatsTracker()
    >>> stats.scope("actor").record(loss=[1.0, 2.0, 6.0], mask=[True, True, False])
    >>> stats.export()["actor/loss"].mean
    1.5
    """

    def __init__(self) -> None:
        self._prefix = ""
        self._folded: dict[str, Moments] = {}
        self._pending: dict[str, list[Array | _OnDevice]] = {}
        self._waiting: dict[str, int] = {}  # how many values are pending

    def scope(self, name: str) -> StatsTracker:
        """A view of this tracker that records and exports keys below ``name/``; scopes nest."""
        view = copy.copy(self)  # shallow: what is recorded is shared
        view._prefix += f"{name}/"
        return view

    def record(self, *, mask: Any = None, **values: Any) -> None:
        """Records a number, or a tensor or array of numbers, for each key.

        Copies the values and does not wait for an accelerator: they come to the host when exported. They count as
        float64.

        Args:
            mask: Which values count, as booleans of the values' shape; None = all. May leave none.
            **values: Values by key.

        Raises:
            MetricError: If values are no real numbers, or a mask is not boolean or of another shape. Nothing is
                recorded then.
        """
        under = None if mask is None else _real("the mask", mask)
        kept = {f"{self._prefix}{key}": _kept(key, _real(repr(key), value), under) for key, value in values.items()}
        for key, each in kept.items():
            self._pending.setdefault(key, []).append(each)
            self._waiting[key] = self._waiting.get(key, 0) + each.size
            if self._waiting[key] > _PENDING:
                self._fold([key])

    def export(self, over: Hierarchy | Any = None, *, reset: bool = True) -> dict[str, Summary]:
        """The summary of each key over all ranks, in the order of the keys, on every rank.

        Every rank must call it, whatever it has recorded. Two collectives at each level of the hierarchy, whatever the
        number of keys; long messages need one or two more.

        Args:
            over: A Hierarchy, or a process group; None = the default group.
            reset: Whether to forget what was exported.

        Raises:
            CollectiveError: If a rank died or did not come within the time limit; nothing is forgotten then.
        """
        hierarchy = over if isinstance(over, Hierarchy) else Hierarchy.flat(over)
        self._fold([key for key in self._pending if key.startswith(self._prefix)])
        mine = {key: found for key, found in self._folded.items() if key.startswith(self._prefix)}
        merged = from_columns(hierarchy.reduce(to_columns(mine), _merge))
        if reset:
            for key in mine:
                del self._folded[key]
        return {key: _summary(merged[key]) for key in sorted(merged)}

    def _fold(self, keys: Sequence[str]) -> None:
        """Sums what is pending under some keys."""
        pending = [(key, each) for key in keys for each in self._pending.pop(key)]
        for key in keys:
            del self._waiting[key]
        found = (
            moments([each.array() if isinstance(each, _OnDevice) else each for _, each in pending]) if pending else []
        )
        for (key, _), each in zip(pending, found, strict=True):
            self._folded.setdefault(key, Moments()).add(each)


def _merge(parts: list[Mapping[str, list[Any]]]) -> dict[str, list[Any]]:
    merged: dict[str, Moments] = {}
    for part in parts:
        for key, found in from_columns(part).items():
            merged.setdefault(key, Moments()).add(found)
    return to_columns(merged)


def _summary(of: Moments) -> Summary:
    return Summary(of.count, of.sum(), of.mean(), of.variance(), of.min(), of.max(), of.nan, of.plus_inf, of.minus_inf)


@dataclass(frozen=True, slots=True)
class _OnDevice:
    """Copies of values and mask that have not come to the host yet."""

    values: Any
    mask: Any
    size: int

    def array(self) -> Array:
        return _selected(*(each if each is None else _host(each) for each in (self.values, self.mask)))


def _real(what: str, values: Any) -> Any:
    """Real numbers or booleans: an array if they are on the host, else a copy of the tensor."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(values, torch.Tensor):
        if values.is_complex():
            raise MetricError(f"{what} holds no real numbers", got=values.dtype)
        values = values.detach()
        return values.clone() if values.is_cuda else _host(values)
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise MetricError(f"{what} is no array", got=str(error)) from None
    if array.dtype.kind not in "biuf":
        raise MetricError(f"{what} holds no real numbers", got=values)
    return array


def _host(values: Any) -> Any:
    """A tensor as an array; numpy has no bfloat16, and a mask stays a mask."""
    if isinstance(values, np.ndarray):
        return values
    values = values.cpu()
    return (values if str(values.dtype) == "torch.bool" else values.double()).numpy()


def _kept(key: str, values: Any, mask: Any) -> Array | _OnDevice:
    """A copy of the values under the mask, where they are."""
    if mask is not None and (str(mask.dtype) not in ("bool", "torch.bool") or mask.shape != values.shape):
        raise MetricError(
            f"the mask for {key!r} does not fit",
            got=f"{mask.dtype} of shape {tuple(mask.shape)}",
            allowed=f"booleans of shape {tuple(values.shape)}",
        )
    if isinstance(values, np.ndarray) and (mask is None or isinstance(mask, np.ndarray)):
        return _selected(values, mask)
    values, mask = (each.copy() if isinstance(each, np.ndarray) else each for each in (values, mask))
    return _OnDevice(values, mask, math.prod(values.shape))


def _selected(values: Any, mask: Any) -> Array:
    """A copy of the values under the mask, in one dimension."""
    return np.array(values.reshape(-1) if mask is None else values[mask], dtype=np.float64)
