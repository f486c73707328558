"""Forward passes in step, on real ranks: the outputs of a whole model to the bit, in the memory of shards."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import random
import signal

import pytest
import torch
import torch.distributed as dist
from ranks import run_ranks

import midflight as mf
from midflight.demo.model import make_tokenizer
from midflight.dispatch import Process
from midflight.distributed.sharded_model import in_step, is_sharded, put_in_shards, put_together
from midflight.errors import CapabilityError, ConfigError
from midflight.evaluator import across_ranks, beside_training
from midflight.records import Request, Sampling

TOKENIZER = make_tokenizer()
TOKENS = torch.arange(24).view(2, 12) % 17


def make_model():
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(TOKENIZER), hidden_size=16, intermediate_size=32, num_hidden_layers=4, num_attention_heads=2,
        eos_token_id=TOKENIZER.eos_token_id, pad_token_id=TOKENIZER.pad_token_id, initializer_range=0.3,
    )  # fmt: skip
    return LlamaForCausalLM(config)


class Adapter(torch.nn.Module):
    """Wraps a model as PEFT does: it scores through itself, and generates past itself."""

    def __init__(self, model):
        super().__init__()
        self.base_model = model

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.base_model, name)

    def get_base_model(self):
        return self.base_model

    def forward(self, input_ids=None, **options):
        return self.base_model(input_ids=input_ids, **options)


def in_shards(how: str = "layers and root"):
    from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

    model = make_model()
    layers = model.model.layers
    if how == "adapter":
        model = Adapter(model)
    for number, layer in enumerate(layers):
        stays = how == "one stays whole" and number == 1
        fully_shard(layer, reshard_after_forward=not stays)
    if how == "grouped":
        fully_shard([model.model.norm, model.lm_head])
    if how != "layers only":
        fully_shard(model)
    if how == "gathered ahead":
        for layer, following in itertools.pairwise(layers):
            layer.set_modules_to_forward_prefetch([following])
    if how == "generates as root":
        register_fsdp_forward_method(model, "generate")
    return model


def reading(number: int) -> Request:
    return Request(f"r{number}", f"r{number}", "loglikelihood", "", "1" * (1 + 3 * number % 7) + "+2=")


def writing(number: int) -> Request:
    sampling = Sampling(max_tokens=1 + 2 * (number % 3), temperature=float(number % 2))
    return Request(f"w{number}", f"w{number}", "generate", "2" * (1 + number % 4) + "+", sampling=sampling, seed=number)


def requests(count: int) -> list[Request]:
    return [make(number) for number in range(count) for make in (reading, writing)]


WAYS = ["one stays whole", "grouped", "adapter", "gathered ahead", "generates as root"]
SHARES = {
    "nothing for one": [requests(5), [], requests(2)],
    "one reads, one writes": [[reading(1)], [writing(number) for number in range(6)], []],
    "more ranks than items": [[], [writing(2)], []],
    "nothing at all": [[], [], []],
}


def answer_in_step(rank, share, how):
    """Outputs of a rank's share, those of a whole model, the most of the weights that was whole at once, and kinds."""
    model = in_shards(how)
    engine = mf.engines.HF(model, TOKENIZER, tokens_per_batch=40)
    peak = Peak(model)
    with in_step(engine.modules(), engine.idle):
        mine = list(engine.run(share))
    wanted = list(mf.engines.HF(make_model(), TOKENIZER, tokens_per_batch=40).run(share))
    return mine == wanted, peak.share(), {type(parameter.data).__name__ for parameter in model.parameters()}


class Peak:
    """The most parameters of a model that were whole at once, as seen when its layers compute."""

    def __init__(self, model):
        self.model, self.most = model, 0
        self.total = sum(parameter.numel() for parameter in model.parameters())
        for layer in (m for m in model.modules() if type(m).__name__.endswith("LlamaDecoderLayer")):
            layer.self_attn.register_forward_pre_hook(self.look)

    def look(self, *_):
        from torch.distributed.tensor import DTensor

        whole = sum(p.numel() for p in self.model.parameters() if not isinstance(p, DTensor))
        self.most = max(self.most, whole)

    def share(self) -> float:
        return self.most / self.total


def test_uneven_shares_give_what_a_whole_model_gives_and_it_is_never_whole():
    for found in run_ranks(_answer_all, 3, list(SHARES.values()), ["layers and root"]):
        assert_in_step(found)


def test_however_it_was_put_in_shards():
    for found in run_ranks(_answer_all, 2, [[requests(4), [reading(3)]]], WAYS):
        assert_in_step(found)
    for ((same, _, _),) in run_ranks(_answer_all, 2, [[requests(4), []]], ["layers only"]):
        assert same  # torch takes each layer for a root of its own, and has it stay whole, as in training


def _answer_all(rank, shares, ways):
    return [answer_in_step(rank, share[rank], how) for share in shares for how in ways]


def assert_in_step(found):
    for same, share, kinds in found:
        assert same
        assert 0 < share < 0.7
        assert kinds == {"DTensor"}


# -- what fails ------------------------------------------------------------------------------------------------------


class Breaks:
    """Raises so often when a layer computes; in the middle of a pass, that is."""

    def __init__(self, error: Exception, times: int, skip: int):
        self.error, self.times, self.skip = error, times, skip

    def __call__(self, *_):
        self.skip -= 1
        if self.skip < 0 and self.times:
            self.times -= 1
            raise self.error


def break_in_step(rank, error, times, place):
    """Rank 1 breaks off in the middle of passes; then all train on. Losses, and how each rank's share ended."""
    model = in_shards()
    train = Training(model)
    train.step()
    engine = mf.engines.HF(model, TOKENIZER, tokens_per_batch=40)
    share = requests(6)
    if rank == 1:
        model.get_submodule(place).register_forward_pre_hook(Breaks(error, times, skip=3))
    try:
        with in_step(engine.modules(), engine.idle):
            ended = len(list(engine.run(share)))
    except type(error) as raised:
        ended = str(raised)
    train.step()
    with in_step(engine.modules(), engine.idle):
        again = len(list(engine.run(share)))
    train.step()
    return train.losses, ended, again


def _break_everywhere(rank, faults):
    return [break_in_step(rank, *fault, place) for fault in faults for place in PLACES]


PLACES = ["model.embed_tokens", "model.layers.1.mlp", "lm_head"]


class Training:
    def __init__(self, model):
        self.model, self.losses = model, []
        self.optimiser = torch.optim.AdamW(model.parameters(), 1e-2)

    def step(self):
        loss = self.model(input_ids=TOKENS, labels=TOKENS).loss
        loss.backward()
        self.optimiser.step()
        self.optimiser.zero_grad()
        self.losses.append(loss.item())


def calm(rank, how="layers and root"):
    train = Training(in_shards(how))
    for _ in range(3):
        train.step()
    return train.losses


@functools.cache
def losses_without(size: int) -> list[float]:
    return run_ranks(calm, size)[0]


def test_a_pass_that_breaks_off_holds_nobody_up_and_training_goes_on_to_the_bit():
    faults = [(RuntimeError("out of memory"), 3), (ValueError("a bug"), 1)]
    ends = [12] * len(PLACES) + ["a bug"] * len(PLACES)
    for rank, found in enumerate(run_ranks(_break_everywhere, 2, faults)):
        wanted = ends if rank == 1 else [12] * len(ends)
        assert found == [(losses_without(2), end, 12) for end in wanted]


class AtRandom:
    """Breaks off passes at random places, now and then."""

    def __init__(self, model, draw):
        self.draw, self.on, self.times = draw, False, 0
        for name, module in model.named_modules():
            if name.endswith(("mlp", "q_proj", "embed_tokens", "norm", "lm_head")):
                add = module.register_forward_pre_hook if draw.random() < 0.5 else module.register_forward_hook
                add(self)

    def __call__(self, *_):
        if self.on and self.draw.random() < 0.01:
            self.times += 1
            raise self.draw.choice([RuntimeError("out of memory"), ValueError("a bug")])


def break_at_random(rank, seed, how):
    draw = random.Random(f"{seed} {rank}")
    model = in_shards(how)
    train, faults = Training(model), AtRandom(model, draw)
    engine = mf.engines.HF(model, TOKENIZER, tokens_per_batch=40)
    for _ in range(2):
        train.step()
        with contextlib.suppress(ValueError), in_step(engine.modules(), engine.idle):
            faults.on = True
            try:
                list(engine.run(requests(draw.randrange(6))))
            finally:
                faults.on = seed % 2 == 1  # also while it joins the others
        faults.on = False
    train.step()
    return train.losses, faults.times


def test_passes_that_break_off_at_random_places_hold_nobody_up():
    ways = [*WAYS, "layers only", "layers and root"]
    found = run_ranks(_break_at_random, 3, ways)
    calm_losses = run_ranks(_calm_in_all, 3, ways)
    assert [[losses for losses, _ in rank] for rank in found] == calm_losses
    assert all(sum(times) > 0 for times in zip(*([times for _, times in rank] for rank in found), strict=True))


def _break_at_random(rank, ways):
    return [break_at_random(rank, seed, how) for seed, how in enumerate(ways)]


def _calm_in_all(rank, ways):
    return [calm(rank, how) for how in ways]


def evaluate(rank, fault, count, limit_s=None):
    """Reports and errors of one evaluation of a model in shards, in the middle of training, and the losses."""
    across_ranks.GRACE_S = 2.0
    model = in_shards()
    train = Training(model)
    train.step()
    engine = mf.engines.HF(model, TOKENIZER)
    if fault and rank == 1:
        inner, left = engine.run, [2]

        def run(share):
            for output in inner(share):
                left[0] -= 1
                if left[0] < 0:
                    fault()
                yield output

        engine.run = run
    config = mf.EvaluatorConfig(distributed=True, freq_steps=1, limit_s=limit_s)
    ev = mf.Evaluator(config, texts(count), engine, quiet=True)
    ev.start(step=1)
    reports = ev.step(2)
    if not fault or fault is fail:
        train.step()
    return [(r.status, dict(r.errors), r.weights, _values(r)) for r in reports], train.losses


def _values(report):
    return [
        (e.metric, e.value, e.stderr, dict(e.counts)) for e in report.estimates if not e.unit.startswith(("tok", "byt"))
    ]


def fail():
    raise ZeroDivisionError("on purpose")


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def texts(count: int) -> list[mf.Task]:
    rows = [{"text": "1" * (1 + i % 5) + "+2="} for i in range(count)]
    return [
        mf.Task("said", rows, prompt="{{ text }}", target="text", metrics=["exact_match"], sampling={"max_tokens": 4}),
        mf.Task("read", rows, kind="loglikelihood", text="{{ text }}", metrics=["perplexity"]),
    ]


@pytest.mark.parametrize("count", [1, 7])
def test_reports_are_those_of_one_process(count):
    """With one item three ranks have nothing to do; weights have the version of the whole model."""
    model = make_model()
    train = Training(model)
    train.step()
    engine = mf.engines.HF(model, TOKENIZER)
    wanted = [mf.evaluate_lm(engine, task) for task in texts(count)]
    (reports, losses), *others = run_ranks(evaluate, 4, None, count)
    train.step()
    assert losses == pytest.approx(train.losses, rel=1e-5)
    assert [others_reports for others_reports, _ in others] == [[]] * 3
    for (status, errors, _, values), report in zip(reports, wanted, strict=True):
        assert (status, errors) == ("done", {})
        for (name, value, _, counts), (wanted_name, wanted_value, _, wanted_counts) in zip(
            values, _values(report), strict=True
        ):
            assert (name, counts) == (wanted_name, wanted_counts)
            assert value == pytest.approx(wanted_value, rel=1e-4)  # training in shards sums gradients in another order


def test_the_version_of_the_weights_is_that_of_the_whole_model():
    assert run_ranks(_version, 3) == [mf.engines.HF(make_model(), TOKENIZER).weights()] * 3


def _version(rank):
    model = in_shards()
    with torch.no_grad():
        model(input_ids=TOKENS)  # leaves the root whole
    with put_together([model]):
        return mf.engines.HF(model, TOKENIZER).weights()


def test_a_rank_that_raises_costs_its_own_share():
    (reports, losses), *others = run_ranks(evaluate, 3, fail, 9)
    assert [status for status, *_ in reports] == ["partial", "partial"]
    for _, errors, _, values in reports:
        assert list(errors) == ["error: rank 1: ZeroDivisionError: on purpose"]
        counts = values[0][3]
        assert sum(counts.values()) == 9
        assert 1 <= counts["error"] <= 3
    assert [those for _, those in others] == [losses] * 2 == [losses_without(3)[:2]] * 2


def test_a_rank_that_dies_is_told_of_within_the_limit():
    """It takes training with it, since passes need all ranks; what was answered before is in the report."""
    found = run_ranks(evaluate, 3, die, 9, 5.0, group_limit_s=10)
    assert found[1] == "died"
    ((status, errors, _, values),) = found[0][0]  # the second task has no report: the ranks cannot speak any more
    assert status == "partial"
    assert any("rank 1: it did not answer in time" in reason for reason in errors)
    assert sum(values[0][3].values()) == 9


# -- beside training -------------------------------------------------------------------------------------------------


def train_beside(rank, busy):
    """Losses of a training whose weights are copied out of shards, what was measured, and what whole models give."""
    beside_training.WORD_S = 0.05
    model = in_shards("grouped")
    train, wanted = Training(model), []
    dispatcher = Process(max_waiting=0 if busy else 9)
    config = mf.EvaluatorConfig(async_mode=True, freq_steps=1, eval_before_train=True)
    ev = mf.Evaluator(config, texts(5), mf.engines.HF(model, TOKENIZER), dispatcher=dispatcher, quiet=True)
    if busy:
        dispatcher.pause()
    ev.start()
    for step in range(4):
        if step:
            train.step()
            ev.step(step)
        wanted.append(alone(model))
    dispatcher.resume()
    ev.finish()
    dist.barrier()
    return train.losses, sorted((r.progress.step, r.task, r.weights, _values(r)) for r in ev.reports), wanted


def alone(model):
    """What a whole model of the same weights gives."""
    put_in_shards([model])
    weights = {name: parameter.full_tensor() for name, parameter in model.named_parameters()}
    whole = make_model()
    whole.load_state_dict(weights)
    reports = [mf.evaluate_lm(mf.engines.HF(whole, TOKENIZER), task) for task in texts(5)]
    return sorted((r.task, r.weights, _values(r)) for r in reports)


@pytest.mark.parametrize("busy", [False, True])
def test_a_copy_is_put_together_for_evaluation_beside_training(busy):
    """Where there is room for one copy, the first weights have it; the last ones wait for it."""
    (losses, reports, wanted), (other_losses, none, _) = run_ranks(train_beside, 2, busy)
    assert losses == other_losses == losses_without(2)
    assert none == []
    steps = [0, 3] if busy else [0, 1, 2, 3]
    assert reports == [(step, *each) for step in steps for each in wanted[step]]


# -- what is refused -------------------------------------------------------------------------------------------------


def refuse(rank):
    model = in_shards()
    engine = mf.engines.HF(model, TOKENIZER)
    with pytest.raises(ConfigError, match="a model in shards needs all ranks; distributed=True"):
        mf.Evaluator(mf.EvaluatorConfig(freq_steps=1), texts(2), engine)
    with pytest.raises(ConfigError, match="several models in shards"), in_step([model, in_shards()], engine.idle):
        pass
    fake = mf.engines.Fake("1")
    with pytest.raises(CapabilityError, match="the fake engine cannot evaluate a model in shards"):
        fake.idle()
    assert is_sharded(model)
    dist.barrier()
    return True


def test_what_cannot_be_is_refused():
    assert run_ranks(refuse, 2) == [True, True]
