"""Plain containers as one run of bytes, a frame, and back; without pickle, without recursion.

    header (32 bytes) │ tensors of 16-byte elements │ of 8 │ of 4 │ of 2 │ of 1 │ program

Tensors lie together by the size of their elements, the widest first: so each starts at a multiple of its own element
size without padding, and is read in place. The program rebuilds the container on a stack: each instruction pushes a
value, or replaces the topmost n by a list, tuple or dict of them. It can build nothing but plain data.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from math import prod
from types import NoneType
from typing import Any, NamedTuple

import numpy as np
import torch

from midflight.errors import ContainerError

_HEADER = struct.Struct("<4sIQQ8x")  # magic, status, bytes of tensors, bytes of the program
_MAGIC = b"MFC1"
HEADER_BYTES = _HEADER.size

_LENGTH = struct.Struct("<Q")
_INT64 = struct.Struct("<q")
_FLOAT64 = struct.Struct("<d")
_TENSOR = struct.Struct("<BBBQ")  # index of its dtype, whether on CUDA, dimensions, offset within its width
_SIZES = struct.Struct("<5Q")  # bytes of the tensors of each width
_ARRAY = struct.Struct("<BB")  # length of the dtype's name, dimensions

_KINDS = "biufcmMSU"  # of numpy dtypes: numbers, times and text; neither objects nor records
_WIDTHS = (16, 8, 4, 2, 1)  # bytes of an element
# fmt: off
_NAMES = [  # a dtype travels as its place here: append, never reorder
    "bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64",
    "float16", "bfloat16", "float32", "float64", "complex32", "complex64", "complex128",
    "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu",
]
# fmt: on
_DTYPES = [getattr(torch, name, None) for name in _NAMES]
_DTYPE_INDEX = {dtype: index for index, dtype in enumerate(_DTYPES) if dtype is not None}

_ALLOWED = (
    "None, bool, int, float, str, bytes; list, tuple and dict of such; dense torch tensors on CPU or CUDA; numpy arrays"
    " and scalars of numbers, times or text"
)


class _End(NamedTuple):
    """Stands on the encoder's stack behind the members of a container that is open."""

    instruction: bytes
    identity: int


def pack(data: Any) -> torch.Tensor:
    """A frame (uint8, on the CPU unless all tensors are on CUDA) that holds a copy of plain data.

    Raises:
        ContainerError: If the data hold anything that is not plain, or themselves, or do not fit into memory.
    """
    encoder = _Encoder()
    try:
        encoder.write(data)
        return encoder.frame()
    except (RuntimeError, MemoryError) as error:
        raise ContainerError("the data cannot be copied into a message", got=str(error)) from error


def pack_error(message: str) -> torch.Tensor:
    """A frame that makes whoever unpacks it raise."""
    text = message.encode("utf-8", "replace")
    return _raw(_HEADER.pack(_MAGIC, 1, 0, len(text)) + text)


def frame_bytes(head: torch.Tensor) -> int:
    """Length of a frame in bytes, from its first HEADER_BYTES.

    Raises:
        ContainerError: If this is no frame.
    """
    _, payload, program = _header(head)
    return HEADER_BYTES + payload + program


def unpack(frame: torch.Tensor) -> Any:
    """What was packed; each tensor has memory of its own, on the kind of device it came from.

    Raises:
        ContainerError: If the frame carries an error, or is damaged.
    """
    status, payload, length = _header(frame)
    program = _host(frame[HEADER_BYTES + payload : HEADER_BYTES + payload + length])
    if status:
        raise ContainerError(program.decode())
    try:
        return _Decoder(program, frame[HEADER_BYTES : HEADER_BYTES + payload]).run()
    except (LookupError, TypeError, ValueError, ArithmeticError, RuntimeError, MemoryError, struct.error) as error:
        raise ContainerError("a message from another rank is damaged", got=str(error)) from error


def _header(frame: torch.Tensor) -> tuple[int, int, int]:
    magic, status, payload, program = _HEADER.unpack(_host(frame[:HEADER_BYTES]))
    if magic != _MAGIC:
        raise ContainerError(
            "a message from another rank is no container",
            got=magic,
            hint="the ranks are not in the same call, or run different versions of midflight",
        )
    return status, payload, program


def _host(part: torch.Tensor) -> bytes:
    data: bytes = part.cpu().numpy().tobytes()
    return data


def _raw(data: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


class _Encoder:
    def __init__(self) -> None:
        self.program = bytearray()
        self.tensors: dict[int, list[torch.Tensor]] = {width: [] for width in _WIDTHS}
        self.sizes = dict.fromkeys(_WIDTHS, 0)
        self.open: set[int] = set()  # identities of the containers around the current value

    def write(self, data: Any) -> None:
        todo = [data]
        while todo:
            value = todo.pop()
            write = _WRITERS.get(type(value))
            if write is not None:
                write(self, value)
            elif type(value) is _End:
                self.program += value.instruction
                self.open.discard(value.identity)
            elif type(value) in _CONTAINERS:
                self._enter(value, todo)
            elif isinstance(value, np.generic):
                self.array(value, b"g")
            else:
                kind = type(value)
                raise ContainerError(
                    "an object of this type cannot be sent to other ranks",
                    got=f"{kind.__module__}.{kind.__qualname__}",
                    allowed=_ALLOWED,
                    hint="convert it first",
                )

    def _enter(self, value: Any, todo: list[Any]) -> None:
        if id(value) in self.open:
            raise ContainerError("a container that contains itself cannot be sent to other ranks")
        members = [part for pair in value.items() for part in pair] if type(value) is dict else value
        end = _End(_CONTAINERS[type(value)] + _LENGTH.pack(len(members)), id(value))
        if self._run(members):
            self.program += end.instruction
            return
        self.open.add(end.identity)
        todo.append(end)
        todo.extend(reversed(members))

    def _run(self, members: Any) -> bool:
        """Writes numbers of one type in one instruction: token ids and scores come by the thousand."""
        kinds = set(map(type, members))
        code = "q" if kinds == {int} else "d" if kinds == {float} else ""
        if not code:
            return False
        try:
            packed = struct.pack(f"<{len(members)}{code}", *members)
        except struct.error:  # an int beyond 64 bits
            return False
        self.program += code.encode() + _LENGTH.pack(len(members)) + packed
        return True

    def none(self, _: None) -> None:
        self.program += b"N"

    def boolean(self, value: bool) -> None:
        self.program += b"T" if value else b"F"

    def integer(self, value: int) -> None:
        if -(2**63) <= value < 2**63:
            self.program += b"i" + _INT64.pack(value)
        else:
            self._bytes(b"I", value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True))

    def real(self, value: float) -> None:
        self.program += b"f" + _FLOAT64.pack(value)

    def text(self, value: str) -> None:
        self._bytes(b"s", value.encode("utf-8", "surrogatepass"))

    def raw(self, value: bytes) -> None:
        self._bytes(b"b", value)

    def _bytes(self, instruction: bytes, value: bytes) -> None:
        self.program += instruction + _LENGTH.pack(len(value))
        self.program += value

    def array(self, value: Any, instruction: bytes = b"a") -> None:
        if value.dtype.kind not in _KINDS:
            raise ContainerError("a numpy array of this dtype cannot be sent", got=value.dtype, allowed=_ALLOWED)
        name = value.dtype.str.encode()
        self.program += instruction + _ARRAY.pack(len(name), value.ndim) + name
        self.program += struct.pack(f"<{value.ndim}q", *value.shape)
        self.program += value.tobytes()

    def tensor(self, value: torch.Tensor) -> None:
        dtype = _DTYPE_INDEX.get(value.dtype)
        if dtype is None or value.layout != torch.strided or value.device.type not in ("cpu", "cuda"):
            got = f"{value.dtype}, {value.layout}, on {value.device}"
            raise ContainerError("a tensor of this kind cannot be sent", got=got, allowed=_ALLOWED)
        width = value.element_size()
        self.program += b"t" + _TENSOR.pack(dtype, value.is_cuda, value.dim(), self.sizes[width])
        self.program += struct.pack(f"<{value.dim()}q", *value.shape)
        if value.numel():
            whole = value.detach().resolve_conj().resolve_neg().contiguous()
            flat = whole.as_strided((value.numel(),), (1,))  # `view` would keep odd strides of dimensions of size 1
            self.tensors[width].append(flat.view(torch.uint8))
            self.sizes[width] += value.numel() * width

    def frame(self) -> torch.Tensor:
        pieces = [piece for width in _WIDTHS for piece in self.tensors[width]]
        device = pieces[0].device if pieces and all(piece.is_cuda for piece in pieces) else torch.device("cpu")
        program = _SIZES.pack(*self.sizes.values()) + self.program
        header = _HEADER.pack(_MAGIC, 0, sum(self.sizes.values()), len(program))
        return torch.cat([part.to(device) for part in (_raw(header), *pieces, _raw(program))])


_CONTAINERS: dict[type, bytes] = {list: b"l", tuple: b"u", dict: b"m"}
_WRITERS: dict[type, Callable[[_Encoder, Any], None]] = {
    NoneType: _Encoder.none,
    bool: _Encoder.boolean,
    int: _Encoder.integer,
    float: _Encoder.real,
    str: _Encoder.text,
    bytes: _Encoder.raw,
    np.ndarray: _Encoder.array,
    torch.Tensor: _Encoder.tensor,
    torch.nn.Parameter: _Encoder.tensor,  # arrives as a tensor
}


class _Decoder:
    def __init__(self, program: bytes, payload: torch.Tensor) -> None:
        self.program, self.payload = program, payload
        self.at = 0
        self.stack: list[Any] = []
        parts = payload.split(self.take(_SIZES))
        self.parts: dict[int, torch.Tensor] = dict(zip(_WIDTHS, parts, strict=True))
        self.views: dict[tuple[int, int], torch.Tensor] = {}  # a part, by dtype and kind of device

    def run(self) -> Any:
        while self.at < len(self.program):
            instruction = self.program[self.at]
            self.at += 1
            _READERS[instruction](self)
        (data,) = self.stack
        return data

    def take(self, form: struct.Struct) -> tuple[Any, ...]:
        values = form.unpack_from(self.program, self.at)
        self.at += form.size
        return values

    def text(self) -> bytes:
        (length,) = self.take(_LENGTH)
        return self.slice(length)

    def slice(self, length: int) -> bytes:
        if not 0 <= length <= len(self.program) - self.at:
            raise ValueError("a length is wrong")
        self.at += length
        return self.program[self.at - length : self.at]

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def run_of(self, code: str) -> None:
        (length,) = self.take(_LENGTH)
        self.stack += struct.unpack(f"<{length}{code}", self.slice(8 * length))

    def pop(self) -> list[Any]:
        (length,) = self.take(_LENGTH)
        start = len(self.stack) - length
        if start < 0:
            raise ValueError("a container has too few members")
        members = self.stack[start:]
        del self.stack[start:]
        return members

    def mapping(self) -> None:
        members = self.pop()
        self.push(dict(zip(members[::2], members[1::2], strict=True)))

    def array(self) -> np.ndarray[Any, Any]:
        name, dimensions = self.take(_ARRAY)
        dtype = np.dtype(self.slice(name).decode())
        if dtype.kind not in _KINDS:
            raise ValueError(f"no plain dtype: {dtype}")
        shape = self.take(struct.Struct(f"<{dimensions}q"))
        return np.ndarray(shape, dtype, self.slice(prod(shape) * dtype.itemsize)).copy()

    def tensor(self) -> None:
        index, cuda, dimensions, offset = self.take(_TENSOR)
        shape = self.take(struct.Struct(f"<{dimensions}q"))
        dtype = _DTYPES[index]
        if dtype is None:
            raise ValueError(f"this version of torch has no {_NAMES[index]}")
        view = self.views.get((index, cuda))
        if view is None:
            part = self.parts[dtype.itemsize]
            part = part.cuda() if cuda and torch.cuda.is_available() else part.cpu()
            view = self.views[index, cuda] = part.view(dtype)
        self.push(view.narrow(0, offset // dtype.itemsize, prod(shape)).view(shape).clone())


_READERS: dict[int, Callable[[_Decoder], None]] = {
    ord("N"): lambda self: self.push(None),
    ord("T"): lambda self: self.push(True),
    ord("F"): lambda self: self.push(False),
    ord("i"): lambda self: self.push(*self.take(_INT64)),
    ord("I"): lambda self: self.push(int.from_bytes(self.text(), "little", signed=True)),
    ord("f"): lambda self: self.push(*self.take(_FLOAT64)),
    ord("s"): lambda self: self.push(self.text().decode("utf-8", "surrogatepass")),
    ord("b"): lambda self: self.push(self.text()),
    ord("q"): lambda self: self.run_of("q"),
    ord("d"): lambda self: self.run_of("d"),
    ord("l"): lambda self: self.push(self.pop()),
    ord("u"): lambda self: self.push(tuple(self.pop())),
    ord("m"): _Decoder.mapping,
    ord("a"): lambda self: self.push(self.array()),
    ord("g"): lambda self: self.push(self.array()[()]),
    ord("t"): _Decoder.tensor,
}
