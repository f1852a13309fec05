"""How derivatives lose digits with the number of joints: every method against the complex step.

    python -m experiments.derivatives.accuracy [--quick] [--out DIR] [--seed N]

Paper 000, section V-A: kinematic trees of N revolute joints, serial and with 2 children a link.  The complex step is
exact but for rounding, which it has as much of as what is compared with it, so that these errors are those of the
difference of both.  Central differences are measured for scale.  At a knot, x being compared with the reference y:

    rms        of (x - y) / |y| over all entries of the matrices or tensors, or of (x - y) / max |y| where
               |y| < 1e-12 max |y|: zeros between branches, and entries that cancel to nothing but rounding
    largest    max |x - y| / max |y| of the worst matrix

with max |y| that of the same matrix.  Relative errors of entries near zero have a heavy tail, and the mean over knots
would be that of the worst one; the rms error is therefore the median over knots, with the worst beside it.
Writes DIR/accuracy.json and DIR/accuracy.png.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.table import Table

import dynamics
from experiments.derivatives import complex_step, finite_differences
from experiments.derivatives.algorithm import BY_ROUTE, FORWARD, INVERSE
from experiments.derivatives.chains import chain
from experiments.derivatives.trees import TREES, derivatives, draw_times, exponents, per_tree, series, sizes_of, tracked
from experiments.harness import Run, records
from experiments.harness.pictures import side_by_side

SIZES = (2, 3, 4, 6, 8, 12, 16, 24, 36, 50, 75, 100)
LARGEST_TENSOR = 24  # joints; (N N N) arrays of more are not needed to see the trend
NEGLIGIBLE = 1e-12  # an entry over the largest below which it has no digits to lose
KNOTS = 64
DIFFERENCES = "central differences"
Method = Callable[..., Sequence[np.ndarray]]


class Quantity(NamedTuple):
    """Derivatives, their reference and the methods that are compared with it: functions (model, q, v, u) of batches, u
    being a, or tau for forward dynamics."""

    title: str
    reference: Method
    methods: dict[str, Method]


def by_q_and_v(method: Method) -> Method:
    """Of its derivatives those by q and by v, which all methods have."""
    return lambda *x: method(*x)[:2]


QUANTITIES = {
    "inverse": Quantity(
        "First derivatives of inverse dynamics",
        by_q_and_v(complex_step.inverse_dynamics_derivatives),
        {
            "IDSVA": by_q_and_v(INVERSE["IDSVA"]),
            "RNEACR": INVERSE["RNEACR"],
            DIFFERENCES: by_q_and_v(finite_differences.inverse_dynamics_derivatives),
        },
    ),
    "forward": Quantity("First derivatives of forward dynamics", complex_step.forward_dynamics_derivatives, {
        **BY_ROUTE, **{name: FORWARD[name] for name in ("FDCR", "ABACR")},
        DIFFERENCES: finite_differences.forward_dynamics_derivatives,
    }),
    "second": Quantity("Second derivatives of inverse dynamics", complex_step.inverse_dynamics_second_derivatives, {
        "IDSVA SO, packed": lambda *x: dynamics.inverse_dynamics_second_derivatives(*x, packed=True).dense(),
        DIFFERENCES: finite_differences.inverse_dynamics_second_derivatives,
    }),
}  # fmt: skip


# ------------------------------------------------------------------------------------------------ errors
def errors(value: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> dict[str, float]:
    """The errors above of arrays (K, ...) against their references, all arrays of the same size."""
    squares, largest = [], []
    for x, y in zip(value, expected, strict=True):
        K = len(y)
        x, y = x.reshape(K, -1), y.reshape(K, -1)
        top = np.abs(y).max(axis=1, keepdims=True)
        scale = np.where(np.abs(y) < NEGLIGIBLE * top, top, np.abs(y))
        squares.append(np.mean(((x - y) / scale) ** 2, axis=1))
        largest.append(np.max(np.abs(x - y) / top))
    rms = np.sqrt(np.mean(squares, axis=0))
    return {"rms": float(np.median(rms)), "rms_worst": float(rms.max()), "largest": float(max(largest))}


def measure(N: int, branching: int, K: int, seed: int) -> dict:
    """The errors of all methods at K random knots, by quantity; and the largest condition of their mass matrices."""
    model = chain(N, branching)
    x = np.random.default_rng(seed).uniform(-1.0, 1.0, (3, K, N))
    row = sizes_of(model, branching, K)
    row["condition"] = float(np.linalg.cond(dynamics.mass_matrix(model, x[0])).max())
    for name, (_, reference, methods) in QUANTITIES.items():
        if name != "second" or N <= LARGEST_TENSOR:
            expected = reference(model, *x)
            row[name] = {by: errors(method(model, *x), expected) for by, method in methods.items()}
    return row


# ------------------------------------------------------------------------------------------------ tables and figure
def rms(quantity: str, name: str) -> Callable[[dict], float | None]:
    """The rms error of a method, where it was measured."""
    return lambda row: row[quantity][name]["rms"] if quantity in row else None


def tables(results: dict[str, Any]) -> Iterator[Table]:
    """Both errors and their growth, a table per quantity."""
    for quantity, (title, _, _) in QUANTITIES.items():
        for error, meaning in (("rms", "rms relative error, median"), ("largest", "largest error over largest entry")):
            shown = [
                {
                    "tree": r["tree"], "N": r["N"], "condition of M": r["condition"],
                    **{name: f"{e[error]:.1e}" for name, e in r[quantity].items()},
                }
                for r in results["rows"] if quantity in r
            ]  # fmt: skip
            yield records(f"{title}: {meaning}", shown)
        slopes = per_tree(results["exponents"][quantity])
        yield records(f"{title}: growth of the rms error with N, exponents", slopes)


def draw(results: dict[str, Any]) -> Figure:
    """The rms errors: inverse dynamics, forward dynamics of either tree, second order."""

    def panel(title: str, quantity: str, branchings: Sequence[int]) -> Callable:
        shown = {
            f"{name}, {TREES[b]}": series(results["rows"], TREES[b], rms(quantity, name))
            for b in branchings
            for name in QUANTITIES[quantity].methods
        }

        def draw_panel(axes: Axes) -> None:
            draw_times(axes, shown, "rms relative error [-]", title)
            axes.set(xlim=(1.8, 120.0), ylim=(1e-17, 10.0))  # the same everywhere, with room for the legend
            axes.legend(loc="upper left", frameon=False, fontsize=8)

        return draw_panel

    return side_by_side(
        panel("Inverse dynamics", "inverse", (1, 2)),
        panel("Forward dynamics, serial", "forward", (1,)),
        panel("Forward dynamics, bf = 2", "forward", (2,)),
        panel("Inverse dynamics, second order", "second", (1, 2)),
    )


def study(run: Run) -> dict[str, Any]:
    """All trees."""
    sizes, K = ((2, 4), 8) if run.options.quick else (SIZES, KNOTS)
    rows = [measure(N, b, K, run.options.seed) for N, b in tracked(run, sizes, (1, 2))]
    growth = {
        name: exponents(rows, {by: rms(name, by) for by in quantity.methods}) for name, quantity in QUANTITIES.items()
    }
    return {"rows": rows, "exponents": growth}


main = derivatives("accuracy", __doc__, study, tables, draw, width=160, threads=None)

if __name__ == "__main__":
    sys.exit(main())
