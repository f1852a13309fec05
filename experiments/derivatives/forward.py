"""First derivatives of forward dynamics: FDSVA against the chain rule, and routes to products with M^-1.

    python -m experiments.derivatives.forward [--quick] [--out DIR] [--seed N]

Paper 000, figures 2 (right), 6 and 7 and table III: kinematic trees of N revolute joints, serial and with 2 and 5
children a link.  Contestants run the same lanes on one thread; times are per knot, and results stay in the lanes.
Times with arrays are measured too, and beside them Pinocchio's where it is installed, one point per call from Python.

    FDSVA    a = FD(q, v, tau), IDSVA there, products with M^-1 by the library's choice of route
    FDCR     the same through RNEACR and an explicit M^-1
    ABACR    chain rule through the articulated-body algorithm

The products, all of da = -M^-1 dID and M^-1 itself, are measured by each of the library's routes: FACTOR, DIRECT (the
paper's DMM, here without the zeros between branches) and AZA, as the time of FDSVA by this route less that of what it
does before.  Two robots with a floating base are measured too.
A table has what FDSVA is made of: the accelerations, IDSVA, which is measured alone, and the products.
Writes DIR/forward.json and DIR/forward.png.
"""

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rich.table import Table

from dynamics.algorithms.articulated_body import ARTICULATED, ELIMINATION, forward_dynamics_kernel
from dynamics.algorithms.inverse_mass import product_route
from dynamics.algorithms.kinematics import BODY, DOF
from dynamics.derivatives.inverse_dynamics import InverseDynamicsDerivatives, inverse_dynamics_first_order
from dynamics.model.knot_driver import knot_driver, nb, nv
from dynamics.simd import kernel
from experiments.derivatives import pinocchio_peer, trees
from experiments.derivatives.algorithm import BY_ROUTE, FORWARD, INVERSE, ROUTES, Algorithm
from experiments.derivatives.chains import chain, depths, humanoid
from experiments.derivatives.main_kernels import states
from experiments.derivatives.trees import ratio
from experiments.harness import Run, records
from experiments.harness.pictures import side_by_side
from problems.quadruped_model import quadruped

PRODUCT_SIZES = (2, 4, 8, 16, 24, 32, 40, 50, 65, 80, 100, 150, 200)


# ------------------------------------------------------------------------------------------------ all of it
def pinocchio(model, q, v, tau) -> trees.Peer | None:
    """Pinocchio's computeABADerivatives at the points and what it finds, or None where it is not installed."""
    try:
        call = pinocchio_peer.forward_derivatives(pinocchio_peer.build(model), q, v, tau)
    except ImportError:
        return None
    data = call()
    return call, lambda: (data.ddq_dq, data.ddq_dv, np.triu(data.Minv) + np.triu(data.Minv, 1).T)


def knots(N: int, quick: bool) -> int:
    """64 as in trajectory optimization, and more where the call itself would count."""
    return 8 if quick else 512 if N <= 12 else 64


# ------------------------------------------------------------------------------------------------ parts and products
@kernel
def _before_products(m, q, v, tau, zeros, body, dof, art, elim, a, torque, dq, dv, M):
    """What FDSVA computes before its products: accelerations, and IDSVA there."""
    forward_dynamics_kernel(m, q, v, tau, zeros, None, body, dof, art, elim, a)
    inverse_dynamics_first_order(m, q, v, a, None, body, dof, torque, dq, dv, M)


_drive_before = knot_driver(
    _before_products,
    "q v tau",
    scratch={
        "zeros": nv, "body": nb * BODY, "dof": nv * DOF, "art": nb * ARTICULATED, "elim": nv * ELIMINATION,
        "a": nv, "torque": nv,
    },
    outputs={"dq": nv * nv, "dv": nv * nv, "M": nv * nv},
    zeroed="zeros dq dv M",
)  # fmt: skip
BEFORE = Algorithm(_drive_before, InverseDynamicsDerivatives)


def product_knots(N: int) -> int:
    """As many as make a call's own time, some microseconds, negligible; they hold no memory."""
    return 512 if N <= 50 else 64


def measure_products(tree: str, model, seconds: float, seed: int) -> dict:
    """Microseconds per knot of FDSVA by each route, of what comes before its products, and of the products, which is
    the difference; the library's choice and its regret, the time of its products over that of the fastest."""
    K = product_knots(model.nv)
    q, v, tau, _ = states(model, K, seed)
    calls = {name: algorithm.in_lanes(model, q, v, tau) for name, algorithm in BY_ROUTE.items()}
    calls |= {"before": BEFORE.in_lanes(model, q, v, tau), "IDSVA": INVERSE["IDSVA"].in_lanes(model, q, v, tau)}
    us = trees.microseconds(calls, K, seconds)
    whole = {route: us[f"FDSVA, {route}"] for route in ROUTES}
    products = {route: t - us["before"] for route, t in whole.items()}
    chosen = list(ROUTES)[product_route(model.arrays)]
    best = min(products, key=lambda name: products[name])
    return {
        "tree": tree, "N": model.nv, "mean_depth": float(np.mean(depths(model))), "knots": K, "us": products,
        "us_before": us["before"], "us_IDSVA": us["IDSVA"], "us_whole": whole[chosen],
        "automatic": chosen, "best": best, "regret": products[chosen] / products[best],
    }  # fmt: skip


def crossover(N: Sequence[float], ratio: Sequence[float]) -> float | None:
    """The N above which a ratio of times stays below 1, where the lines through its logarithms cross; None if it never
    gets there, or is there from the first N on, or is lost in the noise of differences of times, which may be negative.
    """
    above = np.flatnonzero(np.asarray(ratio) >= 1.0)
    if above.size == 0 or above[-1] == len(ratio) - 1 or ratio[above[-1] + 1] <= 0.0:
        return None
    i = above[-1]
    (x, x1), (y, y1) = np.log(N[i : i + 2]), np.log(ratio[i : i + 2])
    return float(np.exp(x + (x1 - x) * y / (y - y1)))


def crossovers(rows: list[dict]) -> dict:
    """By tree, the N above which AZA is the faster one."""
    return {
        tree: {
            f"AZA / {other}": crossover(*trees.series(rows, tree, ratio("AZA", other)))
            for other in ("DIRECT", "FACTOR")
        }
        for tree in trees.TREES.values()
    }


# ------------------------------------------------------------------------------------------------ tables and figure
def table_row(row: dict) -> dict:
    """What the table shows of a measurement."""
    arrays = row["us_arrays"]
    return {
        **trees.of_tree(row), **trees.in_microseconds(row),
        **{f"{name} / FDSVA": ratio(name, "FDSVA")(row) for name in ("FDCR", "ABACR")},
        "FDSVA, arrays [µs]": arrays["FDSVA"], "Pinocchio [µs]": arrays.get("Pinocchio"),
        "Pinocchio / FDSVA": arrays["Pinocchio"] / arrays["FDSVA"] if "Pinocchio" in arrays else None,
    }  # fmt: skip


def product_row(row: dict) -> dict:
    """What the table of products shows."""
    return {
        "tree": row["tree"], "N": row["N"], "mean depth": row["mean_depth"], **trees.in_microseconds(row),
        "AZA / DIRECT": ratio("AZA", "DIRECT")(row),
        "automatic": row["automatic"], "best": row["best"], "regret": row["regret"],
    }  # fmt: skip


def composition_row(row: dict) -> dict:
    """What the table of FDSVA's parts shows."""
    whole, idsva = row["us_whole"], row["us_IDSVA"]
    parts = {"FD": row["us_before"] - idsva, "IDSVA": idsva, "products": row["us"][row["automatic"]]}
    return {
        "tree": row["tree"], "N": row["N"], "route": row["automatic"], "FDSVA [µs]": whole,
        **{f"{name} / FDSVA": t / whole for name, t in parts.items()},
    }  # fmt: skip


def tables(results: dict[str, Any]) -> Iterator[Table]:
    """Times, what they are made of, products, growth and crossovers."""
    rows, products = results["rows"], results["products"]
    yield records("First derivatives of forward dynamics, per knot", [table_row(row) for row in rows])
    yield records("What FDSVA is made of, per knot", [composition_row(row) for row in products])
    yield records("Products with the inverse mass matrix, per knot", [product_row(row) for row in products])
    yield records("Growth with N: exponents", trees.per_tree(results["exponents"]))
    yield records("N above which AZA is faster", trees.per_tree(results["crossovers"]))


def draw(results: dict[str, Any]) -> Figure:
    """Times, speed-ups over the chain rules, and speed-up of AZA over DIRECT."""
    rows, products = results["rows"], results["products"]
    shown = {
        f"{name}, {tree}": trees.series(rows, tree, time)
        for tree in (trees.TREES[1], trees.TREES[2])
        for name, time in trees.times(FORWARD).items()
    }
    if "Pinocchio" in rows[0]["us_arrays"]:
        shown["Pinocchio, serial"] = trees.series(rows, trees.TREES[1], lambda r: r["us_arrays"]["Pinocchio"])
    gains = {
        f"{name}, {tree}": points
        for name in ("FDCR", "ABACR")
        for tree, points in trees.by_tree(rows, ratio(name, "FDSVA")).items()
    }
    routes = {tree: trees.series(products, tree, ratio("DIRECT", "AZA")) for tree in trees.TREES.values()}
    return side_by_side(
        lambda axes: trees.draw_times(axes, shown, title="First derivatives of forward dynamics"),
        lambda axes: trees.draw_ratios(axes, gains, "FDCR / FDSVA and ABACR / FDSVA"),
        lambda axes: trees.draw_ratios(axes, routes, "products with $M^{-1}$: DIRECT / AZA"),
    )


def study(run: Run) -> dict[str, Any]:
    """Derivatives of all trees, then the products alone."""
    quick, seed = run.options.quick, run.options.seed
    sizes, product_sizes, seconds = ((2, 4), (2, 4), 0.02) if quick else (trees.SIZES, PRODUCT_SIZES, 1.0)
    rows = [
        trees.contest(FORWARD, N, b, knots(N, quick), seconds, seed, {"Pinocchio": pinocchio})
        for N, b in trees.tracked(run, sizes)
    ]
    robots = [(tree, chain(N, b)) for b, tree in trees.TREES.items() for N in product_sizes]
    robots += [("quadruped", quadruped()), ("humanoid", humanoid())]
    products = [measure_products(*robot, seconds, seed) for robot in run.track(robots, "products")]
    growth = {"exponents": trees.exponents(rows, trees.times(FORWARD)), "crossovers": crossovers(products)}
    return {"rows": rows, "products": products, **growth}


main = trees.derivatives("forward", __doc__, study, tables, draw, width=200)

if __name__ == "__main__":
    sys.exit(main())
