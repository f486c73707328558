"""Texts to tokens, exactly as lm-evaluation-harness does it, so that log-likelihoods are equal to the digit."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from midflight.errors import EngineError
from midflight.records import Message, Prompt, Request


@dataclass(frozen=True, slots=True)
class Row:
    """One sequence for the model: a request, or a window of a long one.

    Attributes:
        request: The request that it answers.
        tokens: Input tokens.
        targets: Tokens to be predicted by the last `len(targets)` positions.
    """

    request: Request
    tokens: tuple[int, ...]
    targets: tuple[int, ...] = ()


class Encoder:
    """A tokenizer with the rules for contexts, continuations, windows and conversations.

    Args:
        tokenizer: A Hugging Face tokenizer.
        max_length: Tokens that fit into the model's context.
        chat: Whether messages can be rendered.
        num_embeddings: Tokens that the model knows; None = as many as there are.
    """

    def __init__(self, tokenizer: Any, max_length: int, chat: bool, num_embeddings: int | None = None) -> None:
        self.tokenizer, self.max_length, self.chat, self.num_embeddings = tokenizer, max_length, chat, num_embeddings
        self.prefix = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else tokenizer.eos_token_id
        self._bos = tokenizer.decode([self.prefix]) if self.prefix is not None else None

    def encode(self, text: str, special: bool | None = None) -> list[int]:
        """Tokens of a text that goes on; special tokens are added as the tokenizer does, but none behind the text.

        Args:
            text: The text.
            special: Whether special tokens are added; None = unless the text begins with one.
        """
        if special is None and self._bos and text.startswith(self._bos):
            special = False
        if special is not None:
            return list(self.tokenizer.encode(text, add_special_tokens=special))
        tokens = list(self.tokenizer.encode(text))
        ending = self._ending
        return tokens[: -len(ending)] if ending and tokens[-len(ending) :] == ending else tokens

    @cached_property
    def _ending(self) -> list[int]:
        """Special tokens that the tokenizer adds behind a text (EOS, with `add_eos_token`)."""
        bare = list(self.tokenizer.encode("a", add_special_tokens=False))
        whole = list(self.tokenizer.encode("a"))
        starts = (i for i in range(len(whole) - len(bare) + 1) if bare and whole[i : i + len(bare)] == bare)
        start = next(starts, None)
        return [] if start is None else whole[start + len(bare) :]

    def render(self, messages: Sequence[Message], answer_next: bool) -> str:
        """A conversation as the chat template writes it; without a template, one message a line.

        Args:
            messages: The conversation.
            answer_next: Whether it ends where the model is to answer.
        """
        if not self.chat:
            return "\n".join(message["content"] for message in messages) + ("\n" if answer_next else "")
        text = self.tokenizer.apply_chat_template(
            [dict(message) for message in messages], tokenize=False, add_generation_prompt=answer_next
        )
        return str(text)

    def prompt(self, prompt: Prompt, max_tokens: int) -> list[int]:
        """Tokens of a prompt to be continued.

        Raises:
            EngineError: If prompt and new tokens exceed the context.
        """
        tokens = self._prompt_tokens(prompt) or self._start()
        self._known(tokens)
        self._fits(len(tokens) + max_tokens, f"prompt of {len(tokens)} tokens and {max_tokens} new ones")
        return tokens

    def _prompt_tokens(self, prompt: Prompt) -> list[int]:
        if isinstance(prompt, str):
            return self.encode(prompt)
        text = self.render(prompt, answer_next=True)
        return self.encode(text, special=False) if self.chat else self.encode(text)

    def conversation(self, prompt: Prompt) -> list[int]:
        """Tokens of a whole conversation, for a reward model.

        Raises:
            EngineError: If it exceeds the context.
        """
        rendered = not isinstance(prompt, str)
        text = prompt if isinstance(prompt, str) else self.render(prompt, answer_next=False)
        # what the tokenizer adds behind a whole text (RoBERTa's </s>) belongs to it, as in training
        bare = (rendered and self.chat) or bool(self._bos and text.startswith(self._bos))
        tokens = list(self.tokenizer.encode(text, add_special_tokens=not bare))
        if not tokens:
            raise EngineError("the conversation has no tokens")
        self._known(tokens)
        self._fits(len(tokens), f"conversation of {len(tokens)} tokens")
        return tokens

    def rows(self, request: Request) -> list[Row]:
        """What the model has to see to score a `loglikelihood` request: windows if there is no context.

        Raises:
            EngineError: If context and continuation exceed the model's context.
        """
        if request.prompt:
            return [self._pair(request)]
        tokens = self.encode(request.continuation)
        if not tokens:
            raise EngineError("the text has no tokens")
        self._known(tokens)
        return self._windows(request, tokens)

    def _pair(self, request: Request) -> Row:
        """Context and continuation, encoded as one text; white space between them belongs to the continuation."""
        rendered = not isinstance(request.prompt, str)
        context = self.render(request.prompt, True) if not isinstance(request.prompt, str) else request.prompt
        special = False if rendered and self.chat else None
        bare = context.rstrip()
        continuation = context[len(bare) :] + request.continuation
        # the context keeps its own tokens even where the first token of the continuation would reach into it
        head = self.encode(bare, special) if bare else self._start()
        start = len(head)
        whole = head + (self.encode(bare + continuation, special)[start:] if bare else self.encode(continuation, False))
        if start >= len(whole):
            raise EngineError("the continuation has no tokens of its own")
        self._known(whole)
        self._fits(len(whole) - 1, f"context and continuation of {len(whole)} tokens")
        return Row(request, tuple(whole[:-1]), tuple(whole[start:]))

    def _windows(self, request: Request, tokens: list[int]) -> list[Row]:
        """Disjoint windows of predicted tokens; the first follows the BOS (or EOS) token, the last sees all it can."""
        size = self.max_length
        first = tokens[:size]
        rows = [Row(request, (*self._start(), *first[:-1]), tuple(first))]
        for start in range(size, len(tokens), size):
            end = min(start + size, len(tokens))
            rows.append(Row(request, tuple(tokens[max(0, end - size - 1) : end - 1]), tuple(tokens[start:end])))
        return rows

    def _start(self) -> list[int]:
        """What stands before a text that follows nothing."""
        if self.prefix is None:
            raise EngineError(
                "the context is empty, and the tokenizer has neither a BOS nor an EOS token to begin with"
            )
        return [self.prefix]

    def _known(self, tokens: Sequence[int]) -> None:
        if self.num_embeddings is not None and max(tokens) >= self.num_embeddings:
            raise EngineError(
                f"token {max(tokens)} is not one of the model's {self.num_embeddings}: is this its own tokenizer?"
            )

    def _fits(self, length: int, what: str) -> None:
        if length > self.max_length:
            raise EngineError(f"{what} exceed the context of {self.max_length}")


def context_length(model: Any, tokenizer: Any) -> int:
    """Tokens that fit into a model's context, by its config and its tokenizer; 2,048 where neither says."""
    config = model.config.get_text_config() if hasattr(model.config, "get_text_config") else model.config
    limits = [getattr(config, name, None) for name in _LENGTH_NAMES]
    found = next((limit for limit in limits if isinstance(limit, int) and limit > 0), None)
    if found is not None:
        found -= _reserved_positions(model)
    said = getattr(tokenizer, "model_max_length", None)
    if isinstance(said, int) and 0 < said < 10**9:  # transformers writes 10³⁰ for "not known"
        found = said if found is None else min(found, said)
    return found or 2048


_LENGTH_NAMES = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length")


def _reserved_positions(model: Any) -> int:
    """Positions that no token of a text gets.

    Prompt tuning puts its virtual tokens first; RoBERTa and its kin count from behind the padding token's index.
    """
    adapters = getattr(model, "peft_config", None)
    virtual = (
        [getattr(a, "num_virtual_tokens", 0) or 0 for a in adapters.values()] if isinstance(adapters, dict) else []
    )
    paddings = (getattr(getattr(m, "position_embeddings", None), "padding_idx", None) for m in model.modules())
    padding = next((index for index in paddings if isinstance(index, int)), -1)
    return max(virtual, default=0) + padding + 1


def tokenizer_digest(tokenizer: Any) -> str:
    """SHA-256 of all that decides how text becomes tokens, as 16 hex digits.

    Padding and truncation stay out: every call with such an option rewrites them.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        text = backend.to_str()
        content: Any = text[max(0, text.find('"added_tokens"')) :]  # the two stand before it; to parse takes 0.3 s
    else:
        content = [type(tokenizer).__name__, sorted(tokenizer.get_vocab().items())]
    special = getattr(tokenizer, "special_tokens_map", None)
    return digest([content, special])


def digest(content: Any) -> str:
    """SHA-256 of plain content, as 16 hex digits."""
    text = json.dumps(content, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
