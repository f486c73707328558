"""What an evaluation finds in a training loop is what it leaves: attack by attack, with and without an exception."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch

from midflight.dispatch import untouched


@pytest.fixture(params=[False, True], ids=["ends", "raises"])
def guard(request):
    """The guard, around a body that ends or raises."""

    @contextmanager
    def guarded(*modules):
        try:
            with untouched(modules):
                yield
                if request.param:
                    raise KeyError
        except KeyError:
            assert request.param

    return guarded


class Frozen(torch.nn.Module):
    """A user's model whose batch norm stays frozen: `train` and `eval` have side effects."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2)
        self.calls: list[bool] = []

    def train(self, mode: bool = True):
        self.calls.append(mode)
        super().train(mode)
        self.norm.training = False
        return self


def test_modes_are_set_without_calling_the_users_train_and_eval(guard):
    model = Frozen()
    model.norm.training = True
    with guard(model):
        assert [m.training for m in model.modules()] == [False] * 3
        model.linear.training = True
    assert [m.training for m in model.modules()] == [True] * 3
    assert model.calls == []


def test_a_scripted_module(guard):
    model = torch.jit.script(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout()))
    with guard(model):
        assert not any(m.training for m in model.modules())
    assert all(m.training for m in model.modules())


def test_attributes_added_changed_and_removed_come_back_by_identity(guard):
    model = torch.nn.Module()
    model.rope_deltas, model.steps, model.gone = (kept := object()), 3, (gone := [1, [2]])
    model.cache, model.log, model.last = OrderedDict(a=1, b=2), {1, 2}, deque([1, 2], maxlen=2)
    model.counts, model.lists = (counts := Counter("aab")), (lists := defaultdict(list, a=[1]))
    cache, log, last, names = model.cache, model.log, model.last, list(vars(model))
    with guard(model):
        model.rope_deltas, model.added = None, 1
        model.steps += 1
        del model.gone
        gone[1].append(3)
        model.cache = {}
        del cache["a"]
        cache["a"] = 1
        log.add(3), last.append(3), counts.update("ab"), lists["b"].append(2)
    assert list(vars(model)) == names
    assert (model.rope_deltas, model.steps, model.gone, model.cache, model.log) == (kept, 3, gone, cache, log)
    assert model.cache is cache
    assert (counts, lists, lists.default_factory) == (Counter("aab"), {"a": [1]}, list)
    assert (gone, list(cache), log, list(last)) == ([1, [2]], ["a", "b"], {1, 2}, [1, 2])


def test_hooks_and_submodules_come_back(guard):
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    calls: list[int] = []
    model.register_forward_hook(lambda *_: calls.append(1))
    layers = list(model)
    with guard(model):
        model.register_forward_hook(lambda *_: calls.append(2))
        model[0] = torch.nn.Linear(2, 2)
        model.add_module("extra", torch.nn.ReLU())
    assert list(model) == layers
    model(torch.zeros(1, 2))
    assert calls == [1]


def test_parameters_are_nobodys_business(guard):
    """Sharding swaps them in a forward, and keeps track of what it swapped."""
    model = torch.nn.Linear(2, 2)
    with guard(model):
        model.weight = other = torch.nn.Parameter(torch.zeros(2, 2))
    assert model.weight is other


def test_what_distributes_a_model_keeps_what_it_set_up(guard):
    wrapper = type("Wrapper", (torch.nn.Module,), {"__module__": "torch.distributed.fsdp.x"})()
    with guard(wrapper):
        wrapper._is_root = True
        assert not wrapper.training
    assert (wrapper._is_root, wrapper.training) == (True, True)


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.arange(6.0),
        lambda: torch.arange(3.0).expand(4, 3),
        lambda: torch.tensor(5.0).expand(2, 2),
        lambda: torch.arange(12.0).view(3, 4).t()[1:],
        lambda: torch.empty(0),
        lambda: torch.tensor([[0.0, 2.0]]).to_sparse(),
        lambda: torch.tensor([1.0, float("nan")]),
    ],
    ids=["plain", "expanded", "scalar expanded", "strided", "empty", "sparse", "nan"],
)
@pytest.mark.parametrize("kind", ["buffer", "attribute"])
def test_tensors_come_back_with_their_content(guard, make, kind):
    model = torch.nn.Module()
    if kind == "buffer":
        model.register_buffer("x", make())
    else:
        model.x = make()
    tensor, wanted = model.x, make().to_dense()
    with guard(model):
        if tensor.is_sparse:
            tensor.mul_(3)
        elif tensor.numel():  # its first number, which expand repeats
            tensor.as_strided((1,), (1,), tensor.storage_offset()).fill_(7)
        model.x = torch.zeros(2)
    assert model.x is tensor
    torch.testing.assert_close(tensor.to_dense(), wanted, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("change", ["bigger", "smaller", "other memory", "other shape"])
def test_a_buffer_that_was_resized(guard, change):
    model = torch.nn.Module()
    model.register_buffer("x", torch.arange(4.0).view(2, 2))
    tensor = model.x
    with guard(model):
        match change:
            case "bigger":
                tensor.resize_(100, 100).zero_()
            case "smaller":
                tensor.resize_(1).zero_()
            case "other memory":
                tensor.data = torch.zeros(9)
            case "other shape":
                tensor.unsqueeze_(0).zero_()
    assert model.x is tensor
    assert tensor.tolist() == [[0.0, 1.0], [2.0, 3.0]]


class Uncopyable:
    def __deepcopy__(self, memo):
        raise TypeError("cannot copy this")

    def __eq__(self, other):
        raise ValueError("ambiguous")

    __hash__ = None


def test_configs_come_back_whatever_they_hold(guard):
    """Nested configs stay the objects that submodules share; what cannot be copied or compared breaks nothing."""
    model, layer = torch.nn.Module(), torch.nn.Module()
    text = SimpleNamespace(use_cache=True, layers=[1, 2])
    model.config = layer.config = SimpleNamespace(text_config=text, odd=Uncopyable(), tensor=torch.ones(3))
    layer.text_config, model.layer = text, layer
    config, odd = model.config, model.config.odd
    with guard(model):
        config.added, text.use_cache = 1, False
        text.layers.append(3)
        config.odd, config.tensor = None, None
        model.config = None
    assert model.config is layer.config is config
    assert config.odd is odd
    assert config.text_config is layer.text_config is text
    assert (text.use_cache, text.layers, config.tensor.tolist(), hasattr(config, "added")) == (
        True,
        [1, 2],
        [1.0] * 3,
        False,
    )


def test_objects_that_hold_themselves(guard):
    model = torch.nn.Module()
    model.loop = [1]
    model.loop.append(model.loop)
    with guard(model):
        model.loop.append(2)
    assert len(model.loop) == 2


class TestSwitches:
    def test_autocast_is_off_inside_and_back_on_after(self, guard):
        with torch.autocast("cpu", dtype=torch.float16):
            with guard():
                assert not torch.is_autocast_enabled("cpu")
                assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32
                torch.set_autocast_enabled("cpu", True)
                torch.set_autocast_dtype("cpu", torch.bfloat16)
            assert torch.is_autocast_enabled("cpu")
            assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float16
        with guard():
            torch.set_autocast_enabled("cpu", True)
        assert not torch.is_autocast_enabled("cpu")

    def test_grad_mode(self, guard):
        for enabled in (True, False):
            with torch.set_grad_enabled(enabled):
                with guard():
                    assert not torch.is_grad_enabled()
                    torch.set_grad_enabled(True)
                assert torch.is_grad_enabled() is enabled

    def test_default_type_and_flags(self, guard):
        cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul

        def state():
            return (
                torch.get_default_dtype(),
                torch.get_deterministic_debug_mode(),
                torch.utils.deterministic.fill_uninitialized_memory,
                *(cudnn.enabled, cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32),
                *(matmul.allow_tf32, matmul.allow_bf16_reduced_precision_reduction),
            )

        before = state()
        with guard():
            torch.set_default_dtype(torch.float64)
            torch.use_deterministic_algorithms(True, warn_only=True)
            torch.utils.deterministic.fill_uninitialized_memory = False
            cudnn.enabled, cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32 = False, True, True, False
            matmul.allow_tf32, matmul.allow_bf16_reduced_precision_reduction = True, False
        assert state() == before

    def test_the_new_form_of_the_precision_flags(self):
        """torch refuses to read the old form once the new one is in use: in a process of its own."""
        code = """
import torch
from midflight.dispatch import untouched
torch.backends.cuda.matmul.fp32_precision = "tf32"
torch.backends.cudnn.conv.fp32_precision = "ieee"
with untouched():
    torch.backends.cuda.matmul.fp32_precision = "ieee"
    torch.backends.cudnn.conv.fp32_precision = "tf32"
print(torch.backends.cuda.matmul.fp32_precision, torch.backends.cudnn.conv.fp32_precision)
"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.split() == ["tf32", "ieee"]


def test_an_evaluation_compiles_nothing_and_training_is_not_recompiled(guard):
    compiled: list[int] = []

    def backend(graph, inputs):
        compiled.append(1)
        return graph.forward

    class Net(torch.nn.Module):
        def forward(self, x):
            return x * 2 if self.training else x * 3

    model = Net()
    model.compile(backend=backend)
    model(torch.ones(2, 4))
    assert len(compiled) == 1
    for rows in range(3, 30):  # more shapes and modes than the limit of recompilations
        with guard(model):
            model(torch.ones(rows, 4, dtype=torch.float32))
    assert len(compiled) == 1
    model(torch.ones(2, 4))
    assert len(compiled) == 1
