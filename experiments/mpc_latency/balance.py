"""What one iteration a cycle loses: cart and pole balance under hard limits, every plan ending at rest.

40 knots of 50 ms, an equality for the last state, limits of the force and of the cart's speed, a push of the pole in
the 16th of 36 cycles.  The plant is the model, with noise on the state or without.
"""

from typing import Any

import numpy as np

import dynamics
import trajopt

KNOTS, DT, CYCLES = 40, 0.05, 36
PUSHED, PUSH = 15, 0.5
"""The cycle, and what it adds to the pole's speed [rad/s]."""
FORCE, SPEED = 15.0, 0.6
NOISE = 0.005
"""Standard deviation of what is added to every number of the state, in runs with noise."""
STATES, CONTROLS = np.array([1.0, 1.0, 0.1, 0.1]), 0.01


def balance() -> trajopt.Problem:
    """The problem of a cycle, from a leaning pole."""
    builder = dynamics.ModelBuilder(name="cart_and_pole")
    builder.add_body("cart", "world", dynamics.Prismatic("x"), mass=1.0)
    builder.add_body("pole", "cart", dynamics.Continuous("y"), mass=0.1, com=(0.0, 0.0, -0.5))
    system = dynamics.RigidBodySystem(builder.build(), DT, actuation=np.array([[1.0], [0.0]]))
    upright = system.state([0.0, np.pi])
    speed = np.array([np.inf, np.inf, SPEED, np.inf])
    return trajopt.Problem(
        system,
        system.integrate(upright, [0.15, 0.15, 0.0, 0.0]),
        KNOTS,
        [trajopt.StateCost(system, upright, STATES), trajopt.ControlCost(CONTROLS)],
        [],
        [
            trajopt.ControlBounds(-FORCE, FORCE),
            trajopt.StateBounds(system, -speed, speed),
            trajopt.ResidualConstraint(trajopt.StateResidual(system, upright), at="terminal", name="rest"),
        ],
        name="balance",
    )


def closed_loop(solver: trajopt.DDP | trajopt.ILQR, noise: float, seed: int) -> dict[str, Any]:
    """Cost of the motion, and largest speed, of a plan renewed in every cycle by this solver."""
    problem, rng = balance(), np.random.default_rng(seed)
    system, x, cost, speed = problem.system, problem.x0, 0.0, 0.0
    upright = system.state([0.0, np.pi])
    prepared, plan = solver.prepare(problem), trajopt.DDP().solve(problem)
    iterations = []
    for cycle in range(CYCLES):
        u = plan.us[0]
        error = system.difference(upright, x)
        cost += 0.5 * DT * (float(STATES @ error**2) + CONTROLS * float(u @ u))
        x = system.step(x, u)
        if cycle == PUSHED:
            x = system.integrate(x, [0.0, 0.0, 0.0, PUSH])
        x = system.integrate(x, noise * rng.standard_normal(4))
        speed = max(speed, abs(float(x[2])))
        plan = prepared.solve(x, warm_start=plan.shifted())
        iterations.append(plan.iterations)
    return {"cost": cost, "largest_speed": speed, "iterations": float(np.mean(iterations))}


def compare(runs: int, seed: int) -> dict[str, Any]:
    """Both solvers, to convergence and with one iteration a cycle; mean costs of so many runs with noise."""
    table: dict[str, Any] = {}
    for name, kind in (("iLQR", trajopt.ILQR), ("DDP", trajopt.DDP)):
        for cycle, options in (("to convergence", {}), ("one iteration", {"max_iterations": 1})):
            exact = closed_loop(kind(**options), 0.0, seed)
            noisy = [closed_loop(kind(**options), NOISE, seed + run)["cost"] for run in range(runs)]
            table[f"{name} {cycle}"] = {**exact, "cost_with_noise": float(np.mean(noisy))}
    return table
