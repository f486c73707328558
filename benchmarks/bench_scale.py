"""How long rank 0 takes to gather the answers of a job: all ranks at once, or groups of nodes first.

The model: reading a letter of B bytes takes ``a + trips · rtt + B · (b + 1 / bandwidth)``, one after the other at each
reader; groups read side by side, then rank 0 reads one letter a group. ``a`` and ``b`` (handling a letter, a byte)
are measured here, over real letters between gloo ranks in four nodes; what they predict for the other layout is put
beside what was measured. Latency and bandwidth of a network are parameters.

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
    return statistics.median(seconds[2:])


def flat(ranks: int, size: float, letter: float, byte: float) -> float:
    """Seconds where rank 0 reads a letter of each other rank."""
    return (ranks - 1) * (letter + size * byte)


def grouped(ranks: int, groups: int, size: float, letter: float, byte: float) -> float:
    """Seconds where the first rank of each group reads its members' letters, and rank 0 those of the groups."""
    members = ranks // groups
    return (members - 1) * (letter + size * byte) + (groups - 1) * (letter + members * size * byte)


def calibrate() -> tuple[float, float, float]:
    """Seconds of a letter and of a byte, and the median relative error of what they predict for groups."""
    rows, times, checks = [], [], []
    for ranks in (2, 4, 8, 16):
        for size in (1_000, 200_000):
            rows.append([ranks - 1, (ranks - 1) * size])
            times.append(world(partial(gather_on_rank, size=ranks, payload=size, nodes_in_group=None), ranks))
            if ranks >= 8:
                found = world(partial(gather_on_rank, size=ranks, payload=size, nodes_in_group=1), ranks)
                checks.append((ranks, size, found))
    weights = 1 / np.array(times)  # relative errors count
    (letter, byte), *_ = np.linalg.lstsq(np.array(rows) * weights[:, None], np.ones(len(times)), rcond=None)
    letter, byte = max(letter, 1e-6), max(byte, 1e-12)
    print(f"  a letter takes {1e6 * letter:.0f} µs, a byte {1e9 * byte:.2f} ns")
    errors = []
    for ranks, size, found in checks:
        model = grouped(ranks, 4, size, letter, byte)
        errors.append(abs(model - found) / found)
        print(f"  {ranks} ranks, 4 groups, {size:,} bytes: measured {1e3 * found:.2f} ms, model {1e3 * model:.2f} ms")
    return letter, byte, statistics.median(errors)


def table(letter: float, byte: float, rtt_s: float, bandwidth: float, size: float) -> list[tuple[int, float, float]]:
    """Nodes, and milliseconds flat and in groups."""
    letter, byte = letter + TRIPS * rtt_s, byte + 1 / bandwidth
    rows = []
    for nodes in NODES:
        ranks, groups = nodes * RANKS_A_NODE, max(1, nodes // NODES_IN_GROUP)
        rows.append((nodes, 1e3 * flat(ranks, size, letter, byte), 1e3 * grouped(ranks, groups, size, letter, byte)))
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
    letter, byte, error = calibrate()
    rows = table(letter, byte, given.rtt_us * 1e-6, given.gbit * 1e9 / 8, given.bytes)
    print("  | nodes | ranks | rank 0 reads all | groups first | ratio |\n  | --- | --- | --- | --- | --- |")
    for nodes, one, two in rows:
        print(f"  | {nodes:,} | {nodes * RANKS_A_NODE:,} | {one:,.1f} ms | {two:,.1f} ms | {one / two:.1f} |")
    if given.plot:
        draw(rows, given.plot)
    return 0 if verdict("median error of the model for groups", 100 * error, 50, "%") else 1


if __name__ == "__main__":
    sys.exit(main())
