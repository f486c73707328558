"""An engine taken apart, its weights in shared memory, and put together again in another process."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file

from conftest import tiny_llama
from midflight.errors import CapabilityError, DispatchError
from midflight.snapshot import Buffer, Replica, Skeleton


class Holder:
    def __init__(self, **things):
        vars(self).update(things)


class Odd(torch.nn.Module):
    """Tensors of all kinds and shapes, one parameter in two places, a loose tensor."""

    def __init__(self):
        super().__init__()
        for name, dtype in (("f64", torch.float64), ("bf16", torch.bfloat16), ("f16", torch.float16)):
            self.register_parameter(name, torch.nn.Parameter(torch.randn(3, 5).to(dtype)))
        self.tied = self.f64
        self.register_buffer("flag", torch.tensor(True))
        self.register_buffer("count", torch.tensor(7))
        self.register_buffer("none", None)
        self.register_buffer("nothing", torch.empty(0, 4))
        self.register_buffer("bytes", torch.arange(3, dtype=torch.uint8), persistent=False)
        self.register_buffer("complex", torch.randn(2, dtype=torch.complex64))
        self.register_buffer("turned", torch.arange(6.0).view(2, 3).t())
        self.loose = torch.arange(4)


def rebuilt(thing, modules, folder):
    skeleton = Skeleton(thing, modules)
    buffer = Buffer(folder / "a.safetensors", skeleton.layout, create=True)
    buffer.write(skeleton.tensors())
    replica = Replica(skeleton.content, skeleton.layout)
    return replica.show(Buffer(buffer.path, skeleton.layout).views), buffer, skeleton, replica


def test_every_tensor_arrives_to_the_bit(tmp_path):
    odd = Odd()
    odd.f64.data[0, 0] = float("nan")
    copy, buffer, _, _ = rebuilt(Holder(model=odd), [odd], tmp_path)
    found, wanted = copy.model, odd
    for name, tensor in [*wanted.named_parameters(), *wanted.named_buffers(), ("loose", wanted.loose)]:
        again = getattr(found, name)
        assert (again.dtype, again.shape) == (tensor.dtype, tensor.shape), name
        assert (
            again.contiguous().view(-1).view(torch.uint8).tolist()
            == tensor.detach().contiguous().view(-1).view(torch.uint8).tolist()
        ), name
    assert found.tied is found.f64
    assert found.none is None
    assert [p.requires_grad for p in found.parameters()] == [p.requires_grad for p in wanted.parameters()]
    kept = load_file(buffer.path)  # another tool reads it
    assert torch.equal(kept["bf16"], odd.bf16.data)
    assert set(kept) >= {
        "f64",
        "flag",
        "count",
        "nothing",
        "tensor." + str([k for k in kept if k.startswith("tensor.")][0][7:]),
    }


def test_a_model_in_training_gives_the_same_logits_after_each_snapshot(tmp_path, word_tokenizer):
    model = tiny_llama(word_tokenizer)
    tokens = torch.arange(12).view(2, 6)
    engine = Holder(model=model)
    copy, buffer, skeleton, replica = rebuilt(engine, [model], tmp_path)
    optimiser = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        before = model.eval()(tokens).logits
        assert torch.equal(copy.model.eval()(tokens).logits, before)
        model.train()(tokens, labels=tokens).loss.backward()
        optimiser.step()
        assert torch.equal(copy.model(tokens).logits, before)  # the copy stands still while training goes on
        assert skeleton.fits()
        buffer.write(skeleton.tensors())
        replica.show(buffer.views)


def test_what_training_replaces_is_found_again(tmp_path):
    odd = Odd()
    _, buffer, skeleton, replica = rebuilt(Holder(model=odd), [odd], tmp_path)
    odd.count = torch.tensor(9)
    odd.bf16 = torch.nn.Parameter(torch.ones(3, 5, dtype=torch.bfloat16))
    buffer.write(skeleton.tensors())
    assert replica.show(buffer.views).model.count == 9
    assert torch.equal(replica.engine.model.bf16.data, odd.bf16.data)
    odd.count = torch.tensor([1, 2])
    assert not skeleton.fits()


def test_what_no_other_process_can_have():
    import threading

    with pytest.raises(CapabilityError, match="Holder cannot be handed to another process: TypeError: cannot pickle"):
        Skeleton(Holder(lock=threading.Lock()))


def test_no_room(tmp_path, monkeypatch):
    import os

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    skeleton = Skeleton(Holder(x=torch.ones(3)))
    with pytest.raises(DispatchError, match="no room for a snapshot of .* No space left on device"):
        Buffer(tmp_path / "a", skeleton.layout, create=True)
    assert list(tmp_path.iterdir()) == []
