"""Simulations by several methods, and times per call; each time is the least of its repeats."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from dynamics.rods.kinematics.center_lines import link_placements
from dynamics.rods.statics.equilibrium import static_equilibrium
from dynamics.rods.stepping.simulation import Simulation, simulate
from experiments.harness import in_turns
from experiments.rods.paper import TABLE
from experiments.rods.systems import static_inputs
from problems.rods.example import RodExample

METHODS = ("exact", "differences", "newmark", "adaptive")
CALLS, EQUILIBRIA, SEED = 20, 50, 0
TIGHT = {"rtol": 1e-6, "atol": 1e-9}


def options_of(example: RodExample, method: str) -> dict[str, Any]:
    """Arguments of `simulate`."""
    options: dict[str, Any] = {"wrenches": example.wrenches}
    if example.prescribed is not None:
        options["prescribed"] = example.prescribed
    if method == "newmark":
        return options | {"method": "newmark", "dt": TABLE[example.name].step}
    if method == "adaptive":
        return options | {"method": "newmark"}
    return options | {"method": "bdf", "jacobian": method == "exact"}


class TimeLimitError(RuntimeError):
    """A simulation that takes too long."""


def within(limit: float, controls: Callable[[float], Any]) -> Callable[[float], Any]:
    """The controls, which end a simulation that asks for them after so many seconds."""
    start = time.perf_counter()

    def limited(t: float):
        if time.perf_counter() - start > limit:
            raise TimeLimitError(f"stopped after {limit:g} s at t = {t:.3g} s")
        return controls(t)

    return limited


def simulations(
    example: RodExample, duration: float, methods: tuple[str, ...], repeats: int, limit: float
) -> tuple[dict[str, dict[str, Any]], Simulation | None]:
    """A record for every method, methods taken in turn, with the error at the end, m; and the motion of the first that
    succeeded."""
    records: dict[str, dict[str, Any]] = {}
    runs: dict[str, Simulation] = {}
    for _ in range(repeats):
        for method in methods:
            if "failed" in records.get(method, {}):
                continue
            start = time.perf_counter()
            try:
                controls = within(limit, example.controls)
                run = simulate(example.robot, duration, controls, **options_of(example, method))
            except RuntimeError as error:
                records[method] = {"failed": str(error)}
                continue
            seconds = time.perf_counter() - start
            before = records.get(method, {"seconds": np.inf})
            counts = {"steps": run.steps, "evaluations": run.evaluations, "jacobians": run.jacobians}
            records[method], runs[method] = {"seconds": min(seconds, before["seconds"]), **counts}, run
    exact = reference(example, duration, limit) if runs else None
    for method, run in runs.items():
        records[method]["error"] = None if exact is None else _distance(example, exact, run)
    return records, next(iter(runs.values()), None)


def reference(example: RodExample, duration: float, limit: float) -> Simulation | None:
    """The motion at tolerances a thousand times as tight; None if that takes too long."""
    options = options_of(example, "exact") | TIGHT
    try:
        return simulate(example.robot, duration, within(limit, example.controls), **options)
    except RuntimeError:
        return None


def _distance(example: RodExample, first: Simulation, second: Simulation) -> float:
    """Largest distance of a link's frame at the end, m."""
    ends = [link_placements(example.robot.model, run.q[-1])[1] for run in (first, second)]
    return float(np.linalg.norm(ends[1] - ends[0], axis=-1).max())


def jacobian_times(example: RodExample, run: Simulation) -> dict[str, float]:
    """ms of the Jacobian of the accelerations halfway through a motion: exact, and by differences in one batch."""
    robot, k = example.robot, len(run.t) // 2
    q, v, n = run.q[k], run.v[k], robot.nq
    u = np.asarray(example.controls(run.t[k]), float)
    wrenches = None if example.wrenches is None else np.asarray(example.wrenches(run.t[k]), float)
    steps = 1e-7 * np.eye(2 * n)
    states = np.vstack([np.zeros(2 * n), steps]) + np.concatenate([q, v])

    def differences():
        a = robot.forward_dynamics(states[:, :n], states[:, n:], u, wrenches)
        return (a[1:] - a[0]) / 1e-7

    calls = {"exact": lambda: robot.forward_dynamics_derivatives(q, v, u, wrenches), "differences": differences}
    return {name: 1e3 * min(seconds) for name, seconds in in_turns(calls, CALLS).items()}


def statics_record(example: RodExample) -> dict[str, float] | None:
    """Equilibria under random inputs from the shape without strains: mean ms, mean steps, share that converged."""
    rng, times, steps, converged = np.random.default_rng(SEED), [], [], []
    for k in range(EQUILIBRIA + 1):
        inputs = static_inputs(example, rng)
        if inputs is None:
            return None
        start = time.perf_counter()
        rest = static_equilibrium(example.robot, **inputs, method="newton")
        if k > 0:  # the first may compile
            times.append(time.perf_counter() - start)
            steps.append(rest.iterations)
            converged.append(rest.converged)
    return {"ms": 1e3 * float(np.mean(times)), "steps": float(np.mean(steps)), "converged": float(np.mean(converged))}
