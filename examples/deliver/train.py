"""Trains a small model on sums and writes checkpoints, as any training does; its last one is ruined on purpose.

python train.py    # checkpoints/checkpoint-300, -900 and -920, in half a minute
"""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

LARGEST = 14
BATCH = 48
CHECKPOINTS = Path("checkpoints")


def make_tokenizer() -> PreTrainedTokenizerFast:
    """A token a character; the full stop ends an answer."""
    vocabulary = {token: index for index, token in enumerate(["<pad>", "<bos>", ".", *"0123456789+="])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<bos>", eos_token=".", padding_side="left"
    )


def main() -> None:
    torch.manual_seed(0)
    tokenizer = make_tokenizer()
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=16,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    model = LlamaForCausalLM(config)
    rows = [tokenizer.encode(f"{a}+{b}={a + b}.") for a in range(LARGEST + 1) for b in range(LARGEST + 1)]
    longest = max(map(len, rows))
    tokens = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
    labels = torch.where(tokens == 0, -100, tokens)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(1, 921):
        if step == 901:  # what a restart with the wrong learning rate does
            for group in optimizer.param_groups:
                group["lr"] = 0.3
        chosen = torch.randint(len(tokens), (BATCH,))
        loss = model(input_ids=tokens[chosen], labels=labels[chosen]).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step in (300, 900, 920):
            print(f"step {step}: loss {loss.item():.3f}")
            model.save_pretrained(CHECKPOINTS / f"checkpoint-{step}")
            tokenizer.save_pretrained(CHECKPOINTS / f"checkpoint-{step}")


if __name__ == "__main__":
    main()
