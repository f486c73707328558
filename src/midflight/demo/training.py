"""What the demo trains: a warm-up on worked examples, then real GRPO (TRL) on conversations of up to so many turns.

``python -m midflight.demo.training FOLDER STRATEGY SEEDS STEPS DEADLINE`` is what the demo starts, once a strategy.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from midflight.demo.arithmetic import ANSWER_TOKENS, END, feedback, problems, reward, tasks
from midflight.demo.model import make_model, make_tokenizer
from midflight.records import Output, Request, Sampling

PROJECT = "midflight-demo"
STRATEGIES = {"mt2": 2, "mt4": 4}
"""Turns that training allows."""
HOT = "hot"
"""mt4 at fifty times its learning rate: set up to collapse, to show what becomes of that."""
LEARNING_RATE = 1e-4
HOT_LEARNING_RATE = 5e-3

WARM_STEPS = 340
WARM_FILE = "warm.safetensors"
CHECKPOINTS = "checkpoints"
EVALUATE_EVERY = 10
GROUP = 8
BATCH = 256


def warm_up(folder: Path, tell: Callable[[int, int], None]) -> None:
    """Trains a fresh model on worked examples, some with wrong answers and feedback, until it half knows how.

    Args:
        folder: Where the weights go.
        tell: Told how many steps are done, of how many.
    """
    import torch
    from safetensors.torch import save_file

    tokenizer, model = make_tokenizer(), make_model(seed=0)
    draw = random.Random(0)
    known = problems(seed=0, count=10_000, held_out=False)
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 2e-3, WARM_STEPS)
    for step in range(WARM_STEPS):
        rows = [tokenizer.encode(_worked_example(draw, *draw.choice(known))) for _ in range(128)]
        longest = max(map(len, rows))
        inputs = torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows])
        loss = model(input_ids=inputs, labels=torch.where(inputs == 0, -100, inputs)).loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        tell(step + 1, WARM_STEPS)
    save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()}, folder / WARM_FILE)


def _worked_example(draw: random.Random, a: int, b: int) -> str:
    text = f"{a}+{b}="
    for _ in range(draw.choices([0, 1, 2, 3], [60, 22, 12, 6])[0]):
        wrong = a + b + draw.choice([-20, -10, -3, -2, -1, 1, 2, 3, 10, 20])
        if wrong >= 0:
            text += f"{wrong}{feedback(a, b, str(wrong))}"
    return f"{text}{a + b}{END}"


@dataclass
class Conversation:
    """One rollout: what the policy wrote, and what it was told."""

    a: int
    b: int
    prompt: str
    tokens: list[int] = field(default_factory=list)
    own: list[int] = field(default_factory=list)  # 1 = written by the policy, 0 = feedback, which is not trained on
    turns: int = 0
    solved: bool = False

    @classmethod
    def of(cls, prompt: str) -> Conversation:
        """The conversation that a prompt such as ``17+25=`` begins."""
        a, b = prompt.removesuffix("=").split("+")
        return cls(int(a), int(b), prompt)


class Rollouts:
    """TRL's `rollout_func`: converses with the policy for up to `turns` turns.

    Args:
        tokenizer: The tokenizer.
        turns: Turns at most.
        seed: Seed of the sampling.
    """

    def __init__(self, tokenizer: Any, turns: int, seed: int) -> None:
        self.tokenizer, self.turns, self.seed = tokenizer, turns, seed
        self._calls = 0

    def __call__(self, prompts: Sequence[str], trainer: Any) -> dict[str, Any]:
        """Tokens of prompts and conversations, a mask of what the policy wrote, and the rewards."""
        from midflight.engines import HF

        self._calls += 1
        engine = HF(trainer.accelerator.unwrap_model(trainer.model), self.tokenizer)
        conversations = [Conversation.of(prompt) for prompt in prompts]
        going = list(enumerate(conversations))
        for turn in range(self.turns):
            requests = [
                Request(
                    str(index),
                    str(index),
                    "generate",
                    talk.prompt + self._said(talk),
                    seed=self._draw(index, turn),
                    sampling=Sampling(temperature=1.0, max_tokens=ANSWER_TOKENS),
                )
                for index, talk in going
            ]
            answers = {output.request_id: output for output in engine.run(requests)}
            for index, talk in going:
                self._take(talk, answers[str(index)], last=turn + 1 == self.turns)
            going = [(index, talk) for index, talk in going if not talk.solved]
            if not going:
                break
        return {
            "prompt_ids": [self.tokenizer.encode(prompt) for prompt in prompts],
            "completion_ids": [talk.tokens for talk in conversations],
            "env_mask": [talk.own for talk in conversations],
            "logprobs": None,
            "worth": [reward(talk.turns, talk.solved) for talk in conversations],
        }

    def _draw(self, index: int, turn: int) -> int:
        return random.Random(f"{self.seed}/{self._calls}/{index}/{turn}").getrandbits(62)

    def _said(self, talk: Conversation) -> str:
        return str(self.tokenizer.decode(talk.tokens))

    def _take(self, talk: Conversation, answer: Output, last: bool) -> None:
        talk.turns += 1
        written = self.tokenizer.encode(answer.text)
        if answer.finish == "stop":
            written.append(self.tokenizer.eos_token_id)
        told = feedback(talk.a, talk.b, answer.text)
        talk.solved = told is None and answer.finish == "stop"
        shown: list[int] = []
        if not talk.solved and not last:
            text = told or f"{END}>"  # right, but it did not stop there
            shown = self.tokenizer.encode(text.removeprefix(END) if answer.finish == "stop" else text)
        talk.tokens += written + shown
        talk.own += [1] * len(written) + [0] * len(shown)


def worth(prompts: Sequence[str], completions: Sequence[str], **columns: Any) -> list[float]:
    """TRL's reward function: what the rollouts found."""
    return list(columns["worth"])


def _grpo(folder: Path, strategy: str, seed: int, steps: int) -> Any:
    """TRL's settings."""
    from trl import GRPOConfig

    return GRPOConfig(
        output_dir=str(folder / "trainer"),
        max_steps=steps,
        per_device_train_batch_size=BATCH,
        num_generations=GROUP,
        learning_rate=HOT_LEARNING_RATE if strategy == HOT else LEARNING_RATE,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=10,
        adam_beta2=0.98,
        beta=0.0,
        max_completion_length=64,
        logging_steps=2,
        seed=seed,
        use_cpu=True,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        gradient_checkpointing=False,
        bf16=False,
    )


def train(folder: Path, strategy: str, seed: int, steps: int) -> None:
    """One GRPO run of a strategy, evaluated in flight; its last weights become a checkpoint."""
    import torch
    from datasets import Dataset
    from safetensors.torch import load_file
    from trl import GRPOTrainer

    from midflight.environ import Limits
    from midflight.evaluator import EvaluatorConfig
    from midflight.integrations.transformers import MidflightCallback
    from midflight.run import Run

    tokenizer, model = make_tokenizer(), make_model(seed=0)
    model.load_state_dict(load_file(folder / WARM_FILE))
    torch.manual_seed(seed)
    turns = STRATEGIES.get(strategy, STRATEGIES["mt4"])
    pairs = problems(seed=1000 + seed, count=steps * BATCH // GROUP, held_out=False)
    config = _grpo(folder, strategy, seed, steps)
    settings = {"strategy": strategy, "turns": turns, "seed": seed, **config.to_dict()}
    name = f"{strategy}-seed{seed}"
    with Run(PROJECT, name, settings, store=str(folder / "midflight.db"), tags=[strategy], resume="never") as run:
        # beside training; copies of so small a model cost nothing, so that all may wait
        evaluations = EvaluatorConfig(
            freq_steps=EVALUATE_EVERY,
            eval_before_train=True,
            async_mode=True,
            max_waiting=steps,
            limits=Limits(threads=1),
            early_stop="stop" if strategy == HOT else "warn",
        )
        callback = MidflightCallback(tasks(), evaluations, run=run)
        trainer = GRPOTrainer(
            model,
            worth,
            config,
            callbacks=[callback],
            processing_class=tokenizer,
            train_dataset=Dataset.from_list([{"prompt": f"{a}+{b}="} for a, b in pairs]),
            rollout_func=Rollouts(tokenizer, turns, seed),
        )
        trainer.train()
        checkpoint = folder / CHECKPOINTS / name / f"checkpoint-{trainer.state.global_step}"
        model.save_pretrained(checkpoint)
        tokenizer.save_pretrained(checkpoint)


def main(folder: str, strategy: str, seeds: str, steps: str, deadline: str) -> None:
    """All seeds of a strategy, one after the other, as long as the next one fits."""
    import torch

    torch.set_num_threads(1)  # two strategies on two cores; so small a model gains nothing from more
    for seed in range(int(seeds)):
        began = time.time()
        train(Path(folder), strategy, seed, int(steps))
        if time.time() + (time.time() - began) > float(deadline):
            break


if __name__ == "__main__":
    os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"
    main(*sys.argv[1:])
