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

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from experiments.rods.figures import plot_snapshots
from experiments.rods.measure import METHODS, jacobian_times, simulations, statics_record
from experiments.rods.systems import NAMES, make, scenery
from experiments.rods.tables import calls_table, failures, simulations_table

BRIEF = 1e-4
"""Seconds of a first simulation, which compiles."""


def parser() -> argparse.ArgumentParser:
    """The options."""
    description = (__doc__ or "").split("\n", 1)[0]
    result = argparse.ArgumentParser(prog="python -m experiments.rods", description=description)
    result.add_argument("--systems", nargs="+", choices=NAMES, default=NAMES, help="which (default: all)")
    result.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS, help="how (default: all)")
    result.add_argument("--duration", type=float, default=10.0, metavar="S", help="seconds (default: %(default)s)")
    result.add_argument("--repeats", type=int, default=3, metavar="N", help="of simulations (default: %(default)s)")
    result.add_argument("--limit", type=float, default=120.0, metavar="S", help="of each (default: %(default)s)")
    result.add_argument("--out", type=Path, default=Path("results/rods"), help="folder (default: %(default)s)")
    return result


def main(argv: Sequence[str] | None = None) -> int:
    """Run the study; returns the exit code."""
    options = parser().parse_args(argv)
    for name in ("duration", "repeats", "limit"):
        if getattr(options, name) <= 0:
            parser().error(f"--{name}: got {getattr(options, name)}, wanted a positive number")
    console, results = Console(width=140), {}
    options.out.mkdir(parents=True, exist_ok=True)
    with Progress(console=Console(stderr=True), transient=True) as progress:
        for name in progress.track(options.systems, description="soft robots"):
            results[name] = study(name, options)
    console.print(simulations_table(results, options.duration), calls_table(results), *failures(results), sep="\n\n")
    data = {"duration": options.duration, "repeats": options.repeats, "systems": results}
    (options.out / "rods.json").write_text(json.dumps(data, indent=1), encoding="utf-8")
    for file in ("rods.json", *(f"{name}.png" for name in results if (options.out / f"{name}.png").exists())):
        console.print(f"wrote {options.out / file}", highlight=False, soft_wrap=True)
    return 0


def study(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """All figures of one system; draws its snapshots."""
    example, methods = make(name), tuple(options.methods)
    simulations(example, BRIEF, methods, 1, float("inf"))  # compiles
    records, run = simulations(example, options.duration, methods, options.repeats, options.limit)
    jacobian = None
    if run is not None:
        plot_snapshots(example, run, scenery(name), options.out / f"{name}.png")
        jacobian = jacobian_times(example, run)
    return {
        "coordinates": example.robot.nq,
        "simulations": records,
        "jacobian": jacobian,
        "statics": statics_record(example),
    }


if __name__ == "__main__":
    sys.exit(main())
