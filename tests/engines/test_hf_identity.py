"""What tells models apart: the digest of their weights, and the fingerprint of what surrounds them."""

from __future__ import annotations

import copy
import hashlib

import pytest
import torch
from tokenizers.normalizers import Lowercase

from midflight.engines import HF
from midflight.engines._weights import weights_digest


class TestDigest:
    def test_is_splitmix64_of_words_and_places(self):
        """Against SplitMix64 in Python's own integers, with arithmetic shifts as torch has them."""

        def signed(value: int) -> int:
            return (value + 2**63) % 2**64 - 2**63

        def mix(word: int, place: int) -> int:
            z = signed(word + place * 0x9E3779B97F4A7C15)
            z = signed((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9)
            z = signed((z ^ (z >> 27)) * 0x94D049BB133111EB)
            return z ^ (z >> 31)

        numbers = [3, -5, 2**62, 0, 7]
        module = torch.nn.Module()
        module.register_buffer("x", torch.tensor(numbers))
        total = signed(sum(mix(n, 9 + i) for i, n in enumerate(numbers)))
        line = f"x\t(5,)\ttorch.int64\t{total}\n"
        assert weights_digest(module) == hashlib.sha256(line.encode()).hexdigest()[:16]

    @pytest.mark.parametrize(
        "change",
        [(1, -1, 0, 0), (1, -2, 1, 0), (1, -1, -1, 1), (2**62, 2**62, 2**62, 2**62), (-(2**63), 0, -(2**63), 0)],
    )
    def test_changes_that_balance_do_not_cancel_out(self, change):
        module = torch.nn.Module()
        module.register_buffer("x", torch.zeros(4, dtype=torch.int64))
        before = weights_digest(module)
        module.x += torch.tensor(change)
        assert weights_digest(module) != before

    def test_any_two_words_exchanged(self):
        module = torch.nn.Module()
        module.register_buffer("x", torch.arange(300_000))  # more than one chunk
        seen = {weights_digest(module)}
        for a, b in [(0, 1), (0, 2), (5, 131_077), (131_071, 131_072), (262_143, 299_999)]:
            module.x[[a, b]] = module.x[[b, a]]
            seen.add(weights_digest(module))
        assert len(seen) == 6

    def test_extra_state_is_no_weight(self):
        class Quantised(torch.nn.Linear):
            def get_extra_state(self):
                return {"step": 3}

        module, plain = Quantised(2, 2), torch.nn.Linear(2, 2)
        plain.load_state_dict({k: v for k, v in module.state_dict().items() if k != "_extra_state"})
        assert weights_digest(module) == weights_digest(plain)


class TestFingerprint:
    def test_holds_the_tokenizer_and_the_template(self, tiny_model, word_tokenizer):
        def parts(tokenizer):
            found = HF(tiny_model, tokenizer).fingerprint()
            return found["tokenizer"], found["template"]

        before = parts(word_tokenizer)
        assert before[1] is None
        used = copy.deepcopy(word_tokenizer)
        used(["a", "b c d"], padding=True, truncation=True, max_length=2)
        assert parts(used) == before  # padding and truncation are of the call
        larger, chatty, spaced, special = (copy.deepcopy(word_tokenizer) for _ in range(4))
        larger.add_tokens(["<new>"])
        chatty.chat_template = "{{ messages }}"
        spaced.backend_tokenizer.normalizer = Lowercase()
        special.bos_token = "<eos>"
        assert len({before[0], parts(larger)[0], parts(spaced)[0], parts(special)[0]}) == 4
        assert parts(chatty)[0] == before[0]
        other = copy.deepcopy(chatty)
        other.chat_template = "{{ messages }}!"
        assert len({before[1], parts(chatty)[1], parts(other)[1]}) == 3

    def test_a_tokenizer_without_a_rust_side(self, tiny_model):
        class Slow:
            bos_token_id, eos_token_id, chat_template = 1, 0, None

            def __init__(self, words):
                self.words = words

            def encode(self, text, **options):
                return [0]

            def decode(self, tokens, **options):
                return ""

            def get_vocab(self):
                return {w: i for i, w in enumerate(self.words)}

        found = [HF(tiny_model, Slow(words)).fingerprint()["tokenizer"] for words in ("ab", "ab", "ba")]
        assert found[0] == found[1] != found[2]
