"""Layer by layer: where a gradient vanishes or explodes, how far an update moves the weights, which units are dead."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from midflight.errors import ConfigError

if TYPE_CHECKING:
    import torch

SAMPLE = 4096
"""Elements of a parameter whose movement stands for all of its: a copy of the weights would need their room."""
EXPLODING = 100.0
"""Times the gradient of the layer next to it in size, each relative to its weights, from which on a layer is named."""
VANISHING = 1e-4
"""Share of the median layer's, below which a layer is named."""


class Log(Protocol):
    """What takes the numbers: a Run."""

    def log(self, step: int, /, **values: float) -> None:
        """Records values at a training step."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer at one step.

    Attributes:
        name: Name of the block, such as ``model.layers.3``, or of the module outside of blocks.
        grad_norm: Norm of its gradient.
        weight_norm: Norm of its weights.
        update_ratio: Norm of the update ÷ norm of the weights, on a sample of its elements; NaN before an update.
        dead_units: Share of output units (rows of its matrices) whose gradient is exactly 0.
        non_finite: Gradient elements that are NaN or infinite.
    """

    name: str
    grad_norm: float
    weight_norm: float
    update_ratio: float
    dead_units: float
    non_finite: int


class GradientWatch:
    """Looks at gradients and updates every so many optimiser steps; training stays bit-identical.

    It hooks into the optimiser: nothing has to be called in the loop. The numbers are logged as
    ``gradients/<layer>/norm``, ``…/update_ratio``, ``…/dead_units`` and ``…/non_finite``.

    Args:
        model: The model.
        optimizer: Its optimiser.
        run: Where the numbers go; None = only `layers` and `suspects` tell them.
        every: Optimiser steps between two looks.
        start: Optimiser steps that were taken before, as after a resume.

    Raises:
        ConfigError: If model or optimiser is none, `every` is below 1, or the model has no parameter that the optimiser
            trains.

    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> with GradientWatch(model, optimizer, every=1) as watch:
    ...     model(torch.ones(2, 4)).sum().backward()
    ...     optimizer.step()
    >>> [layer.name for layer in watch.layers]
    ['0', '1']
    """

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        run: Log | None = None,
        every: int = 50,
        start: int = 0,
    ) -> None:
        if every < 1:
            raise ConfigError("every", got=every, allowed="1 and above")
        for name, given, needed in (("model", model, "named_parameters"), ("optimizer", optimizer, "param_groups")):
            if not hasattr(given, needed):
                kind = "torch.nn.Module" if name == "model" else "torch.optim.Optimizer"
                raise ConfigError(name, got=given, allowed=f"a {kind}")
        trained = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        self._parameters: dict[str, list[Any]] = {}
        for name, parameter in model.named_parameters():
            if id(parameter) in trained:
                self._parameters.setdefault(layer_of(name), []).append(parameter)
        if not self._parameters:
            raise ConfigError(
                "the optimiser trains no parameter of this model", hint="give the model that it was made for"
            )
        self.layers: Sequence[Layer] = ()
        """What was seen at the newest look."""
        self.step = start
        """Optimiser steps so far."""
        self._run, self._every = run, every
        self._seen: dict[str, tuple[float, float, float, int]] = {}
        self._samples: dict[str, list[Any]] = {}
        self._hooks = [
            optimizer.register_step_pre_hook(self._before),
            optimizer.register_step_post_hook(self._after),
        ]

    def __enter__(self) -> GradientWatch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Takes the hooks out again."""
        for hook in self._hooks:
            hook.remove()

    @property
    def suspects(self) -> Mapping[str, str]:
        """Layers whose gradient is not finite, vanishes or explodes beside the others', and which of it.

        A layer's gradient norm, relative to its weights' norm, is held against the median layer's, and the largest
        against the next: where gradients vanish from layer to layer, the last layers are no explosion.
        """
        relative = {
            layer.name: layer.grad_norm / layer.weight_norm
            for layer in self.layers
            if layer.weight_norm > 0 and not layer.non_finite
        }
        found = {layer.name: f"{layer.non_finite} elements not finite" for layer in self.layers if layer.non_finite}
        ordered = sorted(relative.values())
        for name, value in relative.items():
            middle = ordered[len(ordered) // 2]
            if value < VANISHING * middle:
                found[name] = f"vanishing: {value / middle:.3g} of the median layer's"
        if len(ordered) > 1 and ordered[-1] > EXPLODING * ordered[-2] > 0:
            worst = max(relative, key=lambda name: relative[name])
            found[worst] = f"exploding: {ordered[-1] / ordered[-2]:.3g} times the next"
        return found

    def _before(self, *_: Any) -> None:
        """Before the optimiser's step, at a look: the gradients, and a sample of the weights."""
        if (self.step + 1) % self._every:
            return
        import torch

        with torch.no_grad():
            for name, parameters in self._parameters.items():
                gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
                self._seen[name] = _gradients(gradients, parameters)
                self._samples[name] = [_sample(parameter).clone() for parameter in parameters]

    def _after(self, *_: Any) -> None:
        """After it: how far the sample moved."""
        self.step += 1
        if not self._samples:
            return
        import torch

        layers = []
        with torch.no_grad():
            for name, parameters in self._parameters.items():
                moved = [_sample(p) - before for p, before in zip(parameters, self._samples[name], strict=True)]
                size = _norm(self._samples[name])
                ratio = _norm(moved) / size if size > 0 else math.nan
                norm, weights, dead, broken = self._seen[name]
                layers.append(Layer(name, norm, weights, ratio, dead, broken))
        self._samples = {}
        self.layers = layers
        if self._run is not None:
            self._run.log(self.step, **_series(layers))


def layer_of(name: str) -> str:
    """The layer that a parameter belongs to: its numbered block, or its module outside of blocks.

    >>> [layer_of(n) for n in ("model.layers.3.mlp.up_proj.weight", "lm_head.weight", "0.weight", "scale")]
    ['model.layers.3', 'lm_head', '0', 'scale']
    """
    block = re.match(r"(?:.*?\.)??\d+(?=\.)", name)
    return block[0] if block else name.rpartition(".")[0] or name


def _gradients(gradients: Sequence[Any], parameters: Sequence[Any]) -> tuple[float, float, float, int]:
    """Norm of gradients, norm of weights, share of dead rows, elements not finite."""
    import torch

    rows = [gradient.flatten(1).abs().amax(1) for gradient in gradients if gradient.dim() > 1]
    num_rows = sum(len(row) for row in rows)
    dead = sum(int((row == 0).sum()) for row in rows) / num_rows if num_rows else 0.0
    norm = _norm(gradients)
    broken = 0 if math.isfinite(norm) else sum(int((~torch.isfinite(g)).sum()) for g in gradients)
    return norm, _norm(parameters), dead, broken


def _norm(tensors: Sequence[Any]) -> float:
    """Norm of all elements together, in float32."""
    import torch

    if not tensors:
        return 0.0
    norms = torch._foreach_norm([tensor.detach().float() for tensor in tensors])
    return float(torch.linalg.vector_norm(torch.stack([norm.to(norms[0].device) for norm in norms])))


def _sample(parameter: Any) -> Any:
    """Elements of a parameter, evenly spaced: a view."""
    flat = parameter.detach().reshape(-1)
    return flat[:: max(1, len(flat) // SAMPLE)]


def _series(layers: Sequence[Layer]) -> dict[str, float]:
    return {
        f"gradients/{layer.name}/{name}": value
        for layer in layers
        for name, value in (
            ("norm", layer.grad_norm),
            ("update_ratio", layer.update_ratio),
            ("dead_units", layer.dead_units),
            ("non_finite", float(layer.non_finite)),
        )
    }
