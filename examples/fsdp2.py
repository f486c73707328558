"""Training in shards (FSDP2): ``torchrun --nproc-per-node 2 examples/fsdp2.py``. All ranks evaluate in step."""

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

import midflight as mf
from midflight.demo.model import make_model, make_tokenizer

tokenizer = make_tokenizer()
reading = mf.Task(
    "reading",
    [{"text": f"{n}<{n + 1}."} for n in range(40)],
    kind="loglikelihood",
    text="{{ text }}",
    metrics=["perplexity"],
)


def main() -> None:
    dist.init_process_group("gloo")
    model = make_model(seed=0)
    for layer in model.model.layers:
        fully_shard(layer)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    # async_mode=True instead of distributed=True: rank 0 copies the weights, and a worker evaluates beside training
    config = mf.EvaluatorConfig(freq_steps=10, eval_before_train=True, distributed=True, limit_s=60)
    with mf.Evaluator(config, [reading], mf.engines.HF(model, tokenizer)) as evaluator:
        for step in range(1, 21):
            numbers = torch.randint(10, 40, (16,), generator=torch.Generator().manual_seed(2 * step + dist.get_rank()))
            batch = torch.tensor([tokenizer.encode(f"{n}<{n + 1}.") for n in numbers.tolist()])
            model(input_ids=batch, labels=batch).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            evaluator.step(step)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
