"""Simulate the paper's soft robots with and without exact Jacobians and print its table 3 beside the times found.

    python -m experiments.rods [--systems NAME ...] [--methods METHOD ...] [--duration S] [--repeats N] [--limit S]
                                [--out DIR]

exact         BDF with the exact Jacobian
differences   BDF, the Jacobian by differences
newmark       Newmark's method, the paper's step
adaptive      Newmark's method, steps by an estimate of their error

Errors are distances of links at the end from a run at tolerances a thousand times as tight.

Writes OUT/rods.json and OUT/<system>.png, snapshots.
"""

import sys
from typing import Any

from experiments.harness import Experiment, Run, count, option, positive
from experiments.rods.figures import plot_snapshots
from experiments.rods.measure import METHODS, jacobian_times, simulations, statics_record
from experiments.rods.systems import NAMES, make, scenery
from experiments.rods.tables import calls_table, failures, simulations_table

BRIEF = 1e-4
"""Seconds of a first simulation, which compiles."""


def study(run: Run) -> dict[str, Any]:
    """All systems."""
    options = run.options
    systems = {name: system_record(name, run) for name in run.track(options.systems, "soft robots")}
    return {"duration": options.duration, "repeats": options.repeats, "systems": systems}


def system_record(name: str, run: Run) -> dict[str, Any]:
    """All figures of one system; draws its snapshots."""
    example, options = make(name), run.options
    methods = tuple(options.methods)
    simulations(example, BRIEF, methods, 1, float("inf"))  # compiles
    records, motion = simulations(example, options.duration, methods, options.repeats, options.limit)
    jacobian = None
    if motion is not None:
        run.picture(f"{name}.png", plot_snapshots(example, motion, scenery(name)))
        jacobian = jacobian_times(example, motion)
    return {
        "coordinates": example.robot.nq,
        "simulations": records,
        "jacobian": jacobian,
        "statics": statics_record(example),
    }


def tables(results: dict[str, Any]) -> tuple:
    """Simulations, calls, and what failed."""
    systems = results["systems"]
    return simulations_table(systems, results["duration"]), calls_table(systems), *failures(systems)


main = Experiment(
    "rods",
    __doc__,
    study,
    options=[
        option("--systems", nargs="+", choices=NAMES, default=NAMES, help="which (default: all)"),
        option("--methods", nargs="+", choices=METHODS, default=METHODS, help="how (default: all)"),
        option("--duration", type=positive, default=10.0, metavar="S", help="seconds (default: %(default)s)"),
        count("--repeats", 3, "of simulations"),
        option("--limit", type=positive, default=120.0, metavar="S", help="of each (default: %(default)s)"),
    ],
    tables=tables,
    width=140,
)

if __name__ == "__main__":
    sys.exit(main())
