"""How long rank 0 takes to gather the answers of a job: all ranks at once, or groups of nodes first.

The model: a stage begins ``c`` after the one before it; reading a letter of B bytes takes ``a + trips · rtt + B · (b +
1 / bandwidth)``, one after the other at each reader; groups read side by side (here, as far as there are processors),
then rank 0 reads one letter a group. ``a``, ``b`` and ``c`` are measured here, over real letters between gloo ranks in
four nodes; what they predict for groups is put beside what was measured. Latency and bandwidth are parameters.

    python benchmarks/bench_scale.py [--rtt-us 500] [--gbit 10] [--bytes 20000] [--plot docs/scale.png]

Defaults: 500 µs for a round trip is about the 80th percentile within one zone of a cloud (Jones 2021,
https://www.evanjones.ca/network-latencies-2021.html); 10 Gbit/s is what one plain TCP stream may get; 20,000 bytes are
some 40 answers of 500 characters a rank.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from dataclasses import dataclass
from functools import partial

import numpy as np
from _measure import verdict
from _ranks import world

NODES, RANKS_A_NODE = (1, 4, 16, 64, 256, 1024), 8
TRIPS = 3
"""Round trips of a letter that is read: wait, get, delete."""
NODES_IN_GROUP = 4


def gather_on_rank(rank: int, size: int, payload: int, nodes_in_group: int | None) -> float:
    """Median seconds until rank 0 has all letters, all ranks being ready at once."""
    import torch.distributed as dist

    from midflight.distributed.mail import Mail
    from midflight.environ import Place

    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    mail = Mail(Place(rank, size, 0, rank * 4 // size), nodes_in_group)
    letter, seconds = {"outputs": "x" * payload}, []
    for number in range(9):
        dist.barrier()
        began, ends = time.perf_counter(), time.monotonic() + 60
        leader = mail.leaders[rank]
        if leader == rank:
            found = {
                other: mail.receive(rank, f"{number}/from/{other}", ends) for other in mail.members if other != rank
            }
            if rank:
                mail.send(rank, f"{number}/group/{rank}", found)
            else:
                for other in sorted(set(mail.leaders) - {0}):
                    mail.receive(other, f"{number}/group/{other}", ends)
        else:
            mail.send(leader, f"{number}/from/{rank}", letter)
        seconds.append(time.perf_counter() - began)
    dist.barrier()  # a leader that leaves takes its office along
    return statistics.median(seconds[2:])


@dataclass(frozen=True)
class Costs:
    """Seconds of a stage, of a letter and of a byte."""

    stage: float
    letter: float
    byte: float

    def flat(self, ranks: int, size: float) -> float:
        """Seconds where rank 0 reads a letter of each other rank."""
        return self.stage + (ranks - 1) * (self.letter + size * self.byte)

    def grouped(self, ranks: int, groups: int, size: float, side_by_side: int | None = None) -> float:
        """Seconds where the first rank of each group reads its members' letters, and rank 0 those of the groups."""
        members, rounds = ranks // groups, max(1.0, groups / (side_by_side or groups))
        first = self.stage + rounds * (members - 1) * (self.letter + size * self.byte)
        return first + self.stage + (groups - 1) * (self.letter + members * size * self.byte)


def calibrate() -> tuple[Costs, float]:
    """What things cost here, and the median relative error of what that predicts for groups."""
    rows, times, checks = [], [], []
    for ranks in (2, 4, 8, 16):
        for size in (1_000, 200_000):
            rows.append([1.0, ranks - 1, (ranks - 1) * size])
            times.append(world(partial(gather_on_rank, size=ranks, payload=size, nodes_in_group=None), ranks))
            if ranks >= 8:
                found = world(partial(gather_on_rank, size=ranks, payload=size, nodes_in_group=1), ranks)
                checks.append((ranks, size, found))
    weights = 1 / np.array(times)  # relative errors count
    fitted, *_ = np.linalg.lstsq(np.array(rows) * weights[:, None], np.ones(len(times)), rcond=None)
    costs = Costs(*(max(value, 1e-12) for value in fitted.tolist()))
    print(
        f"  a stage {1e6 * costs.stage:.0f} µs, a letter {1e6 * costs.letter:.0f} µs, a byte {1e9 * costs.byte:.2f} ns"
    )
    errors = []
    for ranks, size, found in checks:
        model = costs.grouped(ranks, 4, size, os.cpu_count())
        errors.append(abs(model - found) / found)
        print(f"  {ranks} ranks, 4 groups, {size:,} bytes: measured {1e3 * found:.2f} ms, model {1e3 * model:.2f} ms")
    return costs, statistics.median(errors)


def table(here: Costs, rtt_s: float, bandwidth: float, size: float) -> list[tuple[int, float, float]]:
    """Nodes, and milliseconds flat and in groups."""
    costs = Costs(here.stage + rtt_s, here.letter + TRIPS * rtt_s, here.byte + 1 / bandwidth)
    rows = []
    for nodes in NODES:
        ranks, groups = nodes * RANKS_A_NODE, nodes // NODES_IN_GROUP
        one = costs.flat(ranks, size)
        rows.append((nodes, 1e3 * one, 1e3 * (costs.grouped(ranks, groups, size) if groups > 1 else one)))
    return rows


def draw(rows: list[tuple[int, float, float]], path: str) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.6), layout="constrained")
    axes = figure.add_subplot()
    nodes = [row[0] for row in rows]
    axes.plot(nodes, [row[1] for row in rows], "o-", label="rank 0 reads every rank")
    axes.plot(nodes, [row[2] for row in rows], "s-", label=f"groups of {NODES_IN_GROUP} nodes first")
    axes.set(xscale="log", yscale="log", xlabel="nodes of 8 ranks", ylabel="ms until rank 0 has all answers")
    axes.set_xticks(nodes, [str(n) for n in nodes])
    axes.legend(frameon=False)
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=110)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rtt-us", type=float, default=500.0)
    parser.add_argument("--gbit", type=float, default=10.0)
    parser.add_argument("--bytes", type=float, default=20_000.0)
    parser.add_argument("--plot")
    given = parser.parse_args()
    costs, error = calibrate()
    rows = table(costs, given.rtt_us * 1e-6, given.gbit * 1e9 / 8, given.bytes)
    print("  | nodes | ranks | rank 0 reads all | groups first | ratio |\n  | --- | --- | --- | --- | --- |")
    for nodes, one, two in rows:
        print(f"  | {nodes:,} | {nodes * RANKS_A_NODE:,} | {one:,.1f} ms | {two:,.1f} ms | {one / two:.1f} |")
    if given.plot:
        draw(rows, given.plot)
    return 0 if verdict("median error of the model for groups", 100 * error, 50, "%") else 1


if __name__ == "__main__":
    sys.exit(main())
