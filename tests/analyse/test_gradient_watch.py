"""Gradients layer by layer: equal to what torch computes, naming the layer that is ill, changing nothing."""

from __future__ import annotations

import math

import pytest
import torch

from midflight.analyse.gradient_watch import GradientWatch, layer_of
from midflight.errors import ConfigError
from midflight.run import Run


def network(depth: int = 6, scale: float = 1.0) -> torch.nn.Module:
    torch.manual_seed(0)
    layers = [torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Tanh()) for _ in range(depth)]
    with torch.no_grad():
        for layer in layers:
            layer[0].weight.mul_(scale)
    return torch.nn.Sequential(*layers, torch.nn.Linear(16, 1))


def train(model, steps, every=None, run=None, spoil=None):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    watch = GradientWatch(model, optimizer, run, every=every) if every else None
    data = torch.randn(64, 16, generator=torch.Generator().manual_seed(1))
    losses = []
    for _ in range(steps):
        loss = (model(data) - data.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        if spoil:
            spoil(model)
        optimizer.step()
        losses.append(loss.item())
    return losses, watch


def test_training_is_bit_identical():
    assert train(network(), 20)[0] == train(network(), 20, every=1)[0]


def test_norms_and_updates_are_those_of_torch():
    model = network()
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    _, watch = train(model, 1, every=1)
    gradient = {layer_of(name): [] for name, _ in model.named_parameters()}
    for name, parameter in model.named_parameters():
        gradient[layer_of(name)].append((parameter.grad, before[name], parameter.detach() - before[name]))
    for layer in watch.layers:
        grads, weights, moves = (torch.cat([one[i].flatten() for one in gradient[layer.name]]) for i in range(3))
        assert layer.grad_norm == pytest.approx(grads.norm().item(), rel=1e-5)
        assert layer.weight_norm == pytest.approx(weights.norm().item(), rel=1e-5)
        assert layer.update_ratio == pytest.approx((moves.norm() / weights.norm()).item(), rel=1e-4)
        assert (layer.dead_units, layer.non_finite) == (0.0, 0)


def test_it_looks_every_so_many_steps_and_logs(store):
    with Run("p", "r", store=store) as run:
        train(network(), 25, every=10, run=run)
    points = store.read_points(1, "gradients/3/norm")
    assert list(points.steps) == [10, 20]
    assert "gradients/6/update_ratio" in store.keys(1)


def test_the_layer_that_vanishes_is_named():
    _, watch = train(network(depth=12, scale=0.02), 1, every=1)  # each layer passes on a fiftieth of its gradient
    assert "vanishing" in watch.suspects["0"]
    assert "12" not in watch.suspects


def test_the_layer_that_is_not_finite_or_explodes_is_named():
    def poison(model):
        model[2][0].weight.grad[0, 0] = math.nan

    _, watch = train(network(), 1, every=1, spoil=poison)
    assert watch.suspects == {"2": "1 elements not finite"}

    def blow(model):
        model[4][0].weight.grad.mul_(1e5)

    _, watch = train(network(), 1, every=1, spoil=blow)
    assert list(watch.suspects) == ["4"]
    assert "exploding" in watch.suspects["4"]


def test_dead_units_are_counted():
    def kill(model):
        model[1][0].weight.grad[:4] = 0

    _, watch = train(network(), 1, every=1, spoil=kill)
    assert {layer.name: layer.dead_units for layer in watch.layers}["1"] == 0.25


def test_what_cannot_be_watched_is_said():
    model = network()
    with pytest.raises(ConfigError, match="every; got 0"):
        GradientWatch(model, torch.optim.SGD(model.parameters(), lr=1), every=0)
    with pytest.raises(ConfigError, match="trains no parameter of this model"):
        GradientWatch(model, torch.optim.SGD(network().parameters(), lr=1))


def test_closed_it_sees_nothing():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with GradientWatch(model, optimizer, every=1) as watch:
        pass
    model(torch.ones(1, 16)).sum().backward()
    optimizer.step()
    assert (watch.layers, watch.step) == ((), 0)
