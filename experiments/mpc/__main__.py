"""Measure what gains and re-planning are worth under gusts, and write data and a figure.

    python -m experiments.mpc [--quick] [--out DIR] [--seed N]

Writes DIR/mpc.json (errors and solve times) and DIR/mpc.png.
"""

import sys
from typing import Any

from rich.table import Table

from experiments.harness import Experiment, Run, quick, seed, table
from experiments.mpc.figures import plot
from experiments.mpc.scene import CONTROLLERS
from experiments.mpc.study import HELD, LEVELS, measure

RUNS, QUICK_RUNS = 20, 2


def levels_table(levels: dict[str, Any]) -> Table:
    """Every controller at every level."""
    return table(
        "distance of the tip in the last second [m]",
        ("gusts [N]", "controller"),
        ("median rms", "worst rms", f"within {HELD:g} m"),
        (
            [
                (level, controller, s["median_rms"], s["worst_rms"], f"{s['held']} of {s['runs']}")
                for controller, s in record.items()
            ]
            for level, record in levels.items()
        ),
    )


def study(run: Run) -> dict[str, Any]:
    """All simulations."""
    runs = QUICK_RUNS if run.options.quick else RUNS
    advance = run.counter("runs", len(CONTROLLERS) * sum(runs if level else 1 for level in LEVELS))
    return measure(runs, run.options.seed, advance)


main = Experiment(
    "mpc",
    __doc__,
    study,
    options=[quick(f"{QUICK_RUNS} runs at each level, not {RUNS}"), seed("gusts")],
    tables=lambda results: (levels_table(results["levels"]),),
    pictures={"mpc.png": plot},
    width=100,
)

if __name__ == "__main__":
    sys.exit(main())
