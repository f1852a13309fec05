"""First derivatives of inverse dynamics: IDSVA against the chain rule, ground against body frame.

    python -m experiments.derivatives.first_order [--quick] [--out DIR] [--seed N]

Paper 000, figures 2 (left), 3 and 4: kinematic trees of N revolute joints, serial and with 2 and 5 children a link.
Every contestant runs the same lanes on one thread.  Times are per knot; results stay in the lanes, where a caller's
kernel finds them, because copying dense matrices of a branched tree to arrays takes longer than to compute them.
Times with arrays are measured too.  IDSVA computes M besides, which the chain rule does not.
Writes DIR/first_order.json and DIR/first_order.png.
"""

from collections.abc import Callable, Sequence

import numpy as np
from rich.console import Console

import dynamics
from dynamics.derivatives import inverse_dynamics as idsva
from dynamics.simd import launch
from experiments.derivatives import harness, idsva_body_frame
from experiments.derivatives.chains import body_depths, chain
from experiments.derivatives.competitors_common import paths
from experiments.derivatives.rnea_chain_rule import rnea_chain_rule
from experiments.derivatives.rnea_chain_rule_body import body_numbers, drive_body
from experiments.derivatives.rnea_chain_rule_ground import drive_ground, ground_numbers

SIZES = (2, 3, 4, 6, 8, 12, 16, 24, 36, 50, 75, 100, 150, 250, 500)
BRANCHINGS = (1, 2, 5)
NAMES = {1: "serial", 2: "bf = 2", 5: "bf = 5"}
ALGORITHMS = {
    "IDSVA": dynamics.inverse_dynamics_derivatives,
    "IDSVA, body frame": idsva_body_frame.idsva_body_frame,
    "RNEACR": lambda *x: rnea_chain_rule(*x, frame="body"),
    "RNEACR, ground frame": lambda *x: rnea_chain_rule(*x, frame="ground"),
}


def in_lanes(model, q, v, a) -> dict[str, Callable[[], None]]:
    """Calls of the same kernels that write no arrays: they are handed arrays for no knots."""
    K, n, block, tree = len(q), model.nv, model.block, paths(model)
    two = [np.empty((0, n * n)) for _ in range(2)]
    three = [np.empty((0, n * n)) for _ in range(3)]
    sizes = {
        "IDSVA": idsva.derivatives_numbers(model),
        "IDSVA, body frame": idsva_body_frame._numbers(model),
        "RNEACR": body_numbers(tree) + n * (3 + 2 * n),
        "RNEACR, ground frame": ground_numbers(model, tree),
    }
    drivers = {
        "IDSVA": (idsva.drive_derivatives, block, q, v, a, None, *three),
        "IDSVA, body frame": (idsva_body_frame._drive, block, q, v, a, *three),
        "RNEACR": (drive_body, block, tree, q, v, a, *two),
        "RNEACR, ground frame": (drive_ground, block, tree, q, v, a, *two),
    }
    return {
        name: lambda drive=drive, name=name, rest=rest: launch(drive, K, sizes[name], *rest)
        for name, (drive, *rest) in drivers.items()
    }


def knots(N: int, branching: int, quick: bool) -> int:
    """64 as in trajectory optimization, and more where what is done once per call would count: the call itself for
    small trees, zeroing the entries between branches for large branched ones."""
    if quick:
        return 8
    return 512 if N <= 12 else 2048 if branching > 1 and N > 100 else 64


def measure(N: int, branching: int, K: int, seconds: float, seed: int) -> dict:
    """Microseconds per knot of every algorithm, and its largest deviation from IDSVA over the largest entry."""
    model = chain(N, branching)
    q, v, a = np.random.default_rng(seed).uniform(-1.0, 1.0, (3, K, N))
    few = K if N <= 100 else min(K, 16)  # arrays of more would not fit
    calls = {name: lambda f=f: f(model, q[:few], v[:few], a[:few]) for name, f in ALGORITHMS.items()}
    expected = calls["IDSVA"]()
    errors = {name: harness.deviation(call()[:2], expected[:2]) for name, call in calls.items()}
    del expected
    lanes = harness.medians(in_lanes(model, q, v, a), seconds)
    arrays = harness.medians(calls, seconds)
    return {
        "N": N, "branching": branching, "depth": int(body_depths(model).max()), "knots": K, "knots_arrays": few,
        "us": {name: 1e6 * t / K for name, t in lanes.items()},
        "us_arrays": {name: 1e6 * t / few for name, t in arrays.items()}, "error": errors,
    }  # fmt: skip


def fastest_chain_rule(row: dict) -> float:
    """Time of RNEACR in the better of the two frames."""
    return min(row["us"]["RNEACR"], row["us"]["RNEACR, ground frame"])


def table_row(row: dict) -> dict:
    """What the table shows of a measurement."""
    us = row["us"]
    return {
        "tree": NAMES[row["branching"]], "N": row["N"], "depth": row["depth"], "knots": row["knots"],
        **{f"{name} [µs]": t for name, t in us.items()},
        "RNEACR / IDSVA": fastest_chain_rule(row) / us["IDSVA"],
        "body / ground": us["IDSVA, body frame"] / us["IDSVA"],
        "IDSVA, arrays [µs]": row["us_arrays"]["IDSVA"],
    }  # fmt: skip


def exponents(rows: list[dict]) -> dict:
    """Growth of every algorithm with N, by tree, over the upper half of the sizes."""
    return {
        NAMES[b]: {
            name: harness.exponent(*zip(*((r["N"], r["us"][name]) for r in rows if r["branching"] == b), strict=True))
            for name in ALGORITHMS
        }
        for b in BRANCHINGS
    }


def draw(rows: list[dict], path) -> None:
    """Times, IDSVA over RNEACR, and ground over body frame."""

    def series(value) -> dict:
        return {
            NAMES[b]: tuple(zip(*((r["N"], value(r)) for r in rows if r["branching"] == b), strict=True))
            for b in BRANCHINGS
        }

    ours, theirs = series(lambda r: r["us"]["IDSVA"]), series(fastest_chain_rule)
    times = {
        f"{name}, {tree}": points
        for tree in NAMES.values()
        for name, points in (("IDSVA", ours[tree]), ("RNEACR", theirs[tree]))
    }
    gain = series(lambda r: fastest_chain_rule(r) / r["us"]["IDSVA"])
    frames = series(lambda r: r["us"]["IDSVA, body frame"] / r["us"]["IDSVA"])
    harness.plot(
        path,
        lambda axes: harness.draw_times(axes, times, title="First derivatives of inverse dynamics"),
        lambda axes: harness.draw_ratios(axes, gain, "RNEACR / IDSVA"),
        lambda axes: harness.draw_ratios(axes, frames, "IDSVA, body frame / ground frame"),
    )


def main(argv: Sequence[str] | None = None) -> dict:
    """Measure, print the table, write the files; returns what was written as json."""
    options = harness.arguments(__doc__).parse_args(argv)
    sizes, seconds = ((2, 4), 0.02) if options.quick else (SIZES, 1.5)
    threads = dynamics.num_threads()
    dynamics.set_num_threads(1)
    try:
        rows = [
            measure(N, branching, knots(N, branching, options.quick), seconds, options.seed)
            for branching in BRANCHINGS
            for N in sizes
        ]
        results = {"seed": options.seed, "rows": rows, "exponents": exponents(rows)}
        console = Console(width=180)
        harness.show("First derivatives of inverse dynamics, per knot", [table_row(row) for row in rows], console)
        slopes = [{"tree": tree, **values} for tree, values in results["exponents"].items()]
        harness.show("Growth with N: exponents", slopes, console)
        written = [harness.write("first_order", results, options.out), options.out / "first_order.png"]
    finally:
        dynamics.set_num_threads(threads)
    draw(rows, written[1])
    for file in written:
        console.print(f"wrote {file}", highlight=False, soft_wrap=True)
    return results


if __name__ == "__main__":
    main()
