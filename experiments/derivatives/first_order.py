"""First derivatives of inverse dynamics: IDSVA against the chain rule, and in the ground against the body frame.

    python -m experiments.derivatives.first_order [--quick] [--out DIR] [--seed N]

Paper 000, figures 2 (left), 3 and 4: kinematic trees of N revolute joints, serial and with 2 and 5 children a link.
RNEACR, in body coordinates there, is in the ground frame here, in which it is faster.
Every contestant runs the same lanes on one thread.  Times are per knot; results stay in the lanes, where a caller's
kernel finds them, because copying dense matrices of a branched tree to arrays takes longer than to compute them.
Times with arrays are measured too.  IDSVA computes M besides, which the chain rule does not.
Writes DIR/first_order.json and DIR/first_order.png.
"""

import sys
from collections.abc import Iterator
from typing import Any

from matplotlib.figure import Figure
from rich.table import Table

from experiments.derivatives import trees
from experiments.derivatives.algorithm import INVERSE
from experiments.harness import Run, records
from experiments.harness.pictures import side_by_side

gain, frames = trees.ratio("RNEACR", "IDSVA"), trees.ratio("IDSVA, body frame", "IDSVA")


def knots(N: int, branching: int, quick: bool) -> int:
    """64 as in trajectory optimization, and more where what is done once per call would count: the call itself for
    small trees, zeroing the entries between branches for large branched ones."""
    if quick:
        return 8
    return 512 if N <= 12 else 2048 if branching > 1 and N > 100 else 64


def study(run: Run) -> dict[str, Any]:
    """All trees."""
    quick, seed = run.options.quick, run.options.seed
    sizes, seconds = ((2, 4), 0.02) if quick else (trees.SIZES, 1.5)
    found = trees.tracked(run, sizes)
    rows = [trees.contest(INVERSE, N, b, knots(N, b, quick), seconds, seed) for N, b in found]
    return {"rows": rows, "exponents": trees.exponents(rows, trees.times(INVERSE))}


def tables(results: dict[str, Any]) -> Iterator[Table]:
    """Times and ratios, and growth."""
    shown = [
        {
            **trees.of_tree(row), **trees.in_microseconds(row), "RNEACR / IDSVA": gain(row),
            "body / ground": frames(row), "IDSVA, arrays [µs]": row["us_arrays"]["IDSVA"],
        }
        for row in results["rows"]
    ]  # fmt: skip
    yield records("First derivatives of inverse dynamics, per knot", shown)
    yield records("Growth with N: exponents", trees.per_tree(results["exponents"]))


def draw(results: dict[str, Any]) -> Figure:
    """Times, IDSVA over RNEACR, and ground over body frame."""
    rows = results["rows"]
    both = {
        f"{name}, {tree}": points
        for name, time in trees.times(("IDSVA", "RNEACR")).items()
        for tree, points in trees.by_tree(rows, time).items()
    }
    return side_by_side(
        lambda axes: trees.draw_times(axes, both, title="First derivatives of inverse dynamics"),
        lambda axes: trees.draw_ratios(axes, trees.by_tree(rows, gain), "RNEACR / IDSVA"),
        lambda axes: trees.draw_ratios(axes, trees.by_tree(rows, frames), "IDSVA, body frame / ground frame"),
    )


main = trees.derivatives("first_order", __doc__, study, tables, draw)

if __name__ == "__main__":
    sys.exit(main())
