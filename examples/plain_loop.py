"""A training loop of one's own: a small transformer learns to count, and is evaluated before, during and after."""

import torch

import midflight as mf
from midflight.demo.model import make_model, make_tokenizer

tokenizer, model = make_tokenizer(), make_model(seed=0)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

# what is asked of the model: one item a number, an exact answer, a slice of odd and even numbers
counting = mf.Task(
    "counting",
    [{"n": n, "kind": "odd" if n % 2 else "even"} for n in range(60)],
    prompt="{{ n }}<",
    target="n + 1",
    sampling={"max_tokens": 4},
    metrics=["exact_match", "token_entropy"],
    slices={"kind": "kind"},
)


def train_step(step: int) -> float:
    numbers = torch.randint(0, 60, (64,), generator=torch.Generator().manual_seed(step)).tolist()
    rows = [tokenizer.encode(f"{n}<{n + 1}.") for n in numbers]
    longest = max(map(len, rows))
    batch = torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows])
    loss = model(input_ids=batch, labels=torch.where(batch == 0, -100, batch)).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


if __name__ == "__main__":
    run = mf.Run(project="examples", name="counting", config={"lr": 3e-3})
    config = mf.EvaluatorConfig(freq_steps=40, eval_before_train=True)
    with mf.Evaluator(config, tasks=[counting], engine=mf.engines.HF(model, tokenizer), run=run) as evaluator:
        for step in range(1, 121):
            run.log(step, loss=train_step(step))
            evaluator.step(step)
    run.finish()
    last = evaluator.reports[-1]
    for kind in ("odd", "even"):
        print(kind, last.estimate("exact_match", f"kind={kind}").value)
