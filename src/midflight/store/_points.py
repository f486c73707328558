"""How points become bytes: open flushes and full chunks, little-endian throughout.

A *flush* row holds everything that was logged between two flushes under one set of keys: steps, wall times, and a row
of values for each key. A *chunk* holds up to 4,096 points of one key. Its payload is preceded, in a column of its own,
by a *sketch* of every 64 points, so that an overview of a million points reads a fraction of their bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from midflight.store.base import Block, Floats, Ints

CHUNK = 4096
BUCKET = 64
_REGULAR, _FLOAT32 = 1, 2  # bits of the codec


def encode_block(block: Block) -> bytes:
    """Steps, walls and values of a block, one after the other."""
    return b"".join(
        array.tobytes()
        for array in (block.steps.astype("<i8"), block.walls.astype("<f8"), block.values.astype("<f8", order="C"))
    )


def decode_blocks(num_keys: int, n: int, blocks: Sequence[bytes]) -> tuple[Ints, Floats, Floats]:
    """Steps, walls and values of blocks that have the same keys and n rows each, one after the other."""
    rows = np.frombuffer(b"".join(blocks), "<f8").reshape(len(blocks), 2 + num_keys, n)
    steps = np.ascontiguousarray(rows[:, 0]).view("<i8").ravel()
    return steps, rows[:, 1].ravel(), rows[:, 2:].transpose(1, 0, 2).reshape(num_keys, -1)


def decode_steps(data: bytes) -> Ints:
    """Steps of a block, from the beginning of what `encode_block` wrote."""
    return np.frombuffer(data, "<i8")


@dataclass(frozen=True, slots=True)
class Chunk:
    """Up to 4,096 points of one key, ready to be stored.

    Attributes:
        start: Step that was written first.
        first: Smallest step.
        last: Largest step.
        n: Points.
        codec: How the payload is written.
        sketch: Bucket statistics.
        data: Payload.
    """

    start: int
    first: int
    last: int
    n: int
    codec: int
    sketch: bytes
    data: bytes


def encode_chunks(steps: Ints, walls: Floats, values: Floats) -> Iterator[Chunk]:
    """A series cut into chunks, in the order of its points."""
    for start in range(0, len(steps), CHUNK):
        end = start + CHUNK
        yield _encode_chunk(steps[start:end], walls[start:end], values[start:end])


def _encode_chunk(steps: Ints, walls: Floats, values: Floats) -> Chunk:
    n, codec = len(steps), 0
    stride = int(steps[1] - steps[0]) if n > 1 else 1
    if n == 1 or (stride > 0 and np.array_equal(np.diff(steps), np.full(n - 1, stride))):
        codec |= _REGULAR
        step_bytes = struct.pack("<qq", int(steps[0]), stride)
    else:
        step_bytes = steps.astype("<i8").tobytes()
    with np.errstate(over="ignore"):  # a number beyond float32 does not round-trip, which is all that is asked
        short = values.astype("<f4")
    if np.array_equal(short.astype("<f8"), values, equal_nan=True):
        codec |= _FLOAT32
        value_bytes = short.tobytes()
    else:
        value_bytes = values.astype("<f8").tobytes()
    data = step_bytes + walls.astype("<f8").tobytes() + value_bytes
    return Chunk(int(steps[0]), int(steps.min()), int(steps.max()), n, codec, Sketch.of(steps, values).encode(), data)


def decode_chunk(n: int, codec: int, data: bytes) -> tuple[Ints, Floats, Floats]:
    """Steps, walls and values of a chunk."""
    if codec & _REGULAR:
        start, stride = struct.unpack_from("<qq", data)
        steps, at = start + stride * np.arange(n, dtype=np.int64), 16
    else:
        steps, at = np.frombuffer(data, "<i8", n), 8 * n
    walls = np.frombuffer(data, "<f8", n, offset=at)
    kind = "<f4" if codec & _FLOAT32 else "<f8"
    values = np.frombuffer(data, kind, n, offset=at + 8 * n).astype(np.float64)
    return steps, walls, values


@dataclass(frozen=True, slots=True)
class Sketch:
    """Statistics of every 64 points (B buckets).

    Attributes:
        steps: Smallest step of each bucket.
        low: Smallest finite value; NaN if there is none.
        high: Largest finite value.
        total: Sum of the finite values.
        finite: Number of finite values.
        count: Number of points.
    """

    steps: Ints
    low: Floats
    high: Floats
    total: Floats
    finite: Ints
    count: Ints

    @classmethod
    def of(cls, steps: Ints, values: Floats, size: int = BUCKET) -> Sketch:
        """The sketch of a series."""
        starts = np.arange(0, len(steps), size)
        is_finite = np.isfinite(values)
        known = np.where(is_finite, values, np.nan)
        with np.errstate(over="ignore", invalid="ignore"):  # a sum that no float holds is infinite, or none
            total = np.add.reduceat(np.where(is_finite, values, 0.0), starts)
        return cls(
            steps=np.minimum.reduceat(steps, starts),
            low=np.fmin.reduceat(known, starts),
            high=np.fmax.reduceat(known, starts),
            total=total,
            finite=np.add.reduceat(is_finite.astype(np.int64), starts),
            count=np.diff(np.append(starts, len(steps))).astype(np.int64),
        )

    def encode(self) -> bytes:
        """As bytes."""
        floats = [array.astype("<f8").tobytes() for array in (self.low, self.high, self.total)]
        return b"".join(
            [
                self.steps.astype("<i8").tobytes(),
                *floats,
                self.finite.astype("<u4").tobytes(),
                self.count.astype("<u4").tobytes(),
            ]
        )

    @classmethod
    def decode(cls, data: bytes) -> Sketch:
        """From bytes."""
        b = len(data) // 40
        low, high, total = (np.frombuffer(data, "<f8", b, offset=8 * b * (1 + i)) for i in range(3))
        finite, count = (np.frombuffer(data, "<u4", b, offset=32 * b + 4 * b * i).astype(np.int64) for i in range(2))
        return cls(np.frombuffer(data, "<i8", b), low, high, total, finite, count)
