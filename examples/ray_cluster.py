"""Evaluates beside training on a Ray cluster: actors hold copies of the model, training only copies the weights."""

import torch

import midflight as mf
from midflight.demo.model import make_model, make_tokenizer

counting = mf.Task(
    "counting",
    [{"n": n} for n in range(60)],
    prompt="{{ n }}<",
    target="n + 1",
    sampling={"max_tokens": 4},
    metrics=["exact_match"],
)

if __name__ == "__main__":
    tokenizer, model = make_tokenizer(), make_model(seed=0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    # address="ray://head:10001" on a cluster; without one, Ray starts on this machine
    engine = mf.engines.Ray(mf.engines.HF(model, tokenizer), workers=2)
    run = mf.Run(project="examples", name="ray")
    config = mf.EvaluatorConfig(freq_steps=20, async_mode=True, max_waiting=4)
    with mf.Evaluator(config, [counting], engine, run) as evaluator:
        for step in range(1, 61):
            numbers = torch.randint(10, 60, (32,), generator=torch.Generator().manual_seed(step))
            batch = torch.tensor([tokenizer.encode(f"{n}<{n + 1}.") for n in numbers.tolist()])
            loss = model(input_ids=batch, labels=batch).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            run.log(step, loss=loss.item())
            evaluator.step(step)
    run.finish()
    for name, seconds in evaluator.reports[-1].cost.rank_seconds.items():
        print(f"{name}: {seconds:.2f} s")
