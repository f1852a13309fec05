"""First derivatives of forward dynamics: FDSVA against the chain rule, and routes to products with M^-1.

    python -m experiments.derivatives.forward [--quick] [--out DIR] [--seed N]

Paper 000, figures 2 (right), 6 and 7 and table III: kinematic trees of N revolute joints, serial and with 2 and 5
children a link.  Contestants run the same lanes on one thread; times are per knot, and results stay in the lanes.
Times with arrays are measured too, and beside them Pinocchio's where it is installed, one point per call from Python.

    FDSVA    a = FD(q, v, tau), IDSVA there, products with M^-1 by the library's choice of route
    FDCR     the same through RNEACR and an explicit M^-1
    ABACR    chain rule through the articulated-body algorithm

The products, all of da = -M^-1 dID and M^-1 itself, are measured alone by each of the library's routes: FACTOR, DIRECT
(the paper's DMM, here without the zeros between branches) and AZA.  Two robots with a floating base are measured too.
A table has what FDSVA is made of: the accelerations, IDSVA and the products, each alone.
Writes DIR/forward.json and DIR/forward.png.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rich.table import Table

import dynamics
from dynamics.algorithms.articulated_body import ARTICULATED, ELIMINATION, forward_dynamics_kernel
from dynamics.algorithms.inverse_mass import FOUR6, minus_inverse_products, product_route
from dynamics.algorithms.kinematics import BODY, DOF
from dynamics.derivatives.inverse_dynamics import inverse_dynamics_first_order
from dynamics.model.kernel_model import kernel_model
from dynamics.model.knot_driver import knot_driver, nb, nv
from dynamics.simd import LANES, aligned_empty, driver, kernel, launch, load, split, store
from experiments.derivatives import pinocchio_peer, trees
from experiments.derivatives.algorithm import FORWARD, INVERSE, ROUTES
from experiments.derivatives.chains import chain, depths, humanoid, quadruped
from experiments.derivatives.trees import ratio
from experiments.harness import Run, records
from experiments.harness.pictures import side_by_side

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


# ------------------------------------------------------------------------------------------------ products alone
@kernel
def _inputs_kernel(m, q, v, tau, zeros, body, art, a, torque, dof, elim, M, aq, av):
    """What `minus_inverse_products` is handed: dof, elim, M, dID/dq, dID/dv."""
    forward_dynamics_kernel(m, q, v, tau, zeros, None, body, dof, art, elim, a)
    inverse_dynamics_first_order(m, q, v, a, None, body, dof, torque, aq, av, M)


_drive_inputs = knot_driver(
    _inputs_kernel,
    "q v tau",
    scratch={"zeros": nv, "body": nb * BODY, "art": nb * ARTICULATED, "a": nv, "torque": nv},
    outputs={"dof": nv * DOF, "elim": nv * ELIMINATION, "M": nv * nv, "aq": nv * nv, "av": nv * nv},
    zeroed="zeros M aq av",
)


@kernel
def _copy(source, target):
    for i in range(target.shape[0]):
        store(target, i, load(source, i))


@driver
def _drive_products(first, last, work, block, route, products, inputs):
    """For every chunk a fresh copy of the matrices and, if `products`, what follows from them by a route."""
    m = kernel_model(block)
    n = m.dof_body.size
    dof, w = split(inputs, n * DOF)
    elim, saved = split(w, n * ELIMINATION)
    matrices, w = split(work, 3 * n * n)
    Minv, art = split(w, n * n)
    L, r = split(matrices, n * n)
    aq, av = split(r, n * n)
    for _ in range(first, last):
        _copy(saved, matrices)
        if products:
            minus_inverse_products(m, route, dof, elim, art, L, aq, av, Minv)


def products_size(model) -> int:
    """Workspace size per lane of `_drive_products`: L, A, B, M^-1, and four columns for each degree of freedom or, by
    AZA, four forces for each body up to the last one where branches meet."""
    end, n = model.arrays.subtree_end, model.nv
    meeting = [model.arrays.dof_body[k] + 1 for k in range(n - 1) if k + 1 < end[k] != end[k + 1]]
    return 4 * n**2 + max(4 * n, FOUR6 * max(meeting, default=0))


def product_calls(model, K: int, seed: int) -> dict[str, Callable[[], None]]:
    """Calls of the products at K knots by each route, and of the copying that all of them do first."""
    n = model.nv
    dq, v, tau = np.random.default_rng(seed).uniform(-1.0, 1.0, (3, LANES, n))
    q = dynamics.integrate(model, dynamics.neutral(model), dq)
    outputs = [np.empty((LANES, size)) for size in (n * DOF, n * ELIMINATION, n * n, n * n, n * n)]
    _drive_inputs(model, q, v, tau, *outputs)
    inputs = aligned_empty(sum(x.shape[1] for x in outputs), LANES)
    inputs[:] = np.concatenate(outputs, axis=1).T
    workspace_size = products_size(model)
    routes = {"copy": (0, False), **{name: (route, True) for name, route in ROUTES.items()}}
    return {
        name: partial(launch, _drive_products, K, workspace_size, model.block, *arguments, inputs)
        for name, arguments in routes.items()
    }


def product_knots(N: int) -> int:
    """As many as make a call's own time, some microseconds, negligible; they hold no memory."""
    return 4096 if N <= 12 else 512 if N <= 50 else 64


def measure_products(tree: str, model, seconds: float, seed: int) -> dict:
    """Microseconds per knot of the products by each route, less that of the copying; the library's choice and its
    regret, the time of the chosen route over that of the fastest."""
    K = product_knots(model.nv)
    times = trees.microseconds(product_calls(model, K, seed), K, seconds)
    copying = times.pop("copy")
    us = {name: t - copying for name, t in times.items()}
    chosen = list(ROUTES)[product_route(model.arrays)]
    best = min(us, key=lambda name: us[name])
    return {
        "tree": tree, "N": model.nv, "mean_depth": float(np.mean(depths(model))), "knots": K, "us": us,
        "us_copying": copying, "automatic": chosen, "best": best, "regret": us[chosen] / us[best],
    }  # fmt: skip


def composition(N: int, branching: int, K: int, seconds: float, seed: int) -> dict:
    """Microseconds per knot of FDSVA and of what it is made of, each alone in the lanes: accelerations, IDSVA, and
    products by the library's route, less their copying; and the parts' sum over the whole."""
    model = chain(N, branching)
    q, v, tau = np.random.default_rng(seed).uniform(-1.0, 1.0, (3, K, N))
    route = list(ROUTES)[product_route(model.arrays)]
    products = product_calls(model, K, seed)
    calls = {
        "FD": lambda: dynamics.forward_dynamics(model, q, v, tau), "IDSVA": INVERSE["IDSVA"].in_lanes(model, q, v, tau),
        "products": products[route], "copy": products["copy"], "FDSVA": FORWARD["FDSVA"].in_lanes(model, q, v, tau),
    }  # fmt: skip
    us = trees.microseconds(calls, K, seconds)
    us["products"] -= us.pop("copy")
    parts = us["FD"] + us["IDSVA"] + us["products"]
    return trees.sizes_of(model, branching, K) | {"route": route, "us": us, "sum": parts / us["FDSVA"]}


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
        "tree": row["tree"], "N": row["N"], "mean depth": row["mean_depth"],
        **trees.in_microseconds(row), "copying [µs]": row["us_copying"],
        "AZA / DIRECT": ratio("AZA", "DIRECT")(row),
        "automatic": row["automatic"], "best": row["best"], "regret": row["regret"],
    }  # fmt: skip


def composition_row(row: dict) -> dict:
    """What the table of FDSVA's parts shows."""
    whole = row["us"]["FDSVA"]
    shares = {f"{name} / FDSVA": row["us"][name] / whole for name in ("FD", "IDSVA", "products")}
    return {**trees.of_tree(row), "route": row["route"], "FDSVA [µs]": whole, **shares, "sum of parts": row["sum"]}


def tables(results: dict[str, Any]) -> Iterator[Table]:
    """Times, what they are made of, products, growth and crossovers."""
    rows, products = results["rows"], results["products"]
    yield records("First derivatives of forward dynamics, per knot", [table_row(row) for row in rows])
    yield records("What FDSVA is made of, per knot", [composition_row(row) for row in results["composition"]])
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
    parts = [composition(N, b, knots(N, quick), seconds, seed) for N, b in trees.tracked(run, sizes)]
    return {
        "rows": rows,
        "composition": parts,
        "exponents": trees.exponents(rows, trees.times(FORWARD)),
        "products": products,
        "crossovers": crossovers(products),
    }


main = trees.derivatives("forward", __doc__, study, tables, draw, width=200)

if __name__ == "__main__":
    sys.exit(main())
