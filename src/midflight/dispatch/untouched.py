"""Leaves training exactly as it was: the guard around everything that runs inside a training loop.

What is restored, also after an exception: the random streams of Python, NumPy, torch's CPU and every accelerator; the
`training` flag of every submodule; buffers; the model's config and generation config; grad mode. Parameters,
gradients and the optimiser are never written to, since nothing inside computes a gradient.
"""

from __future__ import annotations

import copy
import random
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any


@contextmanager
def untouched(modules: Iterable[Any] = ()) -> Iterator[None]:
    """Restores random streams, and the state of the given torch modules, on leaving.

    The modules are put into evaluation mode inside, and torch computes no gradients.

    Args:
        modules: The torch modules that are used inside; may be empty.
    """
    with ExitStack() as stack:
        stack.callback(random.setstate, random.getstate())
        if sys.modules.get("numpy") is not None:
            numpy_random = sys.modules["numpy"].random
            stack.callback(numpy_random.set_state, numpy_random.get_state())
        if sys.modules.get("torch") is not None:
            _guard_torch(stack, list(modules))
        yield


def _guard_torch(stack: ExitStack, modules: list[Any]) -> None:
    import torch

    stack.callback(torch.set_rng_state, torch.get_rng_state())
    for device in ("cuda", "xpu", "mps"):
        _guard_accelerator(stack, device)
    for module in modules:
        stack.callback(_restore_buffers, _buffers(module))
        stack.callback(_restore_modes, [(m, m.training) for m in module.modules()])
        stack.callback(_restore_configs, _configs(module))
        module.eval()
    stack.enter_context(torch.no_grad())


def _guard_accelerator(stack: ExitStack, device: str) -> None:
    import torch

    api = getattr(torch, device, None)
    if api is None or not api.is_available() or not getattr(api, "is_initialized", lambda: True)():
        return  # reading its state would initialise it
    if device == "mps":
        stack.callback(api.set_rng_state, api.get_rng_state())
    else:
        stack.callback(api.set_rng_state_all, api.get_rng_state_all())
    stack.callback(api.empty_cache)  # what evaluation cached is free for the next training step


def _configs(module: Any) -> list[tuple[Any, str, Any, dict[str, Any]]]:
    """Configs of Hugging Face models, which `generate` and `forward` are known to write: object and content."""
    found, seen = [], set()
    for inner in module.modules():
        for name in ("config", "generation_config"):
            config = getattr(inner, name, None)
            if hasattr(config, "__dict__") and id(config) not in seen:  # layers share the config of their model
                seen.add(id(config))
                found.append((inner, name, config, copy.deepcopy(vars(config))))
    return found


def _restore_configs(saved: list[tuple[Any, str, Any, dict[str, Any]]]) -> None:
    for inner, name, config, content in saved:
        if getattr(inner, name) is not config:
            setattr(inner, name, config)
        if vars(config) != content:
            vars(config).clear()
            vars(config).update(content)


def _buffers(module: Any) -> list[tuple[Any, str, Any, Any]]:
    return [
        (inner, name, buffer, None if buffer is None else buffer.detach().clone())
        for inner in module.modules()
        for name, buffer in inner._buffers.items()
    ]


def _restore_buffers(saved: list[tuple[Any, str, Any, Any]]) -> None:
    """Puts the same tensor objects back, with the same content: a rotary cache may have been replaced."""
    for inner, name, buffer, content in saved:
        inner._buffers[name] = buffer
        if buffer is not None:
            buffer.data.copy_(content)


def _restore_modes(modes: list[tuple[Any, bool]]) -> None:
    for module, training in modes:
        module.training = training
