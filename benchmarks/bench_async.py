"""What evaluations cost a real training on this machine: none, between two steps, and beside training."""

from __future__ import annotations

import sys
import time
from statistics import median

import torch
from _measure import verdict
from transformers import LlamaConfig, LlamaForCausalLM

import midflight as mf
from midflight.demo.model import make_tokenizer
from midflight.dispatch.shared_folder import shared_folder
from midflight.environ import Limits
from midflight.snapshot import Buffer, Skeleton

STEPS, EVERY, ROUNDS = 40, 10, 3


def make_model(hidden: int) -> tuple[LlamaForCausalLM, object]:
    tokenizer = make_tokenizer()
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=hidden, intermediate_size=4 * hidden, num_hidden_layers=4,
        num_attention_heads=4, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    return LlamaForCausalLM(config), tokenizer


def train(mode: str) -> dict[str, float]:
    """Seconds of the loop, of Midflight's calls in it, and of the copies."""
    torch.manual_seed(0)
    model, tokenizer = make_model(192)
    optimizer = torch.optim.AdamW(model.parameters())
    tokens = torch.randint(0, len(tokenizer), (8, 64))
    task = mf.Task(
        "sums", [{"a": a} for a in range(64)], prompt="{{ a }}+1=", target="a + 1", sampling={"max_tokens": 16},
        metrics=["exact_match"],
    )  # fmt: skip
    config = mf.EvaluatorConfig(
        freq_steps=EVERY if mode != "none" else None, async_mode=mode == "beside training", max_waiting=9,
        limits=Limits(threads=1),
    )  # fmt: skip
    evaluator = mf.Evaluator(config, [task], mf.engines.HF(model, tokenizer), quiet=True)
    evaluator.start()
    inside, steps, began = 0.0, [], time.perf_counter()
    for step in range(1, STEPS + 1):
        at = time.perf_counter()
        model(tokens, labels=tokens).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        done = time.perf_counter()
        if mode != "none":
            evaluator.step(step)
        steps.append(done - at)
        inside += time.perf_counter() - done
    whole = time.perf_counter() - began
    dispatcher = getattr(evaluator._way, "dispatcher", None)
    copy = dispatcher.copy_s if dispatcher else 0.0
    if mode != "none":
        evaluator.finish()
    return {"loop": whole, "inside": inside - copy, "step": median(steps), "copy": copy}


def snapshot_speed() -> float:
    """Bytes a second of the second copy of some 400 MB of weights, and of those after it."""
    model, _ = make_model(1600)
    skeleton = Skeleton(model, [model])
    folder = shared_folder()
    try:
        buffer = Buffer(folder / "weights.safetensors", skeleton.layout, create=True)
        buffer.write(skeleton.tensors())
        speeds = []
        for _ in range(5):
            began = time.perf_counter()
            buffer.write(skeleton.tensors())
            speeds.append(skeleton.layout.size / (time.perf_counter() - began))
    finally:
        buffer.path.unlink()
        folder.rmdir()
    print(f"  copies of {skeleton.layout.size / 1e6:.0f} MB")
    return median(speeds)


def main() -> int:
    torch.set_num_threads(1)  # the other processor is for the worker
    modes = ("none", "between steps", "beside training")
    found = {mode: [] for mode in modes}
    for _ in range(ROUNDS):
        for mode in modes:
            found[mode].append(train(mode))
    loops = {mode: median(run["loop"] for run in runs) for mode, runs in found.items()}
    for mode in modes:
        print(f"  {mode}: {loops[mode]:.2f} s for {STEPS} steps, {loops[mode] / loops['none']:.3f} of none")
    beside = found["beside training"]
    share = median(run["inside"] / STEPS / run["step"] for run in beside)
    ok = verdict("time in Midflight's calls beside training, copies apart, of a step", 100 * share, 0.5, "%")
    ok &= verdict("copies of the weights", snapshot_speed() / 1e9, 1.0, "GB/s", at_most=False)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
