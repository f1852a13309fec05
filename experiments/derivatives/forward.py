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
Writes DIR/forward.json and DIR/forward.png.
"""

from collections.abc import Callable, Sequence

import numpy as np
from rich.console import Console

import dynamics
from dynamics.algorithms.articulated_body import ARTICULATED, ELIMINATION, forward_dynamics_kernel
from dynamics.algorithms.inverse_mass import AUTOMATIC, AZA, DIRECT, FACTOR, minus_inverse_products, product_route
from dynamics.algorithms.kinematics import BODY, DOF
from dynamics.derivatives import forward_dynamics as fdsva
from dynamics.derivatives.inverse_dynamics import inverse_dynamics_first_order
from dynamics.kernel_model import kernel_model
from dynamics.simd import LANES, aligned_zeros, carve, driver, gather_state, kernel, launch, load, store
from experiments.derivatives import aba_chain_rule, forward_chain_rule, harness, pinocchio_peer
from experiments.derivatives.chains import body_depths, chain, humanoid, quadruped
from experiments.derivatives.competitors_common import paths

SIZES = (2, 3, 4, 6, 8, 12, 16, 24, 36, 50, 75, 100)
PRODUCT_SIZES = (2, 4, 8, 16, 24, 32, 40, 50, 65, 80, 100, 150, 200)
NAMES = {1: "serial", 2: "bf = 2", 5: "bf = 5"}
ALGORITHMS = {
    "FDSVA": dynamics.forward_dynamics_derivatives,
    "FDCR": forward_chain_rule.forward_chain_rule,
    "ABACR": aba_chain_rule.aba_chain_rule,
}
ROUTES = {"FACTOR": FACTOR, "DIRECT": DIRECT, "AZA": AZA}


# ------------------------------------------------------------------------------------------------ all of it
def in_lanes(model, q, v, tau) -> dict[str, Callable[[], None]]:
    """Calls of the same kernels that write no arrays: they are handed arrays for no knots."""
    K, n, block, tree = len(q), model.nv, model.block, paths(model)
    none = [np.empty((0, n * n)) for _ in range(3)]
    sizes = {
        "FDSVA": fdsva.first_order_numbers(model),
        "FDCR": forward_chain_rule._numbers(model, tree),
        "ABACR": aba_chain_rule._numbers(tree),
    }
    drivers = {
        "FDSVA": (fdsva.drive_first_order, block, q, v, tau, AUTOMATIC, None, *none),
        "FDCR": (forward_chain_rule._drive, block, tree, q, v, tau, *none),
        "ABACR": (aba_chain_rule._drive, block, tree, q, v, tau, *none),
    }
    return {
        name: lambda drive=drive, name=name, rest=rest: launch(drive, K, sizes[name], *rest)
        for name, (drive, *rest) in drivers.items()
    }


def pinocchio_call(model, q, v, tau) -> Callable | None:
    """Pinocchio's computeABADerivatives at the points, or None where it is not installed."""
    try:
        return pinocchio_peer.forward_derivatives(pinocchio_peer.build(model), q, v, tau)
    except ImportError:
        return None


def knots(N: int, quick: bool) -> int:
    """64 as in trajectory optimization, and more where the call itself would count."""
    return 8 if quick else 512 if N <= 12 else 64


def measure(N: int, branching: int, K: int, seconds: float, seed: int) -> dict:
    """Microseconds per knot of every algorithm, and its largest deviation from FDSVA over the largest entry."""
    model = chain(N, branching)
    q, v, tau = np.random.default_rng(seed).uniform(-1.0, 1.0, (3, K, N))
    calls = {name: lambda f=f: f(model, q, v, tau) for name, f in ALGORITHMS.items()}
    results = {name: call() for name, call in calls.items()}
    errors = {name: harness.deviation(result, results["FDSVA"]) for name, result in results.items()}
    peer = pinocchio_call(model, q, v, tau)
    if peer:
        data = peer()
        last = [x[-1] for x in results["FDSVA"]]
        theirs = data.ddq_dq, data.ddq_dv, np.triu(data.Minv) + np.triu(data.Minv, 1).T
        errors["Pinocchio"] = harness.deviation(theirs, last)
        calls["Pinocchio"] = peer
    lanes = harness.medians(in_lanes(model, q, v, tau), seconds)
    arrays = harness.medians(calls, seconds)
    return {
        "N": N, "branching": branching, "depth": int(body_depths(model).max()), "knots": K,
        "us": {name: 1e6 * t / K for name, t in lanes.items()},
        "us_arrays": {name: 1e6 * t / K for name, t in arrays.items()}, "error": errors,
    }  # fmt: skip


# ------------------------------------------------------------------------------------------------ products alone
def inputs_numbers(model) -> int:
    """Numbers per lane that the products start from: dof, elim, M, dID/dq, dID/dv."""
    n = model.nv
    return n * (DOF + ELIMINATION + 3 * n)


@driver
def _drive_inputs(first, last, work, block, q, v, tau, inputs):
    """What `minus_inverse_products` is handed, at the first LANES knots, into inputs (numbers, LANES)."""
    m = kernel_model(block)
    nb, n = m.parent.size, m.dof_body.size
    dof, w = carve(inputs, n * DOF)
    elim, w = carve(w, n * ELIMINATION)
    M, w = carve(w, n * n)
    aq, w = carve(w, n * n)
    av, w = carve(w, n * n)
    body, r = carve(work, nb * BODY)
    art, r = carve(r, nb * ARTICULATED)
    q_, v_, tau_, r = gather_state(q, v, tau, 0, r)
    zeros, r = carve(r, n)
    a, r = carve(r, n)
    torque, r = carve(r, n)
    zeros[:] = 0.0
    forward_dynamics_kernel(m, q_, v_, tau_, zeros, None, body, dof, art, elim, a)
    inverse_dynamics_first_order(m, q_, v_, a, None, body, dof, torque, aq, av, M)


@kernel
def _copy(source, target):
    for i in range(target.shape[0]):
        store(target, i, load(source, i))


@driver
def _drive_products(first, last, work, block, route, products, inputs):
    """For every chunk a fresh copy of the matrices and, if `products`, what follows from them by a route."""
    m = kernel_model(block)
    n = m.dof_body.size
    dof, w = carve(inputs, n * DOF)
    elim, saved = carve(w, n * ELIMINATION)
    matrices, w = carve(work, 3 * n * n)
    Minv, art = carve(w, n * n)
    L, r = carve(matrices, n * n)
    aq, av = carve(r, n * n)
    for _ in range(first, last):
        _copy(saved, matrices)
        if products:
            minus_inverse_products(m, route, dof, elim, art, L, aq, av, Minv)


def products_numbers(model) -> int:
    """Scratch numbers per lane of `_drive_products`: L, A, B, M^-1 and what the routes need."""
    return 4 * model.nv**2 + model.nb * ARTICULATED


def product_calls(model, K: int, seed: int) -> dict[str, Callable[[], None]]:
    """Calls of the products at K knots by each route, and of the copying that all of them do first."""
    n = model.nv
    dq, v, tau = np.random.default_rng(seed).uniform(-1.0, 1.0, (3, LANES, n))
    q = dynamics.integrate(model, dynamics.neutral(model), dq)
    inputs = aligned_zeros(inputs_numbers(model), LANES)
    launch(_drive_inputs, LANES, model.nb * (BODY + ARTICULATED) + model.nq + 5 * n, model.block, q, v, tau, inputs)
    numbers = products_numbers(model)
    routes = {"copy": (FACTOR, False), **{name: (route, True) for name, route in ROUTES.items()}}
    return {
        name: lambda arguments=arguments: launch(_drive_products, K, numbers, model.block, *arguments, inputs)
        for name, arguments in routes.items()
    }


def product_knots(N: int) -> int:
    """As many as make a call's own time, some microseconds, negligible; they hold no memory."""
    return 4096 if N <= 12 else 512 if N <= 50 else 64


def measure_products(tree: str, model, seconds: float, seed: int) -> dict:
    """Microseconds per knot of the products by each route, less that of the copying; the library's choice and its
    regret, the time of the chosen route over that of the fastest."""
    K = product_knots(model.nv)
    times = {name: 1e6 * t / K for name, t in harness.medians(product_calls(model, K, seed), seconds).items()}
    copying = times.pop("copy")
    us = {name: t - copying for name, t in times.items()}
    chosen = list(ROUTES)[product_route(model.arrays)]
    best = min(us, key=lambda name: us[name])
    return {
        "tree": tree, "N": model.nv, "mean_depth": mean_depth(model), "knots": K, "us": us, "us_copying": copying,
        "automatic": chosen, "best": best, "regret": us[chosen] / us[best],
    }  # fmt: skip


def mean_depth(model) -> float:
    """Mean number of degrees of freedom on the path from the root to each, itself included."""
    m = model.arrays
    return float(np.mean(m.subtree_end - np.arange(model.nv)))


def crossover(N: Sequence[float], ratio: Sequence[float]) -> float | None:
    """The N above which a ratio of times stays below 1, where the lines through its logarithms cross; None if it never
    gets there, or is there from the first N on."""
    above = np.flatnonzero(np.asarray(ratio) >= 1.0)
    if above.size == 0 or above[-1] == len(ratio) - 1:
        return None
    i = above[-1]
    (x, x1), (y, y1) = np.log(N[i : i + 2]), np.log(ratio[i : i + 2])
    return float(np.exp(x + (x1 - x) * y / (y - y1)))


def crossovers(rows: list[dict]) -> dict:
    """By tree, the N above which AZA is the faster one."""
    return {
        tree: {f"AZA / {other}": crossover(*_points(rows, tree, "AZA", other)) for other in ("DIRECT", "FACTOR")}
        for tree in NAMES.values()
    }


def _points(rows: list[dict], tree: str, a: str, b: str) -> tuple:
    """N and time of route a over that of b."""
    return tuple(zip(*((r["N"], r["us"][a] / r["us"][b]) for r in rows if r["tree"] == tree), strict=True))


# ------------------------------------------------------------------------------------------------ tables and figure
def table_row(row: dict) -> dict:
    """What the table shows of a measurement."""
    us, arrays = row["us"], row["us_arrays"]
    return {
        "tree": NAMES[row["branching"]], "N": row["N"], "depth": row["depth"], "knots": row["knots"],
        **{f"{name} [µs]": t for name, t in us.items()},
        "FDCR / FDSVA": us["FDCR"] / us["FDSVA"], "ABACR / FDSVA": us["ABACR"] / us["FDSVA"],
        "FDSVA, arrays [µs]": arrays["FDSVA"], "Pinocchio [µs]": arrays.get("Pinocchio"),
        "Pinocchio / FDSVA": arrays["Pinocchio"] / arrays["FDSVA"] if "Pinocchio" in arrays else None,
    }  # fmt: skip


def product_row(row: dict) -> dict:
    """What the table of products shows."""
    return {
        "tree": row["tree"], "N": row["N"], "mean depth": row["mean_depth"],
        **{f"{name} [µs]": t for name, t in row["us"].items()}, "copying [µs]": row["us_copying"],
        "AZA / DIRECT": row["us"]["AZA"] / row["us"]["DIRECT"],
        "automatic": row["automatic"], "best": row["best"], "regret": row["regret"],
    }  # fmt: skip


def exponents(rows: list[dict]) -> dict:
    """Growth of every algorithm with N, by tree, over the upper half of the sizes."""
    return {
        NAMES[b]: {
            name: harness.exponent(*zip(*((r["N"], r["us"][name]) for r in rows if r["branching"] == b), strict=True))
            for name in ALGORITHMS
        }
        for b in NAMES
    }


def draw(rows: list[dict], products: list[dict], path) -> None:
    """Times, speed-ups over the chain rules, and speed-up of AZA over DIRECT."""

    def series(b: int, value) -> tuple:
        return tuple(zip(*((r["N"], value(r)) for r in rows if r["branching"] == b), strict=True))

    times = {
        f"{name}, {NAMES[b]}": series(b, lambda r, name=name: r["us"][name]) for b in (1, 2) for name in ALGORITHMS
    }
    if "Pinocchio" in rows[0]["us_arrays"]:
        times["Pinocchio, serial"] = series(1, lambda r: r["us_arrays"]["Pinocchio"])
    gains = {
        f"{name}, {tree}": series(b, lambda r, name=name: r["us"][name] / r["us"]["FDSVA"])
        for name in ("FDCR", "ABACR")
        for b, tree in NAMES.items()
    }
    routes = {tree: _points(products, tree, "DIRECT", "AZA") for tree in NAMES.values()}
    harness.plot(
        path,
        lambda axes: harness.draw_times(axes, times, title="First derivatives of forward dynamics"),
        lambda axes: harness.draw_ratios(axes, gains, "FDCR / FDSVA and ABACR / FDSVA"),
        lambda axes: harness.draw_ratios(axes, routes, "products with $M^{-1}$: DIRECT / AZA"),
    )


def print_tables(results: dict, console: Console) -> None:
    """Times, growth, products and crossovers."""
    rows, products = results["rows"], results["products"]
    harness.show("First derivatives of forward dynamics, per knot", [table_row(r) for r in rows], console)
    by_tree = {"Growth with N: exponents": "exponents", "N above which AZA is faster": "crossovers"}
    harness.show("Products with the inverse mass matrix, per knot", [product_row(r) for r in products], console)
    for title, key in by_tree.items():
        harness.show(title, [{"tree": tree, **values} for tree, values in results[key].items()], console)


def main(argv: Sequence[str] | None = None) -> dict:
    """Measure, print the tables, write the files; returns what was written as json."""
    options = harness.arguments(__doc__).parse_args(argv)
    quick, seed = options.quick, options.seed
    sizes, product_sizes, seconds = ((2, 4), (2, 4), 0.02) if quick else (SIZES, PRODUCT_SIZES, 1.0)
    threads = dynamics.num_threads()
    dynamics.set_num_threads(1)
    try:
        rows = [measure(N, b, knots(N, quick), seconds, seed) for b in NAMES for N in sizes]
        trees = [(NAMES[b], chain(N, b)) for b in NAMES for N in product_sizes]
        trees += [("quadruped", quadruped()), ("humanoid", humanoid())]
        products = [measure_products(tree, model, seconds, seed) for tree, model in trees]
        results = {
            "seed": seed, "rows": rows, "exponents": exponents(rows), "products": products,
            "crossovers": crossovers(products),
        }  # fmt: skip
        written = [harness.write("forward", results, options.out), options.out / "forward.png"]
    finally:
        dynamics.set_num_threads(threads)
    console = Console(width=200)
    print_tables(results, console)
    draw(rows, products, written[1])
    for file in written:
        console.print(f"wrote {file}", highlight=False, soft_wrap=True)
    return results


if __name__ == "__main__":
    main()
