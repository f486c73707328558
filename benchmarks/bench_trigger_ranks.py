"""The decision to evaluate on eight gloo ranks: what it says to other ranks, and how late the time trigger is."""

from __future__ import annotations

import random
import sys
import time

from _measure import verdict
from _ranks import world

RANKS, STEP_S, EVERY_S, SECONDS = 8, 0.01, 8.0, 25.0


def on_rank(rank: int) -> dict[str, object]:
    import torch.distributed as dist

    from midflight.distributed import agreement
    from midflight.records import Progress
    from midflight.triggers import EpochStepTimeFreqCtl

    calls, agree = [0], agreement()

    def counted(values: list[float]) -> list[float]:
        calls[0] += 1
        return agree(values)

    steps = EpochStepTimeFreqCtl(1, 100, freq_tokens=1000, agree=counted)
    for step in range(1, 2001):
        steps.take(Progress(step, step / 500, step * 7))
    silent = calls[0]

    noise, ctl = random.Random(rank), EpochStepTimeFreqCtl(None, None, EVERY_S, agree=counted)
    began = due_at = time.monotonic()
    decided, late, step = [], [], 0
    dist.barrier()
    while step * STEP_S < SECONDS:
        step += 1
        time.sleep(STEP_S * noise.uniform(0.5, 1.5))
        dist.barrier()  # ranks march in step, as the gradients' all-reduce has them do
        if ctl.take(Progress(step)):
            now = time.monotonic()
            late.append((now - due_at - EVERY_S) / EVERY_S)
            due_at = now
            decided.append(step)
    everyone = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, (decided, late))
    return {
        "silent": silent,
        "same": all(found[0] == decided for found in everyone),
        "error": max(abs(error) for _, errors in everyone for error in errors),
        "evaluations": len(decided),
        "calls": calls[0] - silent,
        "steps": step,
        "seconds": time.monotonic() - began,
    }


def main() -> int:
    found = world(on_rank, RANKS)
    print(f"  {found['steps']} steps in {found['seconds']:.0f} s, {found['evaluations']} evaluations by time")
    ok = verdict("collectives of 2,000 steps without a time trigger", found["silent"], 0, "calls")
    ok &= verdict("collectives a step with one", found["calls"] / found["steps"], 0.1, "calls")
    ok &= verdict("error of the interval, worst rank", 100 * found["error"], 2.0, "%")
    ok &= verdict("ranks that decided otherwise", 0 if found["same"] else 1, 0, "")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
