"""What `import midflight` and `midflight --help` cost, over a bare interpreter and beside trackio."""

from __future__ import annotations

import subprocess
import sys

from _measure import alternate, timed, verdict


def start(*arguments: str):
    return lambda: timed(lambda: subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True))


def main() -> int:
    found = alternate(
        {
            "bare interpreter": start("-c", "pass"),
            "import midflight": start("-c", "import midflight"),
            "midflight --help": start("-m", "midflight", "--help"),
            "import tensorboard": start("-c", "import tensorboard.summary.writer.event_file_writer"),
            "import trackio": start("-c", "import trackio"),
        }
    )
    print("import time")
    for name, seconds in found.items():
        print(f"  {seconds * 1000:8.1f} ms  {name}")
    over = (found["import midflight"] - found["bare interpreter"]) * 1000
    peer = (found["import trackio"] - found["bare interpreter"]) * 1000
    print(f"  {over / peer:8.3f}     of what trackio's import costs")
    goals = [
        verdict("import over a bare interpreter", over, 60, "ms"),
        verdict("--help", found["midflight --help"] * 1000, 300, "ms"),
    ]
    return 0 if all(goals) else 1


if __name__ == "__main__":
    sys.exit(main())
