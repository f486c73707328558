"""Copies an engine's weights so that training may go on: into shared memory, where another process reads them.

An engine is taken apart. What it is without its tensors (classes, configs, tokenizer) is pickled once, and travels from
a process to a child of its own, nowhere else. For each snapshot the tensors are copied into a file in shared memory;
the child builds the engine once and only looks at another file. Files are safetensors, and are used again in turns.
"""

from __future__ import annotations

import io
import json
import mmap
import os
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from midflight.errors import CapabilityError, DispatchError

_NAMES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64", "int32": "I32",
    "int16": "I16", "int8": "I8", "uint8": "U8", "bool": "BOOL",
}  # fmt: skip


ALIGNMENT = 64
"""Bytes, as torch aligns what it allocates: kernels sum in another order where an address is odd."""


def whole(tensor: Any) -> Any:
    """A tensor that lies in shards on the ranks (FSDP2), put together by a collective call; any other as it is."""
    if not hasattr(tensor, "full_tensor"):
        return tensor
    return tensor.detach().to(tensor.device_mesh.device_type).full_tensor()  # shards may have been put off to the host


def wholes(modules: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """Each parameter of some modules that lies in shards, and the whole of it: in the room of one more parameter.

    A collective call for each, in one order on all ranks.
    """
    for module in modules:
        for parameter in module.parameters():
            if hasattr(parameter, "full_tensor"):
                yield parameter, whole(parameter)


class Skeleton:
    """An engine without its tensors, and where its tensors are.

    Args:
        engine: Anything that can be pickled: an engine, with the model in training inside it.
        modules: The torch modules in it, whose parameters and buffers are looked up anew for each snapshot: a training
            step may replace them.

    Raises:
        CapabilityError: If the engine holds something that no other process can have, such as a lock or a socket.
    """

    def __init__(self, engine: Any, modules: Sequence[Any] = ()) -> None:
        self._places: dict[int, tuple[dict[str, Any], str, str]] = {}
        for number, module in enumerate(modules):
            for prefix, inner in module.named_modules():
                for table in (inner._parameters, inner._buffers):
                    for name, tensor in table.items():
                        if tensor is not None:
                            path = ".".join(filter(None, (str(number) if number else "", prefix, name)))
                            self._places.setdefault(id(tensor), (table, name, path))
        self._found: list[tuple[dict[str, Any], str, str]] = []
        self._numbers: dict[int, int] = {}
        self.content = self._pickle(engine)
        self.layout = Layout([(path, tensor) for (_, _, path), tensor in zip(self._found, self.tensors(), strict=True)])

    def tensors(self) -> list[Any]:
        """The tensors as they are now, in the order of the layout."""
        return [table[name] for table, name, _ in self._found]

    def fits(self) -> bool:
        """Whether the tensors still have the shapes and types that they had."""
        return self.layout.fits(self.tensors())

    def _pickle(self, engine: Any) -> bytes:
        import cloudpickle

        skeleton = self

        class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
            def persistent_id(self, thing: Any) -> Any:
                return skeleton._number(thing) if _is_tensor(thing) else None

            def reducer_override(self, thing: Any) -> Any:
                if hasattr(thing, "_is_fsdp_managed_module"):
                    make, arguments, *rest = _plain_module(thing).__reduce_ex__(pickle.HIGHEST_PROTOCOL)
                    return _made, (make, arguments), *rest  # pickle wants the class of `thing` in the usual form
                return super().reducer_override(thing)

        target = io.BytesIO()
        try:
            Pickler(target, protocol=pickle.HIGHEST_PROTOCOL).dump(engine)
        except Exception as error:  # what a user's object raises when it is pickled can be anything
            raise CapabilityError(
                f"{type(engine).__name__} cannot be handed to another process: {type(error).__name__}: {error}",
                hint="evaluate in the loop (async_mode=False), or give the evaluator an engine without such a part",
            ) from error
        return target.getvalue()

    def _number(self, tensor: Any) -> tuple[int, bool, bool]:
        number = self._numbers.get(id(tensor))
        if number is None:
            number = self._numbers[id(tensor)] = len(self._found)
            loose = ({"": tensor}, "", f"tensor.{number}")
            self._found.append(self._places.get(id(tensor), loose))
        return number, _is_parameter(tensor), tensor.requires_grad


class Replica:
    """An engine in another process, whose tensors are those of a snapshot.

    Args:
        content: From this program's own `Skeleton`: never from anywhere else.
        layout: Its layout.
        device: Where the tensors go; None = where they are in training.
    """

    def __init__(self, content: bytes, layout: Layout, device: str | None = None) -> None:
        self.layout = layout
        self._devices = [device or name for name in layout.devices]
        self._tensors = layout.empty(self._devices)
        torch: Any = sys.modules.get("torch")  # imported by `empty`, if there are tensors
        parameters: dict[int, Any] = {}

        class Unpickler(pickle.Unpickler):
            def persistent_load(unpickler, pid: Any) -> Any:
                number, is_parameter, trains = pid
                if is_parameter and number not in parameters:
                    # also without a gradient, torch sums in another order where a parameter asks for none
                    parameters[number] = torch.nn.Parameter(self._tensors[number], requires_grad=trains)
                return parameters[number] if is_parameter else self._tensors[number]

        self.engine = Unpickler(io.BytesIO(content)).load()
        self._parameters = parameters

    def show(self, views: Sequence[Any], share: bool = True) -> Any:
        """The engine with the weights of a snapshot.

        Args:
            views: A tensor for each entry of the layout, in host memory.
            share: Whether an engine in host memory uses them as they lie there, without a copy.
        """
        for number, view in enumerate(views):
            for tensor in (self._tensors[number], self._parameters.get(number)):
                if tensor is not None and share and self._devices[number] == "cpu":
                    tensor.data = view
                elif tensor is not None:  # a parameter shares its memory with the tensor: copied once
                    tensor.data.copy_(view)
                    break
        return self.engine


class Buffer:
    """Room for one copy of all tensors: a safetensors file that several processes map.

    Args:
        path: The file.
        layout: What goes into it.
        create: Whether to make it; else it is there.

    Raises:
        DispatchError: If there is not enough room.
    """

    def __init__(self, path: Path, layout: Layout, create: bool = False) -> None:
        self.path, self.layout = path, layout
        if create:
            try:
                with path.open("xb") as file:
                    os.posix_fallocate(file.fileno(), 0, layout.size)  # a full disk is noticed here, not by a SIGBUS
                    file.write(layout.header)
            except OSError as error:
                path.unlink(missing_ok=True)
                raise DispatchError(
                    f"no room for a snapshot of {layout.size / 1e9:.2f} GB in {path.parent}: {error.strerror}",
                    hint="set snapshot_dir to another folder, or max_waiting to fewer snapshots",
                ) from error
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), layout.size)
        self.views = layout.views(self._map)

    def write(self, tensors: Sequence[Any], wholes: Iterable[tuple[Any, Any]] = ()) -> None:
        """Copies tensors in, from whatever device they are on.

        Args:
            tensors: In the order of the layout.
            wholes: Those of them that lie in shards, each with the whole of it, in any order.
        """
        if not self.views:
            return
        import torch

        views = {id(tensor): view for view, tensor in zip(self.views, tensors, strict=True)}
        with torch.no_grad():
            for tensor, full in wholes:
                if id(tensor) in views:
                    views.pop(id(tensor)).copy_(full, non_blocking=True)
            for tensor in tensors:
                if id(tensor) in views:
                    views[id(tensor)].copy_(tensor.detach(), non_blocking=True)
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            torch.cuda.synchronize()


class Layout:
    """Where each tensor lies in a safetensors file; plain data, so that it can be sent."""

    def __init__(self, tensors: Sequence[tuple[str, Any]]) -> None:
        self.devices = [str(tensor.device) for _, tensor in tensors]
        self.specs = [(str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape)) for _, tensor in tensors]
        sizes = [tensor.numel() * tensor.element_size() for _, tensor in tensors]
        offsets, at = [0] * len(tensors), 0
        entries = {}
        for index, (label, _) in enumerate(tensors):
            gap = -at % ALIGNMENT
            if gap:  # the format allows no gaps: they are entries of their own
                entries[f"gap.{index}"] = {"dtype": "U8", "shape": [gap], "data_offsets": [at, at + gap]}
            offsets[index], at = at + gap, at + gap + sizes[index]
            name, shape = self.specs[index]
            if name not in _NAMES:
                name, shape = "uint8", (sizes[index],)
            entries[label if label not in entries else f"{label}.{index}"] = {
                "dtype": _NAMES[name],
                "shape": list(shape),
                "data_offsets": [offsets[index], at],
            }
        text = json.dumps(entries).encode()
        text += b" " * (-(len(text) + 8) % ALIGNMENT)
        self.header = len(text).to_bytes(8, "little") + text
        self.offsets = [len(self.header) + offset for offset in offsets]
        self.size = max(1, len(self.header) + at)

    def fits(self, tensors: Sequence[Any]) -> bool:
        """Whether tensors have these shapes and types."""
        return self.specs == [(str(t.dtype).removeprefix("torch."), tuple(t.shape)) for t in tensors]

    def describes(self, path: Path) -> bool:
        """Whether a file holds such tensors, under the same names."""
        try:
            with path.open("rb") as file:
                return file.read(len(self.header)) == self.header and path.stat().st_size == self.size
        except OSError:
            return False

    def empty(self, devices: Sequence[str]) -> list[Any]:
        """Tensors of these shapes and types, on the given devices."""
        if not self.specs:  # an engine without a model in it, perhaps on a machine without torch
            return []
        import torch

        specs = zip(self.specs, devices, strict=True)
        return [torch.empty(shape, dtype=getattr(torch, name), device=at) for (name, shape), at in specs]

    def views(self, memory: Any) -> list[Any]:
        """A tensor for each entry, in the memory itself: a mapped file, or any other buffer of `size` bytes."""
        if not self.specs:
            return []
        import torch

        found = []
        for (name, shape), offset in zip(self.specs, self.offsets, strict=True):
            dtype = getattr(torch, name)
            count = int(torch.Size(shape).numel())
            flat = (
                torch.frombuffer(memory, dtype=dtype, count=count, offset=offset)
                if count
                else torch.empty(0, dtype=dtype)
            )
            found.append(flat.view(shape))
        return found


def _plain_module(module: Any) -> Any:
    """A module in shards (FSDP2) as it was before: of its own class, without hooks and state of `torch.distributed`."""

    def is_foreign(value: Any) -> bool:
        return str(getattr(value, "__module__", "")).startswith("torch.distributed.")

    plain: Any = object.__new__(type(module).__mro__[2] if is_foreign(type(module)) else type(module))
    for name, value in vars(module).items():
        if name.endswith("_hooks") and isinstance(value, dict):
            value = type(value)((key, hook) for key, hook in value.items() if not is_foreign(hook))
        if not (is_foreign(value) or name.startswith("__composable_api_") or "_fsdp_" in name):
            vars(plain)[name] = value
    return plain


def _made(make: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    return make(*arguments)


def _is_tensor(thing: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(thing, torch.Tensor)


def _is_parameter(tensor: Any) -> bool:
    import torch

    return isinstance(tensor, torch.nn.Parameter)
