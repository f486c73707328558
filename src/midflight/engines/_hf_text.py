"""Texts to tokens, exactly as lm-evaluation-harness does it, so that log-likelihoods are equal to the digit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
    """

    def __init__(self, tokenizer: Any, max_length: int, chat: bool) -> None:
        self.tokenizer, self.max_length, self.chat = tokenizer, max_length, chat
        self.prefix = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else tokenizer.eos_token_id
        self._bos = tokenizer.decode([self.prefix]) if self.prefix is not None else None

    def encode(self, text: str, special: bool | None = None) -> list[int]:
        """Tokens of a text; special tokens are added as the tokenizer does, unless the text begins with one."""
        if special is None and self._bos and text.startswith(self._bos):
            special = False
        options = {} if special is None else {"add_special_tokens": special}
        return list(self.tokenizer.encode(text, **options))

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
        tokens = self._prompt_tokens(prompt) or ([self.prefix] if self.prefix is not None else [])
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
        if isinstance(prompt, str):
            tokens = self.encode(prompt)
        else:
            tokens = self.encode(self.render(prompt, answer_next=False), special=False if self.chat else None)
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
        return self._windows(request, tokens)

    def _pair(self, request: Request) -> Row:
        """Context and continuation, encoded as one text; white space between them belongs to the continuation."""
        rendered = not isinstance(request.prompt, str)
        context = self.render(request.prompt, True) if not isinstance(request.prompt, str) else request.prompt
        special = False if rendered and self.chat else None
        bare = context.rstrip()
        continuation = context[len(bare) :] + request.continuation
        # the context keeps its own tokens even where the first token of the continuation would reach into it
        head = self.encode(bare, special) if bare else [self.prefix]
        start = len(head)
        whole = head + (self.encode(bare + continuation, special)[start:] if bare else self.encode(continuation, False))
        if start >= len(whole):
            raise EngineError("the continuation has no tokens of its own")
        self._fits(len(whole) - 1, f"context and continuation of {len(whole)} tokens")
        return Row(request, tuple(whole[:-1]), tuple(whole[start:]))

    def _windows(self, request: Request, tokens: list[int]) -> list[Row]:
        """Disjoint windows of predicted tokens; the first follows the BOS (or EOS) token, the last sees all it can."""
        size = self.max_length
        first = tokens[:size]
        rows = [Row(request, (self.prefix, *first[:-1]), tuple(first))]
        for start in range(size, len(tokens), size):
            end = min(start + size, len(tokens))
            rows.append(Row(request, tuple(tokens[max(0, end - size - 1) : end - 1]), tuple(tokens[start:end])))
        return rows

    def _fits(self, length: int, what: str) -> None:
        if length > self.max_length:
            raise EngineError(f"{what} exceed the context of {self.max_length}")


def context_length(model: Any, tokenizer: Any) -> int:
    """Tokens that fit into a model's context, from its config or its tokenizer; 2,048 where neither says."""
    config = model.config.get_text_config() if hasattr(model.config, "get_text_config") else model.config
    for name in ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length"):
        value = getattr(config, name, None)
        if isinstance(value, int) and value > 0:
            return value
    limit = getattr(tokenizer, "model_max_length", None)
    return int(limit) if isinstance(limit, int) and 0 < limit < 10**9 else 2048
