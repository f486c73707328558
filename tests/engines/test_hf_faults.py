"""The in-process engine under attack: odd tokenizers, odd models, broken numbers; one item's fault stays one item's."""

from __future__ import annotations

import copy
from types import SimpleNamespace

import pytest
import torch
from test_hf import generate, score
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from conftest import tiny_llama
from midflight.engines import HF
from midflight.engines._hf_mode import evaluating
from midflight.engines._hf_text import context_length
from midflight.records import Request, Sampling


def ask(engine: HF, *requests: Request):
    found = {o.request_id: o for o in engine.run(requests)}
    assert set(found) == {r.id for r in requests}
    return [found[r.id] for r in requests]


def request(name: str, kind: str, prompt, continuation: str = "") -> Request:
    sampling = Sampling(max_tokens=3) if kind == "generate" else None
    return Request(f"{name}/0/0", name, kind, prompt, continuation, sampling)


@pytest.fixture
def reward_model(word_tokenizer):
    from transformers import LlamaConfig, LlamaForSequenceClassification

    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    return LlamaForSequenceClassification(
        LlamaConfig(vocab_size=len(word_tokenizer), num_labels=1, pad_token_id=2, **sizes)
    ).eval()


class TestTokenizer:
    class Failing:
        """A tokenizer that cannot read one text and cannot write one token."""

        def __init__(self, tokenizer, unwritable=None):
            self._tokenizer, self._unwritable = tokenizer, unwritable

        def __getattr__(self, name):
            return getattr(self._tokenizer, name)

        def encode(self, text, **options):
            if "boom" in text:
                raise UnicodeEncodeError("utf-8", text, 0, 1, "surrogates not allowed")
            return self._tokenizer.encode(text, **options)

        def decode(self, tokens, **options):
            if self._unwritable in tokens:
                raise OverflowError("out of range")
            return self._tokenizer.decode(tokens, **options)

    @pytest.mark.parametrize("kind", ["loglikelihood", "generate", "reward"])
    def test_its_errors_are_those_of_the_item(self, tiny_model, reward_model, word_tokenizer, kind):
        engine = HF(reward_model if kind == "reward" else tiny_model, self.Failing(word_tokenizer))
        bad, good = ask(engine, request("a", kind, "boom", " x"), request("b", kind, "Work", " x"))
        assert "the tokenizer fails on it: UnicodeEncodeError" in bad.error
        assert good.error is None

    def test_a_chat_template_that_refuses_a_conversation(self, tiny_model, word_tokenizer):
        tokenizer = copy.deepcopy(word_tokenizer)
        tokenizer.chat_template = "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}x"
        turns = [({"role": role, "content": "Hi"},) for role in ("system", "user")]
        bad, good = ask(HF(tiny_model, tokenizer), *(request(str(i), "generate", t) for i, t in enumerate(turns)))
        assert "no system" in bad.error
        assert good.error is None

    def test_an_answer_that_cannot_be_decoded(self, tiny_model, word_tokenizer):
        script(tiny_model, [[40, 41], [42, 43]])
        engine = HF(tiny_model, self.Failing(word_tokenizer, unwritable=43))
        good, bad = generate(engine, ["aa", "a"], max_tokens=2)
        assert (good.error, bad.error) == (
            None,
            "the answer's tokens cannot be decoded: OverflowError: out of range",
        )

    def test_without_bos_and_eos_an_empty_context_is_an_error_of_its_own(self, tiny_model, word_tokenizer):
        bare = PreTrainedTokenizerFast(tokenizer_object=word_tokenizer.backend_tokenizer)
        assert (bare.bos_token_id, bare.eos_token_id) == (None, None)
        outputs = ask(
            HF(tiny_model, bare),
            request("a", "loglikelihood", "", "Work"),
            request("b", "loglikelihood", "  ", "Work"),
            request("c", "generate", ""),
            request("d", "loglikelihood", "The", " Work"),
            request("e", "generate", "The"),
        )
        assert [o.error and o.error.split(",")[0] for o in outputs] == ["the context is empty"] * 3 + [None] * 2

    def test_a_token_that_the_model_does_not_have(self, tiny_model, reward_model, word_tokenizer):
        larger = copy.deepcopy(word_tokenizer)
        larger.add_tokens(["<new>"])
        bad, good = ask(
            HF(tiny_model, larger), request("a", "generate", "a <new> one"), request("b", "generate", "one")
        )
        assert f"token {len(word_tokenizer)} is not one of the model's {len(word_tokenizer)}" in bad.error
        assert good.error is None
        for prompt, continuation in (("", "<new>"), ("x", "<new>")):
            (output,) = ask(HF(tiny_model, larger), request("a", "loglikelihood", prompt, continuation))
            assert "is not one of the model's" in output.error
        (output,) = ask(HF(reward_model, larger), request("a", "reward", "<new>"))
        assert "is not one of the model's" in output.error

    def test_an_eos_that_it_appends_ends_no_prompt_and_no_context(self, tiny_model, word_tokenizer):
        closing = PreTrainedTokenizerFast(
            tokenizer_object=copy.deepcopy(word_tokenizer.backend_tokenizer), eos_token="<eos>", bos_token="<bos>"
        )
        closing.backend_tokenizer.post_processor = TemplateProcessing(
            single="<bos> $A <eos>", special_tokens=[("<bos>", 1), ("<eos>", 0)]
        )
        opening = copy.deepcopy(closing)
        opening.backend_tokenizer.post_processor = TemplateProcessing(single="<bos> $A", special_tokens=[("<bos>", 1)])
        assert closing.encode("Work")[-1] == 0
        prompts = ["The License", "Work<eos>", "<bos>Work"]
        wanted = generate(HF(tiny_model, opening), prompts, max_tokens=8)
        found = generate(HF(tiny_model, closing), prompts, max_tokens=8)
        assert [(o.text, o.num_prompt_tokens) for o in found] == [(o.text, o.num_prompt_tokens) for o in wanted]
        pairs = [("The License", " is granted"), ("", "the Work"), ("a ", "b")]
        assert score(HF(tiny_model, closing), pairs) == score(HF(tiny_model, opening), pairs)
        assert HF(tiny_model, closing).encoder.conversation("Work")[-1] == 0  # a whole text keeps it


class TestContextLength:
    @pytest.fixture
    def roberta(self):
        from transformers import RobertaConfig, RobertaForSequenceClassification

        sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
        config = RobertaConfig(vocab_size=600, max_position_embeddings=20, pad_token_id=1, num_labels=1, **sizes)
        return RobertaForSequenceClassification(config).eval()

    def test_roberta_loses_the_positions_up_to_its_padding_token(self, roberta, word_tokenizer):
        engine = HF(roberta, word_tokenizer)
        assert engine.max_length == 18
        fits, longer = ask(engine, request("a", "reward", "7 " * 9), request("b", "reward", "7 " * 9 + "7"))
        assert (fits.num_prompt_tokens, fits.error) == (18, None)
        assert longer.error == "conversation of 19 tokens exceed the context of 18"

    def test_others_lose_none(self, tiny_model, word_tokenizer):
        assert context_length(tiny_model, word_tokenizer) == 128

    @pytest.mark.parametrize(("said", "length"), [(64, 64), (4096, 128), (int(1e30), 128), (0, 128), (None, 128)])
    def test_the_tokenizer_may_say_less(self, tiny_model, said, length):
        assert context_length(tiny_model, SimpleNamespace(model_max_length=said)) == length

    def test_nobody_says(self):
        model = torch.nn.Module()
        model.config = SimpleNamespace()
        assert context_length(model, SimpleNamespace()) == 2048
        assert context_length(model, SimpleNamespace(model_max_length=77)) == 77


def script(model, rows: list[list[int]], spoil=None) -> list[int]:
    """Has a model say these tokens, one list a row of its batch; the steps that it took are counted in the result."""
    steps: list[int] = []

    def say(module, arguments, output):
        forced = torch.full_like(output, -20.0)
        for row, tokens in enumerate(rows[: len(output)]):
            forced[row, -1, tokens[min(len(steps), len(tokens) - 1)]] = 20.0
        if spoil is not None:
            spoil(len(steps), forced[:, -1])
        steps.append(1)
        return forced

    model.lm_head.register_forward_hook(say)
    return steps


class TestStopTexts:
    def test_the_prompt_does_not_count(self, tiny_model, word_tokenizer):
        """A stop text that ends the prompt, or reaches from it into the answer."""
        (free,) = generate(HF(tiny_model, word_tokenizer), ["The Work"], max_tokens=8)
        for stop in ("Work", "k" + free.text[:1]):
            assert stop not in free.text
            (output,) = generate(HF(tiny_model, word_tokenizer), ["The Work"], max_tokens=8, stop=(stop,))
            assert (output.text, output.num_tokens, output.finish) == (free.text, 8, "length")

    def test_special_tokens_stop_and_are_no_text(self, tiny_model, word_tokenizer):
        a, b = word_tokenizer.encode("ab")[0], word_tokenizer.encode("Z")[0]
        bos = word_tokenizer.bos_token_id
        before = word_tokenizer.decode([a, b])
        steps = script(tiny_model, [[a, b, bos, a, a, a]])
        (output,) = generate(HF(tiny_model, word_tokenizer), ["x"], max_tokens=6, stop=("<bos>",))
        assert (output.text, output.num_tokens, output.finish, len(steps)) == (before, 3, "stop", 3)

    def test_a_stop_text_of_text_and_a_special_token(self, tiny_model, word_tokenizer):
        a, b = word_tokenizer.encode("ab")[0], word_tokenizer.encode("Z")[0]
        script(tiny_model, [[2, a, b, 1, a, a]])
        (output,) = generate(HF(tiny_model, word_tokenizer), ["x"], max_tokens=6, stop=("Z<bos>",))
        assert (output.text, output.num_tokens) == (word_tokenizer.decode([a]), 4)

    def test_a_row_that_stopped_early_while_others_went_on(self, tiny_model, word_tokenizer):
        a, b = word_tokenizer.encode("a")[0], word_tokenizer.encode("Z")[0]
        steps = script(tiny_model, [[a, b, a, a, a], [a, a, a, a, b]])
        outputs = generate(HF(tiny_model, word_tokenizer), ["xx", "x"], max_tokens=9, stop=("Z",))
        assert [(o.text, o.num_tokens) for o in outputs] == [("a", 2), ("aaaa", 5)]
        assert len(steps) == 5


class TestBrokenLogits:
    @pytest.mark.parametrize("temperature", [0.0, 1.0])
    @pytest.mark.parametrize("value", [float("nan"), float("inf")])
    def test_are_an_error_of_their_row(self, tiny_model, word_tokenizer, value, temperature):
        def spoil(step, logits_BV):
            if step == 1:
                logits_BV[1, 5] = value

        script(tiny_model, [[40, 41, 42], [40, 41, 42]], spoil)
        options = {"max_tokens": 3, "temperature": temperature}
        good, bad = generate(HF(tiny_model, word_tokenizer), ["xx", "x"], **options)
        assert (good.error, good.num_tokens) == (None, 3)
        assert bad.error == "the model's logits are NaN or infinite at new token 2"

    def test_tokens_that_are_ruled_out_are_not_broken(self, tiny_model, word_tokenizer):
        """Two tokens of the same logit, all others -inf: the entropy is ln 2."""

        def spoil(step, logits_BV):
            logits_BV.fill_(-float("inf"))
            logits_BV[:, [40, 41]] = 3.0

        script(tiny_model, [[40]], spoil)
        (output,) = generate(HF(tiny_model, word_tokenizer), ["x"], max_tokens=2)
        assert (output.error, output.entropy) == (None, pytest.approx(0.693147, abs=1e-5))

    def test_what_comes_after_the_end_is_nobodys(self, tiny_model, word_tokenizer):
        def spoil(step, logits_BV):
            if step > 0:
                logits_BV[0] = float("nan")

        script(tiny_model, [[word_tokenizer.eos_token_id], [40, 41, 42]], spoil)
        ended, other = generate(HF(tiny_model, word_tokenizer), ["xx", "x"], max_tokens=3)
        assert (ended.error, ended.finish, other.error) == (None, "stop", None)


class PromptTuned(torch.nn.Module):
    """As PEFT's prompt tuning: embeddings of its own before those of the input, so that there are more logits."""

    def __init__(self, base, num_virtual: int) -> None:
        super().__init__()
        self.base = base
        self.prompt = torch.nn.Parameter(torch.randn(num_virtual, base.config.hidden_size))
        self.peft_config = {"default": SimpleNamespace(num_virtual_tokens=num_virtual)}
        self.config, self.device, self.dtype, self.generation_config = base.config, base.device, base.dtype, None
        self.can_generate, self.get_input_embeddings = base.can_generate, base.get_input_embeddings

    def forward(self, input_ids, **options):
        embedded = self.get_input_embeddings()(input_ids)
        prompt = self.prompt[None].expand(len(input_ids), -1, -1)
        return self.base(inputs_embeds=torch.cat([prompt, embedded], dim=1), **options)


def test_virtual_tokens_shift_the_logits(tiny_model, word_tokenizer):
    model = PromptTuned(tiny_model, 3)
    engine = HF(model, word_tokenizer)
    assert engine.max_length == 125
    pairs = [("The License", " is granted"), ("Work", " x")]
    for (context, text), found in zip(pairs, score(engine, pairs), strict=True):
        whole = word_tokenizer.encode(context + text)
        start = len(word_tokenizer.encode(context))
        logprobs = model(torch.tensor([whole])).logits[0].log_softmax(-1)
        wanted = sum(logprobs[3 + i - 1, whole[i]].item() for i in range(start, len(whole)))
        assert found == pytest.approx(wanted, abs=1e-4)


class TestEvaluating:
    @pytest.mark.parametrize("raises", [False, True])
    def test_modes_and_configs_come_back_exactly(self, word_tokenizer, raises):
        class Frozen(type(tiny_llama(word_tokenizer))):
            def train(self, mode=True):
                raise AssertionError("train() has side effects, and is not ours to call")

        model = tiny_llama(word_tokenizer)
        model.train()
        model.model.layers[0].eval()
        model.__class__ = Frozen
        config = model.config
        config.output_router_logits, config.output_hidden_states, config.use_cache = True, True, False
        del vars(config)["return_dict"]
        modes, content = [m.training for m in model.modules()], dict(vars(config))
        try:
            with evaluating(model):
                assert not any(m.training for m in model.modules())
                assert not torch.is_grad_enabled()
                assert (config.output_router_logits, config.output_hidden_states, config.output_attentions) == (
                    False,
                    False,
                    False,
                )
                assert (config.use_cache, config.return_dict) == (True, True)
                if raises:
                    raise KeyError
        except KeyError:
            assert raises
        assert [m.training for m in model.modules()] == modes
        assert vars(config) == content
        assert torch.is_grad_enabled()

    def test_an_adapters_model_gets_its_generation_config_back(self, tiny_model, word_tokenizer):
        """PEFT hands the outer model's generation config to the inner one, at every call of `generate`."""

        class Adapter(torch.nn.Module):
            def __init__(self, base):
                super().__init__()
                self.base = base

            def __getattr__(self, name):
                try:
                    return super().__getattr__(name)
                except AttributeError:
                    return getattr(self.base, name)

            def generate(self, **options):
                self.base.generation_config = self.generation_config
                return self.base.generate(**options)

        own = tiny_model.generation_config
        own.repetition_penalty = 3.0
        wanted = [o.text for o in generate(HF(tiny_model, word_tokenizer), ["The Work"], max_tokens=6)]
        adapter = Adapter(tiny_model)
        assert [o.text for o in generate(HF(adapter, word_tokenizer), ["The Work"], max_tokens=6)] == wanted
        assert tiny_model.generation_config is own
        assert "generation_config" not in vars(adapter)
