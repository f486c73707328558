"""What modules hold besides parameters, remembered and put back: the same objects, with the same content."""

from __future__ import annotations

from collections import deque
from contextlib import ExitStack
from typing import Any

import torch

_DISTRIBUTED = ("torch.distributed.", "torch.nn.parallel.", "deepspeed.")
"""Where classes live that spread a model: they set up their machinery in attributes at the first forward, for good."""


def remember(stack: ExitStack, module: Any) -> None:
    """Has a stack put back the `training` flag, attributes, buffers and configs of a module and all in it.

    Attributes come back by identity; the dicts, lists, sets, configs and tensors among them with their content too.
    Parameters stay out: nothing inside writes them, and sharding swaps them.

    Args:
        stack: Puts everything back when it is left.
        module: A torch module.
    """
    memory = _Memory(stack)
    for inner in module.modules():
        memory.modes.append((inner, inner.training))  # a scripted module keeps its flag outside its attributes
        if not type(inner).__module__.startswith(_DISTRIBUTED):
            memory.hold_container(vars(inner), skip="_parameters")


class _Memory:
    """What was seen, and how it was."""

    def __init__(self, stack: ExitStack) -> None:
        self.modes: list[tuple[Any, bool]] = []
        self._stack, self._seen = stack, set[int]()
        self._containers: list[tuple[Any, list[Any]]] = []
        stack.callback(self._put_back)

    def hold_container(self, container: Any, skip: str | None = None) -> None:
        if id(container) in self._seen:
            return
        self._seen.add(id(container))
        if not isinstance(container, tuple):
            self._containers.append((container, _content(container)))
        pairs = container.items() if isinstance(container, dict) else (("", value) for value in container)
        for name, value in pairs:
            if name != skip:
                self._hold(name, value)

    def _hold(self, name: object, value: Any) -> None:
        if isinstance(value, torch.Tensor):
            if id(value) not in self._seen:
                self._seen.add(id(value))
                _hold_tensor(self._stack, value)
        elif isinstance(value, dict | list | set | deque | tuple):
            self.hold_container(value)
        elif _is_config(name, value):
            self.hold_container(vars(value))

    def _put_back(self) -> None:
        for module, training in self.modes:
            module.training = training
        for container, before in self._containers:
            _put_back(container, before)


def _is_config(name: object, value: Any) -> bool:
    """`generate` and `forward` of Hugging Face models are known to write these."""
    if not hasattr(value, "__dict__") or isinstance(value, type | torch.nn.Module):
        return False
    return str(name).endswith("config") or type(value).__name__.endswith("Config")


def _put_back(container: Any, before: list[Any]) -> None:
    now = _content(container)
    if len(now) == len(before) and all(a is b for a, b in zip(now, before, strict=True)):
        return
    container.clear()
    if isinstance(container, dict):
        half = len(before) // 2
        for key, value in zip(before[:half], before[half:], strict=True):
            container[key] = value
    elif isinstance(container, set):
        container.update(before)
    else:
        container.extend(before)


def _content(container: Any) -> list[Any]:
    """Items in order; of a dict its keys, then its values: the order of submodules is part of a module."""
    return [*container, *container.values()] if isinstance(container, dict) else list(container)


def _hold_tensor(stack: ExitStack, tensor: torch.Tensor) -> None:
    ours = not (isinstance(tensor, torch.nn.Parameter) or tensor.requires_grad or tensor.is_inference())
    if ours and tensor.device.type != "meta" and not isinstance(tensor._base, torch.nn.Parameter):
        place = tensor.data
        stack.callback(_restore_tensor, tensor, place, _dense(place).clone())


def _restore_tensor(tensor: torch.Tensor, place: torch.Tensor, content: torch.Tensor) -> None:
    """Puts size, memory and content back, `place` being the tensor as it was."""
    if tensor.layout is not torch.strided:  # indices and values belong to the tensor object
        with torch.no_grad():
            tensor.copy_(content)
        return
    if type(tensor) is torch.Tensor and not _same_memory(tensor, place):
        tensor.data = place
    _dense(place).copy_(content)  # through `place`: autograd does not see a change where in the end there is none


def _same_memory(a: torch.Tensor, b: torch.Tensor) -> bool:
    return bool(a.dtype == b.dtype and a.device == b.device and a.is_set_to(b))


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    """One of each number: what `expand` repeats lies in memory once, and cannot be written as a whole."""
    if tensor.layout is not torch.strided:
        return tensor
    for dim, (size, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        if stride == 0 and size > 1:
            tensor = tensor.narrow(dim, 0, 1)
    return tensor
