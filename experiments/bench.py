"""What `trajopt bench` measures, with the machine and the date in its JSON.

python -m experiments.bench [--quick] [--seed N] [--out DIR]
"""

import sys

from experiments.harness import Experiment, quick, seed
from problems import bench

REPEATS, QUICK_REPEATS = 25, 3

main = Experiment(
    "bench",
    __doc__,
    lambda run: bench.run(QUICK_REPEATS if run.options.quick else REPEATS, run.options.seed),
    options=[quick(f"{QUICK_REPEATS} repeats, not {REPEATS}"), seed("points")],
    tables=bench.tables,
    threads=1,
)

if __name__ == "__main__":
    sys.exit(main())
