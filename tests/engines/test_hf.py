"""The in-process engine: equal to the model asked directly and to lm-evaluation-harness, whatever the batches."""

from __future__ import annotations

import math

import pytest
import torch

from conftest import tiny_llama
from midflight.engines import HF
from midflight.engines.hf import OUT_OF_MEMORY, unwrap
from midflight.errors import CapabilityError, ConfigError
from midflight.records import Request, Sampling

TEXTS = [
    ("The License", " is granted"),
    ("subject to the terms ", "and conditions"),
    ("You may reproduce and distribute copies of the\n", "Work"),
    ("", "Licensed under the Apache License"),
    ("   ", "x"),
    ("Work", " " * 3 + "y"),
    ("a", "bcd" * 20),
]


def score(engine: HF, pairs=TEXTS) -> list[float]:
    requests = [Request(f"{i}/0/0", str(i), "loglikelihood", c, t) for i, (c, t) in enumerate(pairs)]
    found = {o.request_id: o for o in engine.run(requests)}
    assert all(found[r.id].error is None for r in requests)
    return [found[r.id].logprob for r in requests]


def generate(engine: HF, prompts, seed: int = 0, **sampling):
    requests = [
        Request(f"{i}/0/0", str(i), "generate", p, sampling=Sampling(**sampling), seed=seed + i)
        for i, p in enumerate(prompts)
    ]
    found = {o.request_id: o for o in engine.run(requests)}
    return [found[r.id] for r in requests]


class TestLogLikelihood:
    def test_equals_the_model_asked_directly(self, tiny_model, word_tokenizer):
        engine = HF(tiny_model, word_tokenizer)
        for (context, text), found in zip(TEXTS[:3], score(engine)[:3], strict=True):
            bare = context.rstrip()
            whole = word_tokenizer.encode(context + text)
            start = len(word_tokenizer.encode(bare))
            logprobs = tiny_model(torch.tensor([whole])).logits[0].log_softmax(-1)
            wanted = sum(logprobs[i - 1, whole[i]].item() for i in range(start, len(whole)))
            assert found == pytest.approx(wanted, abs=1e-4)

    def test_equals_lm_evaluation_harness(self, tiny_model, word_tokenizer):
        from lm_eval.api.instance import Instance
        from lm_eval.models.huggingface import HFLM

        theirs = HFLM(pretrained=tiny_model, tokenizer=word_tokenizer, backend="causal", batch_size=3, max_length=128)
        instances = [Instance("loglikelihood", {}, pair, 0, metadata=("t", 0, 1)) for pair in TEXTS if pair[0].strip()]
        wanted = theirs.loglikelihood(instances, disable_tqdm=True)
        requests = [Request(f"{i}/0/0", str(i), "loglikelihood", *inst.args) for i, inst in enumerate(instances)]
        found = {o.request_id: o for o in HF(tiny_model, word_tokenizer).run(requests)}
        for request, (logprob, greedy) in zip(requests, wanted, strict=True):
            assert found[request.id].logprob == pytest.approx(logprob, abs=1e-4)
            assert found[request.id].greedy == greedy

    def test_long_texts_go_by_windows_as_in_lm_evaluation_harness(self, tiny_model, word_tokenizer):
        from lm_eval.api.instance import Instance
        from lm_eval.models.huggingface import HFLM

        words = "the terms and conditions of this License apply to the Work and to Derivative Works thereof "
        texts = [words * times for times in (1, 7, 23)] + ["x"]
        theirs = HFLM(pretrained=tiny_model, tokenizer=word_tokenizer, backend="causal", batch_size=2, max_length=128)
        instances = [Instance("loglikelihood_rolling", {}, (t,), 0, metadata=("t", 0, 1)) for t in texts]
        wanted = theirs.loglikelihood_rolling(instances, disable_tqdm=True)
        found = score(HF(tiny_model, word_tokenizer, max_length=128), [("", t) for t in texts])
        assert found == pytest.approx(wanted, rel=1e-5)

    @pytest.mark.parametrize("budget", [1, 40, 100_000])
    def test_batches_change_nothing(self, tiny_model, word_tokenizer, budget):
        alone = [score(HF(tiny_model, word_tokenizer), [pair])[0] for pair in TEXTS]
        assert score(HF(tiny_model, word_tokenizer, tokens_per_batch=budget)) == pytest.approx(alone, abs=1e-4)

    def test_the_head_is_applied_only_where_it_is_needed(self, tiny_model, word_tokenizer):
        seen = []
        tiny_model.lm_head.register_forward_hook(lambda module, args, output: seen.append(output.shape[1]))
        score(HF(tiny_model, word_tokenizer), [("the terms and conditions of " * 5, letter) for letter in "ABCD"])
        assert sum(seen) <= 4  # four letters behind one context: not its hundred positions

    def test_inputs_that_are_the_same_are_computed_once(self, tiny_model, word_tokenizer):
        rows = []
        tiny_model.lm_head.register_forward_hook(lambda module, args, output: rows.append(output.shape[0]))
        tokens = [word_tokenizer.decode([t]) for t in word_tokenizer.encode("ABCD")]
        score(HF(tiny_model, word_tokenizer), [("License", t) for t in tokens])
        assert sum(rows) == 1

    def test_a_model_without_logits_to_keep(self, word_tokenizer):
        class Old(type(tiny_llama(word_tokenizer))):
            def forward(self, input_ids=None, use_cache=None):
                return super().forward(input_ids=input_ids, use_cache=use_cache)

        model = tiny_llama(word_tokenizer)
        old = tiny_llama(word_tokenizer)
        old.__class__ = Old
        assert score(HF(old, word_tokenizer)) == pytest.approx(score(HF(model, word_tokenizer)), abs=1e-5)

    def test_nan_weights_give_nan_which_is_not_a_number_of_ours(self, tiny_model, word_tokenizer):
        tiny_model.lm_head.weight.data.fill_(float("nan"))
        assert all(math.isnan(value) for value in score(HF(tiny_model, word_tokenizer), TEXTS[:2]))

    def test_what_does_not_fit_is_said_item_by_item(self, tiny_model, word_tokenizer):
        engine = HF(tiny_model, word_tokenizer, max_length=16)
        long = Request("a/0/0", "a", "loglikelihood", "the License " * 20, " yes")
        short = Request("b/0/0", "b", "loglikelihood", "the", " yes")
        nothing = Request("c/0/0", "c", "loglikelihood", "the", "")
        found = {o.request_id: o for o in engine.run([long, short, nothing])}
        assert "exceed the context of 16" in found["a/0/0"].error
        assert found["b/0/0"].error is None
        assert found["c/0/0"].error == "the continuation has no tokens of its own"


class TestGenerate:
    prompts = ["The License", "Work", "a b c d e f g", "x"]

    def test_greedy_equals_the_model_asked_directly(self, tiny_model, word_tokenizer):
        for prompt, output in zip(
            self.prompts, generate(HF(tiny_model, word_tokenizer), self.prompts, max_tokens=12), strict=True
        ):
            tokens = torch.tensor([word_tokenizer.encode(prompt)])
            for _ in range(12):
                best = tiny_model(tokens).logits[0, -1].argmax().item()
                if best == word_tokenizer.eos_token_id:
                    break
                tokens = torch.cat([tokens, torch.tensor([[best]])], dim=1)
            new = tokens[0, len(word_tokenizer.encode(prompt)) :].tolist()
            assert output.text == word_tokenizer.decode(new, skip_special_tokens=True)

    @pytest.mark.parametrize("budget", [1, 60, 100_000])
    def test_a_sample_depends_on_its_seed_alone(self, tiny_model, word_tokenizer, budget):
        options = {"temperature": 1.0, "top_p": 0.9, "top_k": 50, "max_tokens": 10}
        alone = [
            generate(HF(tiny_model, word_tokenizer), [p], seed=i, **options)[0].text for i, p in enumerate(self.prompts)
        ]
        torch.manual_seed(budget)  # the global stream is not read
        together = generate(HF(tiny_model, word_tokenizer, tokens_per_batch=budget), self.prompts, **options)
        assert [o.text for o in together] == alone
        other = generate(HF(tiny_model, word_tokenizer), self.prompts, seed=100, **options)
        assert [o.text for o in other] != alone

    def test_samples_follow_the_distribution(self, tiny_model, word_tokenizer):
        """Pearson's chi-squared of 4,000 draws of one token against the model's own probabilities."""
        prompts = ["License"] * 4000
        options = {"temperature": 0.7, "top_k": 8, "max_tokens": 1}
        outputs = generate(HF(tiny_model, word_tokenizer, tokens_per_batch=10**6), prompts, **options)
        logits = tiny_model(torch.tensor([word_tokenizer.encode("License")])).logits[0, -1] / 0.7
        top = logits.topk(8)
        expected = {
            word_tokenizer.decode([t]): p * 4000
            for t, p in zip(top.indices.tolist(), top.values.softmax(0).tolist(), strict=True)
        }
        counted = {text: sum(o.text == text for o in outputs) for text in expected}
        assert sum(counted.values()) == 4000
        chi2 = sum((counted[text] - e) ** 2 / e for text, e in expected.items())
        assert chi2 < 24.3  # 99.9 % quantile, 7 degrees of freedom; the draws are fixed by their seeds

    def test_entropy_is_that_of_the_model_at_temperature_1(self, tiny_model, word_tokenizer):
        (output,) = generate(HF(tiny_model, word_tokenizer), ["License"], temperature=0.3, max_tokens=1)
        p = tiny_model(torch.tensor([word_tokenizer.encode("License")])).logits[0, -1].softmax(-1)
        assert output.entropy == pytest.approx(-(p * p.log()).sum().item(), abs=1e-4)

    def test_stop_texts_end_the_answer_and_are_not_part_of_it(self, tiny_model, word_tokenizer):
        engine = HF(tiny_model, word_tokenizer)
        free = generate(engine, self.prompts, max_tokens=30)
        stop = free[0].text[5:8]
        assert stop
        stopped = generate(engine, self.prompts, max_tokens=30, stop=(stop,))
        for before, after in zip(free, stopped, strict=True):
            cut = before.text.find(stop)
            assert after.text == (before.text if cut < 0 else before.text[:cut])
            assert cut < 0 or (after.finish == "stop" and after.num_tokens <= before.num_tokens)

    def test_an_answer_that_reaches_the_limit_was_cut(self, tiny_model, word_tokenizer):
        outputs = generate(HF(tiny_model, word_tokenizer), self.prompts, max_tokens=3)
        assert {(o.finish, o.num_tokens) for o in outputs} == {("length", 3)}
        tiny_model.lm_head.weight.data[word_tokenizer.eos_token_id] = 0
        tiny_model.lm_head.weight.data *= 0  # all tokens alike: the first one, <eos>, is taken
        outputs = generate(HF(tiny_model, word_tokenizer), self.prompts, max_tokens=3)
        assert {(o.finish, o.num_tokens, o.text) for o in outputs} == {("stop", 1, "")}

    def test_the_models_own_sampling_defaults_do_not_enter(self, tiny_model, word_tokenizer):
        wanted = [o.text for o in generate(HF(tiny_model, word_tokenizer), self.prompts, max_tokens=12)]
        own = tiny_model.generation_config
        own.repetition_penalty, own.no_repeat_ngram_size, own.min_new_tokens = 3.0, 1, 12
        assert [o.text for o in generate(HF(tiny_model, word_tokenizer), self.prompts, max_tokens=12)] == wanted
        assert tiny_model.generation_config is own
        assert own.repetition_penalty == 3.0

    def test_chat_prompts_go_through_the_template(self, tiny_model, word_tokenizer):
        word_tokenizer.chat_template = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}{% if add_generation_prompt %}[me]{% endif %}"
        try:
            engine = HF(tiny_model, word_tokenizer)
            assert engine.chat
            (chat,) = generate(engine, [({"role": "user", "content": "Hi"},)], max_tokens=5)
            (plain,) = generate(engine, ["[user]Hi[me]"], max_tokens=5)
            assert chat.text == plain.text
        finally:
            word_tokenizer.chat_template = None

    def test_a_prompt_longer_than_the_context_is_said_item_by_item(self, tiny_model, word_tokenizer):
        long, short = generate(HF(tiny_model, word_tokenizer, max_length=24), ["the License " * 20, "x"], max_tokens=5)
        assert "and 5 new ones exceed the context of 24" in long.error
        assert short.error is None

    def test_an_empty_prompt_begins_with_bos(self, tiny_model, word_tokenizer):
        (output,) = generate(HF(tiny_model, word_tokenizer), [""], max_tokens=3)
        assert (output.error, output.num_prompt_tokens) == (None, 1)


class TestReward:
    @pytest.fixture
    def reward_model(self, word_tokenizer):
        from transformers import LlamaConfig, LlamaForSequenceClassification

        torch.manual_seed(0)
        config = LlamaConfig(
            vocab_size=len(word_tokenizer),
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_labels=1,
            pad_token_id=word_tokenizer.pad_token_id,
            initializer_range=0.3,
        )
        return LlamaForSequenceClassification(config).eval()

    def ask(self, engine, texts):
        requests = [Request(f"{i}/0/0", str(i), "reward", t) for i, t in enumerate(texts)]
        found = {o.request_id: o for o in engine.run(requests)}
        return [found[r.id].reward for r in requests]

    @pytest.mark.parametrize("pad", [True, False], ids=["with padding token", "without"])
    def test_equals_the_model_asked_directly(self, reward_model, word_tokenizer, pad):
        if not pad:
            reward_model.config.pad_token_id = None
        texts = ["The License", "Work " * 20, "x", "You may reproduce"]
        wanted = [reward_model(torch.tensor([word_tokenizer.encode(t)])).logits.item() for t in texts]
        assert self.ask(HF(reward_model, word_tokenizer), texts) == pytest.approx(wanted, abs=1e-4)
        assert reward_model.config.pad_token_id == (word_tokenizer.pad_token_id if pad else None)

    def test_messages_without_a_template_are_lines(self, reward_model, word_tokenizer):
        messages = ({"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes"})
        engine = HF(reward_model, word_tokenizer)
        assert self.ask(engine, [messages]) == self.ask(engine, ["Hi\nYes"])

    def test_several_labels_are_no_reward(self, word_tokenizer):
        from transformers import LlamaConfig, LlamaForSequenceClassification

        model = LlamaForSequenceClassification(
            LlamaConfig(
                vocab_size=600,
                hidden_size=8,
                intermediate_size=8,
                num_hidden_layers=1,
                num_attention_heads=1,
                num_labels=3,
            )
        )
        with pytest.raises(CapabilityError, match="needs an engine that can answer 'reward'.*num_labels=1"):
            HF(model, word_tokenizer).require("reward", "t")

    def test_a_language_model_gives_no_rewards(self, tiny_model, word_tokenizer):
        with pytest.raises(CapabilityError, match="can answer: generate, loglikelihood"):
            list(HF(tiny_model, word_tokenizer).run([Request("a/0/0", "a", "reward", "x")]))


class TestOutOfMemory:
    """A model that runs out of memory above so many rows: its batches are halved, and every request is answered."""

    def limited(self, word_tokenizer, rows: int):
        model = tiny_llama(word_tokenizer)
        batches = []
        original = model.forward

        def forward(input_ids=None, **options):
            batches.append(input_ids.shape[0])
            if input_ids.shape[0] > rows:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB")
            return original(input_ids=input_ids, **options)

        model.forward = forward
        return model, batches

    def test_scoring_goes_on_with_smaller_batches(self, word_tokenizer):
        pairs = [(c, t + str(i)) for i in range(5) for c, t in TEXTS if c]
        wanted = score(HF(tiny_llama(word_tokenizer), word_tokenizer), pairs)
        model, batches = self.limited(word_tokenizer, 3)
        assert score(HF(model, word_tokenizer), pairs) == pytest.approx(wanted, abs=1e-4)
        assert max(batches) > 3

    def test_generating_goes_on_with_smaller_batches(self, word_tokenizer):
        prompts = [f"License {i}" for i in range(9)]
        options = {"temperature": 1.0, "max_tokens": 5}
        wanted = [o.text for o in generate(HF(tiny_llama(word_tokenizer), word_tokenizer), prompts, **options)]
        model, batches = self.limited(word_tokenizer, 2)
        assert [o.text for o in generate(HF(model, word_tokenizer), prompts, **options)] == wanted
        assert max(batches) > 2

    def test_one_that_does_not_fit_alone_is_an_error_of_its_own(self, word_tokenizer):
        model, _ = self.limited(word_tokenizer, 0)
        outputs = generate(HF(model, word_tokenizer), ["a", "b"], max_tokens=2)
        assert [o.error for o in outputs] == [OUT_OF_MEMORY] * 2
        request = Request("a/0/0", "a", "loglikelihood", "x", "y")
        assert [o.error for o in HF(model, word_tokenizer).run([request])] == [OUT_OF_MEMORY]

    def test_other_errors_are_not_swallowed(self, word_tokenizer):
        model = tiny_llama(word_tokenizer)
        model.forward = lambda **options: 1 / 0
        with pytest.raises(ZeroDivisionError):
            score(HF(model, word_tokenizer))


class TestModel:
    def test_weights_digest_changes_with_one_bit_and_not_with_the_place(self, word_tokenizer):
        model = tiny_llama(word_tokenizer)
        before = HF(model, word_tokenizer).weights()
        assert HF(tiny_llama(word_tokenizer), word_tokenizer).weights() == before
        weight = model.model.layers[1].mlp.up_proj.weight.data
        old = weight[3, 5].item()
        weight[3, 5] = torch.nextafter(weight[3, 5], torch.tensor(9.0))
        assert HF(model, word_tokenizer).weights() != before
        weight[3, 5] = old
        weight[[0, 1]] = weight[[1, 0]]  # the same numbers at other places
        assert HF(model, word_tokenizer).weights() != before

    def test_weights_digest_of_all_types_and_shapes(self):
        from midflight.engines._weights import weights_digest

        holder = torch.nn.Module()
        flat = torch.arange(37, dtype=torch.bfloat16)
        for name, tensor in {
            "scalar": torch.tensor(1.5),
            "empty": torch.empty(0),
            "bool": torch.tensor([True, False, True]),
            "odd": flat[1:8],
            "int": torch.arange(5),
            "strided": torch.randn(4, 6).t(),
        }.items():
            holder.register_buffer(name, tensor)
        digest = weights_digest(holder)
        holder.odd = holder.odd.clone()
        assert weights_digest(holder) == digest
        holder.bool = torch.tensor([True, True, False])
        assert weights_digest(holder) != digest

    def test_wrapped_models_are_unwrapped(self, tiny_model):
        assert unwrap(torch.nn.DataParallel(tiny_model)) is tiny_model
        assert unwrap(torch.compile(tiny_model)) is tiny_model

    def test_loading_a_folder(self, tiny_model, word_tokenizer, tmp_path):
        tiny_model.save_pretrained(tmp_path / "m")
        word_tokenizer.save_pretrained(tmp_path / "m")
        loaded = HF.load(tmp_path / "m")
        assert score(loaded) == pytest.approx(score(HF(tiny_model, word_tokenizer)), abs=1e-5)
        assert loaded.fingerprint()["dtype"] == "float32"
        assert HF.load(tmp_path / "m", dtype="bfloat16").fingerprint()["dtype"] == "bfloat16"

    def test_what_cannot_be_loaded(self, tiny_model, word_tokenizer, tmp_path):
        with pytest.raises(ConfigError, match="no model: no config.json in it"):
            HF.load(tmp_path)
        (tmp_path / "config.json").write_text("{}")
        with pytest.raises(ConfigError, match=r"no \*\.safetensors in it; pickled weights are not loaded"):
            HF.load(tmp_path)
        (tmp_path / "bad.gguf").write_bytes(b"GGUFgarbage")
        with pytest.raises(ConfigError, match=r"bad\.gguf: cannot be loaded as a model"):
            HF.load(tmp_path / "bad.gguf")
        tiny_model.save_pretrained(tmp_path / "m")
        word_tokenizer.save_pretrained(tmp_path / "m")
        with pytest.raises(ConfigError, match="dtype; got 'float3'"):
            HF.load(tmp_path / "m", dtype="float3")
        weights = tmp_path / "m" / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:-100])
        with pytest.raises(ConfigError, match="cannot be loaded as a model"):
            HF.load(tmp_path / "m")

    def test_what_cannot_be_an_engine(self, tiny_model, word_tokenizer):
        with pytest.raises(ConfigError, match="not a transformers model"):
            HF(torch.nn.Linear(1, 1), word_tokenizer)
        with pytest.raises(ConfigError, match="not a tokenizer; got None"):
            HF(tiny_model, None)
        with pytest.raises(ConfigError, match="tokens_per_batch; got 0"):
            HF(tiny_model, word_tokenizer, tokens_per_batch=0)
