"""Leaves training exactly as it was: the guard around everything that runs inside a training loop.

What is restored, also after an exception: the random streams of Python, NumPy, torch's CPU and every accelerator; the
`training` flag, attributes, buffers and configs of every submodule; grad mode, autocast, default numeric type, the
flags of determinism and precision, the stance of `torch.compile`. Parameters, gradients and the optimiser are never
written to, since nothing inside computes a gradient.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

_FLAGS = {
    "backends.cudnn": ("enabled", "benchmark", "deterministic", "allow_tf32"),
    "backends.cudnn.conv": ("fp32_precision",),
    "backends.cuda.matmul": ("allow_tf32", "fp32_precision", "allow_bf16_reduced_precision_reduction"),
    "utils.deterministic": ("fill_uninitialized_memory",),
}
"""Attributes in torch that decide how the next step computes."""


@contextmanager
def untouched(modules: Iterable[Any] = ()) -> Iterator[None]:
    """Restores random streams, torch's switches, and the state of the given torch modules, on leaving.

    The modules are put into evaluation mode inside, in the numeric type that they have; torch computes no gradients
    and compiles nothing.

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

    from midflight.dispatch._attributes import remember

    stack.callback(torch.set_rng_state, torch.get_rng_state())
    for device in ("cuda", "xpu", "mps"):
        _guard_accelerator(stack, device)
    _guard_switches(stack)
    for module in modules:
        remember(stack, module)
        for inner in module.modules():
            inner.training = False  # not eval(): models override it, to freeze a layer, say


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


def _guard_switches(stack: ExitStack) -> None:
    import torch

    for path, names in _FLAGS.items():
        for name in names:
            _guard_flag(stack, path, name)
    stack.callback(torch.set_deterministic_debug_mode, torch.get_deterministic_debug_mode())
    stack.callback(torch.set_default_dtype, torch.get_default_dtype())
    stack.callback(torch.set_autocast_cache_enabled, torch.is_autocast_cache_enabled())
    for device in ("cpu", "cuda", "xpu", "mps"):
        with suppress(RuntimeError):  # a device that this torch has never heard of
            stack.callback(torch.set_autocast_dtype, device, torch.get_autocast_dtype(device))
            stack.callback(torch.set_autocast_enabled, device, torch.is_autocast_enabled(device))
            torch.set_autocast_enabled(device, False)
    if "torch._dynamo" in sys.modules and hasattr(torch.compiler, "set_stance"):
        # shapes and modes of evaluation would use up the recompilations that training is allowed
        stack.enter_context(torch.compiler.set_stance("force_eager"))
    stack.enter_context(torch.no_grad())


def _guard_flag(stack: ExitStack, path: str, name: str) -> None:
    """Puts a flag back if it was changed: writing one that was not may mix torch's old and new forms of it."""
    import torch

    owner: Any = torch
    for part in path.split("."):
        owner = getattr(owner, part, None)

    def read() -> Any:
        with suppress(RuntimeError):  # torch refuses to read an old flag once its new form has been set
            return getattr(owner, name, None)
        return None

    before = read()

    def restore() -> None:
        if before is not None and read() != before:
            setattr(owner, name, before)

    stack.callback(restore)
