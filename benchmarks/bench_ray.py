"""Evaluation throughput from one to four Ray actors, with an engine that waits (as one behind a network does)."""

from __future__ import annotations

import sys
import time

from _measure import verdict

import midflight as mf
from midflight.records import Request, Sampling

REQUESTS, DELAY_S = 800, 0.02


def throughput(workers: int) -> float:
    """Requests a second, once all actors are there."""
    engine = mf.engines.Ray(mf.engines.Fake("1", delay_s=DELAY_S), workers=workers, num_cpus=0.1)

    def requests(count: int) -> list[Request]:
        return [Request(f"{i}/0/0", str(i), "generate", "x", sampling=Sampling()) for i in range(count)]

    list(engine.run(requests(20 * workers)))
    began = time.perf_counter()
    assert len(list(engine.run(requests(REQUESTS)))) == REQUESTS
    seconds = time.perf_counter() - began
    engine.close()
    return REQUESTS / seconds


def main() -> int:
    found = {workers: throughput(workers) for workers in (1, 2, 4)}
    for workers, speed in found.items():
        print(f"  {workers} actors: {speed:,.0f} requests/s, {speed / found[1]:.2f} times one")
    return 0 if verdict("four actors against one", found[4] / found[1], 3.6, "times", at_most=False) else 1


if __name__ == "__main__":
    sys.exit(main())
