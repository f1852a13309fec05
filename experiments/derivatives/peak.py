"""What share of a core's peak the derivatives reach.

    python -m experiments.derivatives.peak [--quick] [--out DIR] [--seed N]

The peak is measured, not looked up: independent fused multiply-adds in registers, taking turns with the kernels, so
that both run at the clock that the processor then has.  A kernel's operations per knot are counted by running its
source (see `flops`); over its time in the lanes, on one thread, they give its rate.
Loads, stores and the waits of one operation for another make up the rest: few of the kernels' operations are fused
multiply-adds that wait for nothing, and an operation of another kind counts half of what the peak counts.
Writes DIR/peak.json and DIR/peak.png.
"""

from collections.abc import Sequence

import numpy as np
from rich.console import Console

import dynamics
from dynamics.simd import LANES
from experiments.derivatives import harness
from experiments.derivatives.chains import chain, humanoid, quadruped
from experiments.derivatives.flops import operations
from experiments.derivatives.main_kernels import KERNELS, PEAK_OPERATIONS, fma_peak, in_lanes, slab, states
from experiments.derivatives.scaling import draw_bars
from problems import arm

PEAK = "peak"
KNOTS = 64


def measure(name: str, model, K: int, seconds: float, seed: int) -> list[dict]:
    """Operations, time, rate and share of the peak of every kernel for one robot."""
    (counts,) = operations(model)
    calls = in_lanes(model, *states(model, K, seed), slab(model))
    times = harness.medians({PEAK: fma_peak, **calls}, seconds)
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


def main(argv: Sequence[str] | None = None) -> dict:
    """Measure, print the table, write the files; returns what was written as json."""
    options = harness.arguments(__doc__).parse_args(argv)
    robots = {"arm6": dynamics.load_urdf(arm.MODEL)}
    if not options.quick:
        robots |= {"quadruped": quadruped(), "chain 24": chain(24), "humanoid": humanoid()}
    knots, seconds = (2 * LANES, 0.1) if options.quick else (KNOTS, 5.0)
    console, threads = Console(width=180), dynamics.num_threads()
    dynamics.set_num_threads(1)
    try:
        rows = [row for name, model in robots.items() for row in measure(name, model, knots, seconds, options.seed)]
        results = {"seed": options.seed, "rows": rows}
        written = [harness.write("peak", results, options.out), options.out / "peak.png"]
    finally:
        dynamics.set_num_threads(threads)
    table = [{heading: row[key] for key, heading in HEADINGS.items()} for row in rows]
    harness.show("Share of a core's peak, one thread, results in the lanes", table, console)
    title = f"Share of the peak of {np.median([row['peak_gflops'] for row in rows]):.0f} GFLOP/s"
    harness.plot(written[1], lambda axes: draw_bars(axes, rows, "share", "share of the fma peak [-]", title))
    for file in written:
        console.print(f"wrote {file}", highlight=False, soft_wrap=True)
    return results


if __name__ == "__main__":
    main()
