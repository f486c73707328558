"""What this process is: its rank, world and node under torchrun, SLURM, Open MPI or alone; and what surrounds it.

Known to users of AReaL as `environ_utils`. Nothing here imports torch: an initialised process group is asked only if
the training script has already imported it.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import resource
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from midflight.errors import ConfigError

_LAUNCHERS: dict[str, tuple[str, str, str, str]] = {
    # launcher: variables of rank, world size, local rank, node (Open MPI does not tell the node)
    "torchrun": ("RANK", "WORLD_SIZE", "LOCAL_RANK", "GROUP_RANK"),
    "openmpi": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", ""),
    "slurm": ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NODEID"),
}

ALIVE_S = 60.0
"""A process on another machine that has not written for so long is taken for dead."""

_PACKAGES = (
    "midflight",
    "torch",
    "transformers",
    "trl",
    "accelerate",
    "numpy",
    "openai",
    "math-verify",
    "reasoning-gym",
    "datasets",
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where this process stands in its job.

    Attributes:
        rank: 0-based number of the process in the job.
        world_size: Processes in the job.
        local_rank: 0-based number on its node.
        node: 0-based number of its node.
        launcher: What told us: `torch.distributed`, `torchrun`, `openmpi`, `slurm` or `plain`.
    """

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    node: int = 0
    launcher: str = "plain"

    @property
    def is_main(self) -> bool:
        """True on the one process that records."""
        return self.rank == 0


def place() -> Place:
    """Where this process stands in its job.

    An initialised process group knows best; otherwise the launcher's variables are read. A SLURM allocation without
    `srun` (an interactive shell or `sbatch` script that starts one process) has the size of the allocation in
    `SLURM_NTASKS` but no step, and is one process.

    Raises:
        ConfigError: If a launcher's variables are no numbers, or the rank is not below the world size.
    """
    found = _from_variables()
    dist = process_group()
    if dist is None:
        return found
    return Place(dist.get_rank(), dist.get_world_size(), found.local_rank, found.node, "torch.distributed")


def process_group() -> Any | None:
    """The module `torch.distributed` if a default process group is initialised, else None."""
    torch = sys.modules.get("torch")
    dist = getattr(torch, "distributed", None)
    return dist if dist is not None and dist.is_available() and dist.is_initialized() else None


def _from_variables() -> Place:
    for launcher, names in _LAUNCHERS.items():
        rank, size = (os.environ.get(name) for name in names[:2])
        if rank is None or size is None or (launcher == "slurm" and "SLURM_STEP_ID" not in os.environ):
            continue
        values = [os.environ.get(name, "0") for name in names]
        try:
            numbers = [int(value) for value in values]
        except ValueError:
            raise ConfigError(
                f"the environment of {launcher} is broken",
                got=dict(zip(names, values, strict=True)),
                allowed="whole numbers",
            ) from None
        if not 0 <= numbers[0] < numbers[1]:
            raise ConfigError(f"{names[0]} must be below {names[1]}", got=tuple(numbers[:2]))
        rank_, size_, local, node = numbers
        return Place(rank_, size_, local, node, launcher)
    return Place()


def software() -> dict[str, str]:
    """Versions of Python and of the installed packages that can change a number."""
    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def git_state(folder: str | Path = ".") -> dict[str, str]:
    """Commit, branch and cleanliness of the git checkout around a folder; empty outside one."""

    def ask(*words: str) -> str:
        done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, timeout=10)
        return done.stdout.strip() if done.returncode == 0 else ""

    try:
        commit = ask("rev-parse", "HEAD")
        if not commit:
            return {}
        dirty = "yes" if ask("status", "--porcelain", "--untracked-files=no") else "no"
        return {"commit": commit, "branch": ask("rev-parse", "--abbrev-ref", "HEAD"), "dirty": dirty}
    except (OSError, subprocess.TimeoutExpired):
        return {}


def describe() -> dict[str, Any]:
    """The surroundings of a run, plain enough for JSON: machine, process, accelerators, versions."""
    here = place()
    found: dict[str, Any] = {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "command": " ".join(sys.argv)[:1000],
        "world_size": here.world_size,
        "launcher": here.launcher,
        "software": software(),
    }
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        found["gpus"] = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return found


def peak_memory_bytes() -> int:
    """Peak memory in bytes: of the current accelerator if torch uses one, else the resident set of this process."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        return int(torch.cuda.max_memory_allocated())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def owner() -> str:
    """This process, told apart from one that later gets the same number: ``host:pid:start``."""
    return f"{socket.gethostname()}:{os.getpid()}:{_start_ticks(os.getpid())}"


def is_alive(who: str, heartbeat: float) -> bool:
    """Whether the process still runs that called itself `who`, and wrote last at `heartbeat` (seconds since 1970)."""
    host, _, rest = who.partition(":")
    pid, _, ticks = rest.partition(":")
    if host != socket.gethostname():
        return time.time() - heartbeat < ALIVE_S
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, ValueError):
        return False
    except PermissionError:
        pass
    return _start_ticks(int(pid)) == ticks


def _start_ticks(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[19]
    except OSError:
        return "?"


@dataclass(frozen=True, slots=True)
class Limits:
    """What a worker that evaluates beside training may use of the machine.

    Attributes:
        nice: How far it stands back when processors are scarce, 0 (not at all) to 19.
        threads: Threads that it computes with; None = as many as the libraries take.
        cpus: Numbers of the processors that it may run on; None = all.
        visible_devices: Accelerators that it may see, e.g. ``"7"``; None = those that training sees.
        memory_gb: Host memory that it may take, in 10^9 bytes; beyond it, it fails. None = no ceiling.
    """

    nice: int = 10
    threads: int | None = None
    cpus: tuple[int, ...] | None = None
    visible_devices: str | None = None
    memory_gb: float | None = None

    def variables(self) -> dict[str, str]:
        """Environment variables that have to be set before the process begins."""
        found: dict[str, str] = {}
        if self.threads is not None:
            found |= {name: str(self.threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
        if self.visible_devices is not None:
            found["CUDA_VISIBLE_DEVICES"] = self.visible_devices
        return found

    def apply(self) -> None:
        """Binds this process.

        Raises:
            OSError: If the machine does not have what is named.
        """
        os.nice(self.nice)
        if self.cpus is not None:
            os.sched_setaffinity(0, self.cpus)
        if self.memory_gb is not None:
            size = int(self.memory_gb * 1e9)
            resource.setrlimit(resource.RLIMIT_DATA, (size, size))
