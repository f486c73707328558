"""A model's evaluation mode, for the time of a batch: the model of a training loop is put back as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

_OUTPUTS = {
    "output_attentions": False,
    "output_hidden_states": False,
    "output_router_logits": False,  # mixtures of experts compute their load balancing loss with it
    "return_dict": True,
    "use_cache": True,  # training with gradient checkpointing turns it off
}
"""What a model returns where a call does not say; training may have set it otherwise."""


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Evaluation mode without gradients; submodules and configs get back what they had."""
    modes = [(module, module.training) for module in model.modules() if module.training]
    configs = [(config, dict(vars(config))) for config in _configs(model)]
    try:
        for module, _ in modes:
            module.training = False  # not eval(): models override it, to freeze a layer, say
        for config, _ in configs:
            for name, value in _OUTPUTS.items():
                setattr(config, name, value)
        with torch.no_grad():
            yield
    finally:
        for module, training in modes:
            module.training = training
        for config, content in configs:
            vars(config).clear()
            vars(config).update(content)


def _configs(model: Any) -> list[Any]:
    """The configs that its modules read; layers share that of their model."""
    found = (getattr(module, "config", None) for module in model.modules())
    return list({id(config): config for config in found if hasattr(config, "__dict__")}.values())
