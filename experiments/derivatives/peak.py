"""What share of a core's peak the derivatives reach.

    python -m experiments.derivatives.peak [--quick] [--out DIR] [--seed N]

The peak is measured, not looked up: independent fused multiply-adds in registers, taking turns with the kernels, so
that both run at the clock that the processor then has.  A kernel's operations per knot are counted by running its
source (see `flops`); over its time in the lanes, on one thread, they give its rate.
Loads, stores and the waits of one operation for another make up the rest: few of the kernels' operations are fused
multiply-adds that wait for nothing, and an operation of another kind counts half of what the peak counts.
Writes DIR/peak.json and DIR/peak.png.
"""

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rich.table import Table

import dynamics
from dynamics.simd import LANES
from experiments.derivatives.chains import chain, humanoid
from experiments.derivatives.flops import operations
from experiments.derivatives.main_kernels import KERNELS, PEAK_OPERATIONS, fma_peak, in_lanes, slab, states
from experiments.derivatives.scaling import draw_bars
from experiments.derivatives.trees import derivatives
from experiments.harness import Run, medians, records
from experiments.harness.pictures import side_by_side
from problems import arm
from problems.quadruped_model import quadruped

PEAK = "peak"
KNOTS = 64


def measure(name: str, model, K: int, seconds: float, seed: int) -> list[dict]:
    """Operations, time, rate and share of the peak of every kernel for one robot."""
    (counts,) = operations(model)
    calls = in_lanes(model, *states(model, K, seed), slab(model))
    times = medians({PEAK: fma_peak, **calls}, seconds)
    peak = 1e-9 * PEAK_OPERATIONS / times[PEAK]
    rows = []
    for kernel in KERNELS:
        rate = 1e-9 * counts[kernel] * K / times[kernel]
        rows.append({
            "robot": name, "nv": model.nv, "kernel": kernel, "knots": K, "operations": counts[kernel],
            "us": 1e6 * times[kernel] / K, "gflops": rate, "peak_gflops": peak, "share": rate / peak,
        })  # fmt: skip
    return rows


HEADINGS = {
    "robot": "robot", "nv": "nv", "kernel": "kernel", "knots": "knots", "operations": "operations per knot",
    "us": "time per knot [µs]", "gflops": "GFLOP/s", "peak_gflops": "peak [GFLOP/s]", "share": "share of peak",
}  # fmt: skip


def draw(results: dict[str, Any]) -> Figure:
    """The shares, a group of bars for every robot."""
    rows = results["rows"]
    title = f"Share of the peak of {np.median([row['peak_gflops'] for row in rows]):.0f} GFLOP/s"
    return side_by_side(lambda axes: draw_bars(axes, rows, "share", "share of the fma peak [-]", title))


def study(run: Run) -> dict[str, Any]:
    """All robots."""
    quick, seed = run.options.quick, run.options.seed
    robots = {"arm6": dynamics.load_urdf(arm.MODEL)}
    if not quick:
        robots |= {"quadruped": quadruped(), "chain 24": chain(24), "humanoid": humanoid()}
    knots, seconds = (2 * LANES, 0.1) if quick else (KNOTS, 5.0)
    names = run.track(robots, "robots")
    return {"rows": [row for name in names for row in measure(name, robots[name], knots, seconds, seed)]}


def tables(results: dict[str, Any]) -> Iterator[Table]:
    """All shares."""
    yield records("Share of a core's peak, one thread, results in the lanes", results["rows"], HEADINGS)


main = derivatives("peak", __doc__, study, tables, draw)

if __name__ == "__main__":
    sys.exit(main())
