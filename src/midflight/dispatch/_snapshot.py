"""What modules hold besides parameters, remembered and put back: the same objects, with the same content."""

from __future__ import annotations

import copy
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
    seen: set[int] = set()
    for inner in module.modules():
        # a scripted module keeps its flag outside its attributes
        stack.callback(_set_training, inner, inner.training)
        if not type(inner).__module__.startswith(_DISTRIBUTED):
            attributes = vars(inner)
            _remember_container(stack, attributes, seen, skip="_parameters")


def _set_training(module: Any, training: bool) -> None:
    module.training = training


def _remember(stack: ExitStack, name: object, value: Any, seen: set[int]) -> None:
    if isinstance(value, torch.Tensor):
        if id(value) not in seen:
            seen.add(id(value))
            _remember_tensor(stack, value)
    elif isinstance(value, dict | list | set | deque | tuple):
        _remember_container(stack, value, seen)
    elif _is_config(name, value):
        _remember_container(stack, vars(value), seen)


def _is_config(name: object, value: Any) -> bool:
    """`generate` and `forward` of Hugging Face models are known to write these."""
    if not hasattr(value, "__dict__") or isinstance(value, type | torch.nn.Module):
        return False
    return str(name).endswith("config") or type(value).__name__.endswith("Config")


def _remember_container(stack: ExitStack, container: Any, seen: set[int], skip: str | None = None) -> None:
    if id(container) in seen:
        return
    seen.add(id(container))
    if not isinstance(container, tuple):
        stack.callback(_put_back, container, copy.copy(container))
    pairs = list(container.items()) if isinstance(container, dict) else [("", value) for value in container]
    for name, value in pairs:
        if name != skip:
            _remember(stack, name, value, seen)


def _put_back(container: Any, before: Any) -> None:
    now, then = _content(container), _content(before)
    if len(now) == len(then) and all(a is b for a, b in zip(now, then, strict=True)):
        return
    container.clear()
    if isinstance(container, dict | set):
        container.update(before)
    else:
        container.extend(before)


def _content(container: Any) -> list[Any]:
    """Keys and values of a dict, in order: the order of submodules is part of a module."""
    return [*container, *container.values()] if isinstance(container, dict) else list(container)


def _remember_tensor(stack: ExitStack, tensor: torch.Tensor) -> None:
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
