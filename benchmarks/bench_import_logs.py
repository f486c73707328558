"""Reading training logs: at most 20 s of a processor for 100 MB of each format, in memory that its numbers bound.

python benchmarks/bench_import_logs.py [MEGABYTES]
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from _measure import verdict

LIMIT_S, LIMIT_MB = 20.0, 1000.0
NUM_VALUES = 40


def hf_console(step: int) -> str:
    bar = f"\r  1%|▏         | {step}/999999999 [00:10<99:00:00, 1.2it/s]"
    return f"{bar}{{'loss': {2 + 1 / step:.4f}, 'grad_norm': 1.25, 'learning_rate': 3.1e-05, 'epoch': 0.01}}\n"


def verl_console(step: int) -> str:
    values = " - ".join(f"actor/metric_{number}:{step / (number + 1):.3f}" for number in range(NUM_VALUES))
    return f"\x1b[36m(main_task pid=28294)\x1b[0m step:{step} - actor/pg_loss:0.001 - {values}\n"


def key_value(step: int) -> str:
    return f"step:{step}/999999999 train_loss:{2 + 1 / step:.4f} train_time:{step}ms step_avg:95.57ms\n"


def jsonl(step: int) -> str:
    return json.dumps({"step": step, "loss": 2 + 1 / step, "lr": 3e-5, "tokens/s": 1234.5, "note": "ok"}) + "\n"


def csv(step: int) -> str:
    head = "step,loss,grad_norm,lr\n" if step == 1 else ""
    return f"{head}{step},{2 + 1 / step:.6f},1.25,0.00003\n"


FORMATS: dict[str, Callable[[int], str]] = {
    "HF console": hf_console, "verl console": verl_console, "key:value lines": key_value, "JSON lines": jsonl,
    "CSV": csv,
}  # fmt: skip


def write(path: Path, line: Callable[[int], str], size: int) -> int:
    """Fills a file of so many bytes; how many records it holds."""
    written = step = 0
    with path.open("w", encoding="utf-8") as file:
        while written < size:
            step += 1
            written += file.write(line(step))
    return step


def read_in_this_process(path: Path, num_records: int) -> None:
    from midflight.analyse.importers import read_any

    began = time.process_time()
    runs = read_any(path)
    seconds = time.process_time() - began
    assert (len(runs), runs[0].num_records) == (1, num_records), (len(runs), runs[0].num_records)
    print(json.dumps([seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))


def main() -> int:
    if len(sys.argv) > 2:
        read_in_this_process(Path(sys.argv[1]), int(sys.argv[2]))
        return 0
    megabytes = float(sys.argv[1]) if len(sys.argv) == 2 else 100.0
    good = True
    with tempfile.TemporaryDirectory() as folder:
        for name, line in FORMATS.items():
            path = Path(folder) / "run.log"
            records = write(path, line, int(megabytes * 1e6))
            command = [sys.executable, __file__, str(path), str(records)]
            seconds, peak = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            good &= verdict(f"{name}, {megabytes:g} MB, {records:,} records", seconds, LIMIT_S * megabytes / 100, "s")
            good &= verdict(f"{name}, memory", peak, LIMIT_MB, "MB")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
