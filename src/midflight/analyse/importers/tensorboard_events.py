"""TensorBoard event files, read without TensorFlow: scalars, and the configuration that Trainers write as text.

Layouts: TFRecord (length, its masked CRC-32C, payload, a CRC) and the protocol buffers `Event`, `Summary` and
`TensorProto` of TensorFlow. The CRC of each length is checked, so that a damaged file is noticed; payloads are not.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator
from typing import Any

from midflight.analyse.importers._numbers import step_of
from midflight.analyse.importers._records import Records
from midflight.analyse.importers._source import Source
from midflight.analyse.importers.base import Importer

_MAX_EVENT = 1 << 28
_SUMMARIES = re.compile(
    r"(?:train/)?(train_runtime|train_samples_per_second|train_steps_per_second|train_loss|total_flos)"
)
_FLOAT, _DOUBLE, _STRING = 1, 2, 7  # DataType of TensorFlow
_MAX_TEXT = 1 << 20
_EPOCH = "train/epoch"


class TensorBoardEvents(Importer):
    """One event file; several of one run are joined where the folder is read."""

    label = "TensorBoard events"

    @classmethod
    def recognises(cls, source: Source) -> bool:
        """By the CRC of the first record's length."""
        return len(source.head) >= 12 and _crc32c(source.head[:8]) == struct.unpack_from("<I", source.head, 8)[0]

    def read(self, source: Source, records: Records) -> None:
        """Reads event by event; a tail that breaks off, or a damaged record, ends it, counted."""
        scalars = 0
        for event in _payloads(source):
            try:
                scalars += _event(event, source, records)
            except (IndexError, struct.error, UnicodeDecodeError):
                source.skip("damaged events", repr(event[:60]))
        _plan(records)
        if not scalars:
            records.note("no scalar in it: only texts, graphs or other data")


def _plan(records: Records) -> None:
    """Planned steps from HF's arguments: as given, or as many epochs as planned at the steps an epoch has."""
    arguments = records.config.get("args", {})
    if planned := step_of(arguments.get("max_steps")):
        records.planned = planned
    elif (epochs := arguments.get("num_train_epochs")) and (last := records.last_point(_EPOCH)) is not None and last[1]:
        records.planned = round(last[0] / last[1] * float(epochs))


def _payloads(source: Source) -> Iterator[bytes]:
    rest = b""
    for chunk in source.chunks():
        data, at = rest + chunk, 0
        while at + 12 <= len(data):
            length, crc = struct.unpack_from("<QI", data, at)
            if length > _MAX_EVENT or _crc32c(data[at : at + 8]) != crc:
                source.skip("damaged records", f"at byte {at} of a piece: the rest of the file is not read")
                return
            if at + 16 + length > len(data):
                break
            yield data[at + 12 : at + 12 + length]
            at += 16 + length
        rest = data[at:]
    if rest:
        source.skip("records broken off", f"{len(rest)} bytes at the end")


def _event(data: bytes, source: Source, records: Records) -> int:
    """Adds the scalars of an event; how many there are."""
    wall, step, summary = None, 0, b""
    for number, value in _fields(data):
        if number == 1:
            wall = struct.unpack("<d", value)[0]
        elif number == 2:
            step = value
        elif number == 5:
            summary = value
    scalars: dict[str, float] = {}
    for number, value in _fields(summary):
        if number == 1:
            _value(value, scalars, source, records)
    if not scalars:
        return 0
    if step < 0 or step_of(step) is None:
        source.skip("records without a step", f"step {step}")
        return 0
    sums = {key: value for key, value in scalars.items() if _SUMMARIES.fullmatch(key)}
    records.summary.update(sums)
    if points := {key: value for key, value in scalars.items() if key not in sums}:
        records.add(step, points, wall)
    return len(scalars)


def _value(data: bytes, scalars: dict[str, float], source: Source, records: Records) -> None:
    tag, tensor, simple = "", b"", None
    for number, value in _fields(data):
        if number == 1:
            tag = value.decode("utf-8", "replace")
        elif number == 2:
            simple = struct.unpack("<f", value)[0]
        elif number == 8:
            tensor = value
    if simple is None and tensor:
        simple = _scalar(tensor)
        if simple is None and (text := _text(tensor)):
            if not _configure(tag, text, records):
                source.skip("texts", f"{tag}: {text}")
            return
    if simple is None:
        source.skip("data that is no scalar", tag)
    else:
        scalars[tag] = simple


def _scalar(tensor: bytes) -> float | None:
    """The one number in a TensorProto; None if it holds something else."""
    kind, raw, shape = 0, b"", b""
    for number, value in _fields(tensor):
        if number == 1:
            kind = value
        elif number == 2:
            shape = value
        elif number in (4, 5, 6):  # its bytes, or packed floats or doubles
            raw = value
    if shape:
        return None
    if kind == _FLOAT and len(raw) == 4:
        return float(struct.unpack("<f", raw)[0])
    if kind == _DOUBLE and len(raw) == 8:
        return float(struct.unpack("<d", raw)[0])
    return None


def _text(tensor: bytes) -> str:
    fields = list(_fields(tensor))
    if (1, _STRING) not in fields:
        return ""
    return next((value[:_MAX_TEXT].decode("utf-8", "replace") for number, value in fields if number == 8), "")


def _configure(tag: str, text: str, records: Records) -> bool:
    """Keeps what HF writes under ``args`` and ``model_config``; whether it is that."""
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError):
        return False
    if not isinstance(found, dict) or not tag.startswith(("args", "model_config")):
        return False
    records.config.setdefault(tag.partition("/")[0], found)
    return True


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Fields of a protocol buffer: whole numbers, or bytes."""
    at, end = 0, len(data)
    while at < end:
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield key >> 3, value - (1 << 64) if value >> 63 else value
            continue
        if kind == 2:
            length, at = _varint(data, at)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise IndexError(f"wire type {kind}")
        if at + length > end:
            raise IndexError("a field longer than its message")
        yield key >> 3, data[at : at + length]
        at += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = data[at]
    if value < 128:
        return value, at + 1
    value, shift = value & 127, 7
    while True:
        at += 1
        byte = data[at]
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at + 1
        shift += 7
        if shift > 63:
            raise IndexError("a number of more than 64 bits")


def _table() -> list[int]:
    """CRC-32C (Castagnoli), bit-reversed polynomial 0x82F63B78."""
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_CRC = _table()


def _crc32c(data: bytes) -> int:
    """CRC-32C, masked as TFRecord masks it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC[(crc ^ byte) & 255] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
