"""Data-parallel training under torchrun: ``torchrun --nproc-per-node 2 examples/torchrun.py``. All ranks evaluate."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

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


def main() -> None:
    dist.init_process_group("gloo")
    tokenizer, model = make_tokenizer(), DistributedDataParallel(make_model(seed=0))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    run = mf.Run(project="examples", name="torchrun")  # rank 0 records
    config = mf.EvaluatorConfig(freq_steps=20, eval_before_train=True, distributed=True, local_eval_nodes=4, limit_s=60)
    with mf.Evaluator(config, [counting], mf.engines.HF(model, tokenizer), run) as evaluator:
        for step in range(1, 41):
            numbers = torch.randint(10, 60, (32,), generator=torch.Generator().manual_seed(2 * step + dist.get_rank()))
            rows = [tokenizer.encode(f"{n}<{n + 1}.") for n in numbers.tolist()]
            batch = torch.tensor(rows)
            loss = model(input_ids=batch, labels=batch).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            run.log(step, loss=loss.item())
            evaluator.step(step)
    run.finish()
    if dist.get_rank() == 0:
        cost = evaluator.reports[-1].cost
        print(f"{cost.straggler} took longest; {cost.lost_share:.0%} of the ranks' time went by in waiting for it")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
