"""Logs a point ten times a second and says which, until it is ended.

Usage: python writer.py STORE
"""

import sys
import time

from midflight.run import Run

run = Run("sums", "live", store=sys.argv[1], resume="never")
for step in range(1, 10_000):
    run.log(step, loss=1 / step)
    print(step, time.time(), flush=True)
    time.sleep(0.1)
