"""First derivatives of inverse dynamics: IDSVA against the chain rule, ground against body frame.

    python -m experiments.derivatives.first_order [--quick] [--out DIR] [--seed N]

Paper 000, figures 2 (left), 3 and 4: kinematic trees of N revolute joints, serial and with 2 and 5 children a link.
Every contestant runs the same lanes on one thread.  Times are per knot; results stay in the lanes, where a caller's
kernel finds them, because copying dense matrices of a branched tree to arrays takes longer than to compute them.
Times with arrays are measured too.  IDSVA computes M besides, which the chain rule does not.
Writes DIR/first_order.json and DIR/first_order.png.
"""

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rich.table import Table

from experiments.derivatives import trees
from experiments.derivatives.algorithm import INVERSE as ALGORITHMS
from experiments.derivatives.chains import chain
from experiments.derivatives.experiment import derivatives
from experiments.harness import Run, records
from experiments.harness.pictures import side_by_side

SIZES = (2, 3, 4, 6, 8, 12, 16, 24, 36, 50, 75, 100, 150, 250, 500)


def knots(N: int, branching: int, quick: bool) -> int:
    """64 as in trajectory optimization, and more where what is done once per call would count: the call itself for
    small trees, zeroing the entries between branches for large branched ones."""
    if quick:
        return 8
    return 512 if N <= 12 else 2048 if branching > 1 and N > 100 else 64


def measure(N: int, branching: int, K: int, seconds: float, seed: int) -> dict:
    """Microseconds per knot of every algorithm, and its largest deviation from IDSVA over the largest entry."""
    model = chain(N, branching)
    points = np.random.default_rng(seed).uniform(-1.0, 1.0, (3, K, N))
    few = K if N <= 100 else min(K, 16)  # arrays of more would not fit
    some = points[:, :few]
    expected = ALGORITHMS["IDSVA"](model, *some)[:2]
    errors = {name: trees.deviation(algorithm(model, *some)[:2], expected) for name, algorithm in ALGORITHMS.items()}
    del expected
    found = trees.contest(model, points, few, seconds, ALGORITHMS)
    return trees.sizes_of(model, branching, K) | {"knots_arrays": few, **found, "error": errors}


def fastest_chain_rule(row: dict) -> float:
    """Time of RNEACR in the better of the two frames."""
    return min(row["us"]["RNEACR"], row["us"]["RNEACR, ground frame"])


def gain(row: dict) -> float:
    """Time of the faster RNEACR over that of IDSVA."""
    return fastest_chain_rule(row) / row["us"]["IDSVA"]


def frames(row: dict) -> float:
    """Time in the body frame over that in the ground frame."""
    return row["us"]["IDSVA, body frame"] / row["us"]["IDSVA"]


def study(run: Run) -> dict[str, Any]:
    """All trees."""
    quick = run.options.quick
    sizes, seconds = ((2, 4), 0.02) if quick else (SIZES, 1.5)
    rows = [
        measure(N, branching, knots(N, branching, quick), seconds, run.options.seed)
        for branching, N in trees.tracked(run, sizes)
    ]
    return {"rows": rows, "exponents": trees.exponents(rows, trees.times(ALGORITHMS))}


def tables(results: dict[str, Any]) -> Iterator[Table]:
    """Times and ratios, and growth."""
    shown = [
        {
            **trees.of_tree(row), **{f"{name} [µs]": t for name, t in row["us"].items()},
            "RNEACR / IDSVA": gain(row), "body / ground": frames(row), "IDSVA, arrays [µs]": row["us_arrays"]["IDSVA"],
        }
        for row in results["rows"]
    ]  # fmt: skip
    yield records("First derivatives of inverse dynamics, per knot", shown)
    yield records("Growth with N: exponents", trees.per_tree(results["exponents"]))


def draw(results: dict[str, Any]) -> Figure:
    """Times, IDSVA over RNEACR, and ground over body frame."""
    rows = results["rows"]
    ours, theirs = trees.by_tree(rows, lambda r: r["us"]["IDSVA"]), trees.by_tree(rows, fastest_chain_rule)
    both = {
        f"{name}, {tree}": of_tree[tree] for tree in ours for name, of_tree in (("IDSVA", ours), ("RNEACR", theirs))
    }
    return side_by_side(
        lambda axes: trees.draw_times(axes, both, title="First derivatives of inverse dynamics"),
        lambda axes: trees.draw_ratios(axes, trees.by_tree(rows, gain), "RNEACR / IDSVA"),
        lambda axes: trees.draw_ratios(axes, trees.by_tree(rows, frames), "IDSVA, body frame / ground frame"),
    )


main = derivatives("first_order", __doc__, study, tables=tables, pictures={"first_order.png": draw})

if __name__ == "__main__":
    sys.exit(main())
