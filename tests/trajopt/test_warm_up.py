"""After `PreparedSolver.warm_up` no call compiles a kernel or loads one from the disk."""

import sys
from pathlib import Path
from subprocess import run

import numpy as np
import pytest

import dynamics
import problems
import trajopt
from experiments.mpc_latency.scene import DT, TARGET, follow, target


def cartpole():
    """A cart that is not to leave its rail, whose plans do so now and then."""
    builder = dynamics.ModelBuilder(name="cartpole")
    builder.add_body("cart", "world", dynamics.Prismatic("x"), joint_name="rail", mass=1.0)
    rod = {"mass": 0.2, "com": [0.0, 0.0, -0.4], "inertia": 0.01 * np.eye(3)}
    builder.add_body("pole", "cart", dynamics.Continuous("y"), joint_name="pivot", **rod)
    system = dynamics.RigidBodySystem(builder.build(), dt=0.01, actuation=np.array([[1.0], [0.0]]))
    up = system.state([0.0, np.pi])
    return trajopt.Problem(
        system, system.state([0.0, 0.0]), 60,
        [trajopt.StateCost(system, up, [1.0, 1.0, 0.01, 0.01]), trajopt.ControlCost(1e-2)],
        [trajopt.StateCost(system, up, [20.0, 20.0, 2.0, 2.0])],
        [trajopt.ControlBounds(-15.0, 15.0), trajopt.StateBounds(system, lower={"rail": -0.6}, upper={"rail": 0.6})],
        us_init=3.0 * np.sin(np.linspace(0.0, 9.0, 60))[:, None],
    )  # fmt: skip


def unicycle():
    """Functions that are traced, and an obstacle."""

    def xdot(x, u):
        return u[0] * np.cos(x[2]), u[0] * np.sin(x[2]), u[1]

    def clearance(x):
        return ((x[0] - 1.0) ** 2 + (x[1] - 0.1) ** 2 - 0.4**2,)

    system = trajopt.CallableSystem(xdot=xdot, nx=3, nu=2, dt=0.05)
    pillar = trajopt.residual(clearance, 1, system)
    return trajopt.Problem(
        system, np.zeros(3), 40, [trajopt.ControlCost(weights=[0.2, 0.1])],
        [trajopt.StateCost(system, reference=[2.0, 0.0, 0.0], weights=100.0)],
        [
            trajopt.ControlBounds(lower=[0.0, -2.0], upper=[1.0, 2.0]),
            trajopt.ResidualConstraint(pillar, lower=0.0, upper=np.inf, at="all", name="pillar"),
        ],
        us_init=np.tile([0.5, 0.0], (40, 1)),
    )  # fmt: skip


CASES = {
    "cartpole": (cartpole, trajopt.ILQR(max_iterations=2)),
    "unicycle": (unicycle, trajopt.DDP(max_iterations=50)),
    "arm": (lambda: follow(False), trajopt.ILQR()),
    "arm, one iteration": (lambda: follow(True), trajopt.DDP(max_iterations=1)),
    "quadruped": (lambda: problems.make("quadruped_trot"), trajopt.DDP(max_iterations=3)),
}


def cycles(prepared, size, count, rng):
    """So many cycles from states that are off by errors of this size."""
    system, x, plan = prepared.problem.system, prepared.problem.x0, None
    follows = any(term.name == TARGET for term in prepared.problem.objective.terms)
    for cycle in range(count):
        if follows:
            p = target(cycle * DT)
            prepared.update({TARGET: p, f"terminal {TARGET}": p})
        plan = prepared.solve(x, warm_start=None if plan is None else prepared.shifted(plan))
        x = system.integrate(plan.xs[1], size * rng.standard_normal(system.ndx))
    return x, plan


def count_after_warming_up(name):
    """Warm up, call everything, and fail if a kernel was compiled or loaded by then."""
    from numba.core import event

    from dynamics.simd.kernel_cache import KernelCache

    compiled, loaded, load = [], [], KernelCache.load_overload

    class Compilations(event.Listener):
        def on_start(self, ev):
            compiled.append(ev.data["dispatcher"].py_func.__qualname__)

        def on_end(self, ev):
            pass

    def load_overload(self, *arguments):
        loaded.append(self._function.__qualname__)
        return load(self, *arguments)

    KernelCache.load_overload = load_overload
    event.register("numba:compile", Compilations())
    make, solver = CASES[name]
    problem, rng = make(), np.random.default_rng(0)
    prepared = solver.prepare(problem)
    prepared.warm_up()
    assert loaded
    assert prepared.problem is problem
    for names in (compiled, loaded):
        names.clear()

    solution = solver.solve(problem)
    trajopt.ILQR(max_iterations=solver.max_iterations).solve(problem)
    prepared.solve()
    for size in (1e-4, 1e-2, 0.3):
        x, plan = cycles(prepared, size, 20, rng)
    feedback = prepared.prepare_step(x, warm_start=plan)
    feedback(x)
    feedback(problem.x0)
    feedback.plan(x, steps=1)
    prepared.solve_batch(np.stack([x, problem.x0]), gains=True)
    policy = solution.policy()
    for t in np.linspace(-0.1, policy.horizon + 0.1, 50).tolist():
        policy(t, solution.xs[0])
    steps = np.diff(problem.times)
    solution.resample(0.5 * float(steps[steps > 0.0].min()))
    trajopt.simulate(solution)
    assert not compiled, compiled
    assert not loaded, loaded


@pytest.mark.parametrize("name", CASES)
def test_after_warming_up_nothing_is_compiled_or_loaded(name):
    """In a process of its own, that begins without any kernel."""
    run([sys.executable, "-m", "tests.trajopt.test_warm_up", name], check=True, cwd=Path(__file__).parents[2])


if __name__ == "__main__":
    count_after_warming_up(sys.argv[1])
