"""Speed: derivative kernels beside Pinocchio, and the parts of one iteration on the arm.

All measurements are made in one run, with calls interleaved, as medians of repeats; only ratios are meaningful.
Pinocchio (extra `peers`) is called once per point through its Python binding, as its users do.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
from rich.console import Console
from rich.table import Table

import dynamics
import problems
from dynamics.derivatives.hessian import inverse_dynamics_expansion
from dynamics.derivatives.packed import packed_size
from dynamics.derivatives.second_order import drive_second_order
from dynamics.model.kernel_model import kernel_model
from dynamics.simd import (
    LANES,
    aligned_empty,
    aligned_zeros,
    by_reference,
    chunk_count,
    driver,
    num_threads,
    scratch,
    set_num_threads,
    span,
)
from dynamics.systems.discrete_system import ClosedLoops
from dynamics.systems.rollouts import drive_closed_loops, feedback_step, rollout_size, slice_rollout, start_lanes
from problems import arm, serial_chain

KNOTS = 64


def interleaved(
    calls: Mapping[str, Callable[[], object]], repeats: int, seconds: float = 2e-3, budget: float = math.inf
) -> dict[str, float]:
    """Median seconds per call of every contestant, taken in turns; each turn lasts about `seconds`.

    There are at most `repeats` rounds and, after the third, no more than fit into about `budget` seconds.
    """
    loops = {}
    for name, call in calls.items():
        call()
        start = time.perf_counter()
        call()
        loops[name] = max(1, int(seconds / max(time.perf_counter() - start, 1e-7)))
    samples = {name: [] for name in calls}
    end = time.perf_counter() + budget
    for turn in range(repeats):
        if turn >= 3 and time.perf_counter() > end:
            break
        for name, call in calls.items():
            start = time.perf_counter()
            for _ in range(loops[name]):
                call()
            samples[name].append((time.perf_counter() - start) / loops[name])
    return {name: float(np.median(times)) for name, times in samples.items()}


# ------------------------------------------------------------------------------------------------ robots
def _robots() -> dict[str, tuple]:
    """name -> (our model, Pinocchio's model or None)."""
    try:
        import pinocchio as pin  # pyright: ignore[reportMissingImports]
    except ImportError:
        return {"arm6": (dynamics.load_urdf(arm.MODEL), None), "chain_24": (serial_chain.model(24), None)}
    robots = {"arm6": (dynamics.load_urdf(arm.MODEL), pin.buildModelFromUrdf(str(arm.MODEL)))}
    try:
        import example_robot_data  # pyright: ignore[reportMissingImports]

        for name, floating in (("ur5", False), ("hyq", True)):
            urdf = example_robot_data.load(name).urdf
            root = (pin.JointModelFreeFlyer(),) if floating else ()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # hyq has links of non-physical inertia
                robots[name] = dynamics.load_urdf(urdf, floating_base=floating), pin.buildModelFromUrdf(urdf, *root)
    except ImportError:
        pass
    return robots


def _ours(model, rng) -> dict[str, Callable[[], object]]:
    q = np.array([dynamics.random_configuration(model, rng) for _ in range(KNOTS)])
    v, a, w = rng.uniform(-1, 1, (3, KNOTS, model.nv))
    chunks = aligned_empty(chunk_count(KNOTS), packed_size(model.arrays), LANES)
    return {
        "inverse dynamics": lambda: dynamics.inverse_dynamics(model, q, v, a),
        "forward dynamics": lambda: dynamics.forward_dynamics(model, q, v, a),
        "inverse, first order": lambda: dynamics.inverse_dynamics_derivatives(model, q, v, a),
        "inverse, first order + Hessian of w'ID": lambda: inverse_dynamics_expansion(model, q, v, a, w),
        "inverse, four tensors, packed": lambda: drive_second_order(model, q, v, a, None, chunks),
        "inverse, four tensors, dense arrays": lambda: dynamics.inverse_dynamics_second_derivatives(model, q, v, a),
        "forward, first order": lambda: dynamics.forward_dynamics_derivatives(model, q, v, a),
        "forward, Hessian of w'FD": lambda: dynamics.forward_dynamics_hessian(model, q, v, a, w),
    }


def _pinocchios(model, rng) -> dict[str, Callable[[], object]]:
    import pinocchio as pin  # pyright: ignore[reportMissingImports]

    data = model.createData()
    points = []
    for _ in range(KNOTS):
        q = pin.integrate(model, pin.neutral(model), rng.uniform(-1, 1, model.nv))
        points.append((q, *rng.uniform(-1, 1, (2, model.nv))))

    def over(function):
        def call():
            for q, v, a in points:
                function(model, data, q, v, a)

        return call

    return {
        "Pinocchio inverse dynamics": over(pin.rnea),
        "Pinocchio forward dynamics": over(pin.aba),
        "Pinocchio inverse, first order": over(pin.computeRNEADerivatives),
        "Pinocchio forward, first order": over(pin.computeABADerivatives),
    }


REFERENCE = {
    "inverse dynamics": "Pinocchio inverse dynamics",
    "forward dynamics": "Pinocchio forward dynamics",
    "inverse, first order": "Pinocchio inverse, first order",
    "inverse, first order + Hessian of w'ID": "Pinocchio inverse, first order",
    "inverse, four tensors, packed": "Pinocchio inverse, first order",
    "inverse, four tensors, dense arrays": "Pinocchio inverse, first order",
    "forward, first order": "Pinocchio forward, first order",
    "forward, Hessian of w'FD": "Pinocchio forward, first order",
}


def derivatives(repeats: int, seed: int) -> list[dict]:
    """One row per robot and quantity: microseconds per knot, Pinocchio's, and the ratio."""
    rows = []
    for name, (model, peer) in _robots().items():
        calls = _ours(model, np.random.default_rng(seed))
        theirs = _pinocchios(peer, np.random.default_rng(seed)) if peer is not None else {}
        times = interleaved(calls | theirs, repeats)
        for quantity in calls:
            ours = times[quantity] / KNOTS * 1e6
            other = times[REFERENCE[quantity]] / KNOTS * 1e6 if theirs else None
            rows.append({
                "robot": name, "nv": model.nv, "quantity": quantity, "microseconds": ours, "pinocchio": other,
                "pinocchio_quantity": REFERENCE[quantity][10:] if theirs else None,
                "ratio": ours / other if other else None,
            })  # fmt: skip
    return rows


# ------------------------------------------------------------------------------------------------ one iteration
@driver
def _scalar_closed_loop(first, last, work, block, p, loops, X, U):
    """The closed-loop rollout of one step length in plain float64: the same source, one knot instead of LANES.

    X (1, N+1, nx), U (1, N, nu)."""
    m, p, loops = kernel_model(block), by_reference(p), by_reference(loops)
    w, _ = slice_rollout(m, X.shape[2] - m.dof_body.size, U.shape[2], p, work)
    start_lanes(m, p.manifold, loops, loops.alphas[0], w.law, span(X[0, 0]))
    for t in range(U.shape[1]):
        feedback_step(m, p, loops, t, 0, w, span(X[0, t]), span(U[0, t]), span(X[0, t + 1]), X, U)


def _rollout_size(system: dynamics.RigidBodySystem) -> int:
    """Scratch size per lane of a closed loop."""
    return rollout_size(system.full.arrays, nq=system.full.nq, nu=system.nu, p=system.plant[1])


def scalar_rollout(
    system: dynamics.RigidBodySystem, x0: np.ndarray, xs: np.ndarray, us: np.ndarray, k: np.ndarray, K: np.ndarray
) -> Callable[[], tuple[np.ndarray, np.ndarray]]:
    """A call that rolls out the full step in plain float64 and returns its xs, us."""
    work = np.empty(_rollout_size(system))
    X, U = np.empty((1, len(us) + 1, system.nx)), np.empty((1, *us.shape))
    loops = ClosedLoops.of(x0, xs, us, k, K, np.ones(1), shift=np.zeros(1))

    def call():
        _scalar_closed_loop(0, 1, work, *system.plant, loops, X, U)
        return X[0], U[0]

    return call


def _lane_rollout(system, x0, xs, us, k, K, alphas) -> Callable[[], object]:
    """A call that rolls out LANES step lengths at once."""
    chunks = chunk_count(len(alphas))
    lanes = aligned_zeros(chunks, LANES)
    lanes.reshape(-1)[: len(alphas)] = alphas
    X, U = aligned_zeros(chunks, len(us) + 1, system.nx, LANES), aligned_zeros(chunks, len(us), system.nu, LANES)
    work = scratch(_rollout_size(system))[0]
    loops = ClosedLoops.of(x0, xs, us, k, K, lanes)
    return lambda: drive_closed_loops(0, chunks, work, *system.plant, loops, 0, len(us), X, U)


def iteration(repeats: int) -> list[dict]:
    """Parts of one iteration on the arm by Euler's method, after five iterations from its start."""
    import trajopt
    from trajopt.backward.backward_pass import sweep
    from trajopt.backward.expansions import total_cost
    from trajopt.interfaces.system import semi_implicit_form
    from trajopt.solvers.formulation import EXACT, Curvature
    from trajopt.solvers.line_search import own_merit, search
    from trajopt.solvers.solve import formulation_of

    problem = problems.make("arm", horizon=100, dt=0.01, integrator="semi_implicit_euler")
    system, N = cast(dynamics.RigidBodySystem, problem.system), problem.horizon
    start = trajopt.DDP(max_iterations=5).solve(problem)
    xs, us = start.xs, start.us

    def iterations(posed):
        """One iLQR and one exact DDP iteration of this formulation, from the same iterate."""
        iterate = posed.start(us, None)

        def step(model, sweep):
            merit, candidates = own_merit(posed.problem.objective.value), posed.candidates(model, sweep)
            search(merit, iterate.cost, (sweep.d1, sweep.d2), candidates)

        def ilqr():
            model = posed.expand(iterate)
            step(model, posed.sweep(model, 0.0))

        before = posed.expand(iterate)
        sweep_before = posed.sweep(before, 0.0)

        def ddp():
            model = posed.expand(iterate, True, (before, sweep_before))
            step(model, posed.sweep(model, 0.0, EXACT))

        return ilqr, ddp

    forward = formulation_of(problem, None, Curvature())
    accelerations = replace(problem, system=dynamics.RigidBodySystem(system.model, system.dt, formulation="inverse"))
    inverse = formulation_of(accelerations, None, Curvature())
    (ilqr, ddp), (inverse_ilqr, inverse_ddp) = iterations(forward), iterations(inverse)
    model = forward.expand(forward.start(us, None))
    found = forward.sweep(model, 0.0)
    k, K, alphas = found.k, found.K, 0.5 ** np.arange(8)
    lam = np.ascontiguousarray(found.Vx[1:])
    h, _ = semi_implicit_form(system)
    calls = {
        "linearize": lambda: system.linearize(xs, us),
        "hessian_products": lambda: system.hessian_products(xs, us, lam),
        "backward pass": lambda: sweep(model.expansion, 0.0, h),
        "rollout, 8 step lengths in lanes": _lane_rollout(system, xs[0], xs, us, k, K, alphas),
        "closed_loop_rollout, 8 step lengths": lambda: system.closed_loop_rollout(xs[0], xs, us, k, K, alphas),
        "rollout, 1 step length, scalar": scalar_rollout(system, xs[0], xs, us, k, K),
        "total cost": lambda: total_cost(problem, xs, us),
        "iLQR iteration": ilqr,
        "DDP iteration": ddp,
        "iLQR iteration, inverse dynamics": inverse_ilqr,
        "DDP iteration, inverse dynamics": inverse_ddp,
    }
    times = interleaved(calls, repeats)
    return [{"part": part, "microseconds": t * 1e6, "per_knot": t / N * 1e6} for part, t in times.items()]


# ------------------------------------------------------------------------------------------------ report
def tables(result: dict) -> list[Table]:
    """Kernels beside Pinocchio, and the parts of an iteration."""
    first = Table(title=f"Derivatives, microseconds per knot ({KNOTS} knots, {result['threads']} thread)")
    for column in ("robot", "nv", "quantity", "ours", "Pinocchio", "of", "ratio"):
        first.add_column(column, justify="left" if column in ("robot", "quantity", "of") else "right")
    for r in result["derivatives"]:
        peer = ("-", "", "-") if r["ratio"] is None else (
            f"{r['pinocchio']:.2f}", r["pinocchio_quantity"], f"{r['ratio']:.3f}")  # fmt: skip
        first.add_row(r["robot"], str(r["nv"]), r["quantity"], f"{r['microseconds']:.3f}", *peer)
    second = Table(title="One iteration on the arm, 100 knots of semi-implicit Euler")
    for column in ("part", "microseconds", "per knot"):
        second.add_column(column, justify="left" if column == "part" else "right")
    for r in result["iteration"]:
        second.add_row(r["part"], f"{r['microseconds']:.1f}", f"{r['per_knot']:.3f}")
    for name, value in result["ratios"].items():
        second.add_row(name, f"{value:.2f}", "")
    return [first, second]


def run(repeats: int, seed: int) -> dict:
    """All measurements with one thread, as a dictionary that json can hold."""
    threads = num_threads()
    set_num_threads(1)
    try:
        parts = iteration(repeats)
        rows = derivatives(repeats, seed)
    finally:
        set_num_threads(threads)
    t = {r["part"]: r["microseconds"] for r in parts}
    ratios = {
        "DDP / iLQR iteration": t["DDP iteration"] / t["iLQR iteration"],
        "DDP iteration, inverse / forward": t["DDP iteration, inverse dynamics"] / t["DDP iteration"],
        "8 step lengths / 1": t["rollout, 8 step lengths in lanes"] / t["rollout, 1 step length, scalar"],
    }
    return {"threads": 1, "derivatives": rows, "iteration": parts, "ratios": ratios}


def main(arguments: list[str] | None = None) -> int:
    """`trajopt bench`: print the tables and write bench.json."""
    parser = argparse.ArgumentParser(prog="trajopt bench", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/bench"), help="folder for bench.json")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random points")
    parser.add_argument("--quick", action="store_true", help="few repeats: a test that it runs")
    options = parser.parse_args(arguments)
    result = run(3 if options.quick else 25, options.seed)
    console = Console()
    for table in tables(result):
        console.print(table)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "bench.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    console.print(f"wrote {options.out / 'bench.json'}")
    return 0
