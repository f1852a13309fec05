"""Parts of one iteration on a standing quadruped that moves its centre of mass: what each of them takes."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import dynamics
import trajopt
from experiments.harness.timing import in_turns, on_threads, threads
from experiments.one_iteration import iterations
from problems.quadruped_model import FEET, quadruped, standing
from trajopt.backward.backward_pass import sweep
from trajopt.backward.expansions import adjoint, expand
from trajopt.interfaces.system import semi_implicit_form
from trajopt.solvers.formulation import Curvature
from trajopt.solvers.solve import formulation_of

KNOTS, STEP, DAMPING = 100, 0.01, 50.0
SHIFT = np.array([0.03, 0.02, 0.02])
"""Where the centre of mass is to go, m from where it is."""
ITERATION = ("iLQR", "exact DDP", "exact DDP, not predicted")
"""Whole iterations."""


def shift_problem(horizon: int = KNOTS) -> trajopt.Problem:
    """Four feet held, the centre of mass off its target by SHIFT, from rest under the torques that hold the robot."""
    model, q = quadruped(), standing()
    feet = [dynamics.PointContact(model, foot, gains=(0.0, DAMPING)) for foot in FEET]
    system = dynamics.RigidBodySystem(model, STEP, contacts=feet, actuation="floating_base")
    x0 = system.state(q)
    target = dynamics.CenterOfMass(model, dynamics.center_of_mass(model, q) + SHIFT)
    weights = np.repeat([1.0, 0.1], model.nv)
    running = [trajopt.StateCost(system, x0, weights), trajopt.ControlCost(0.1), trajopt.ResidualCost(target, 1e4)]
    return trajopt.Problem(
        system, x0, horizon, running, [trajopt.ResidualCost(target, 1e4)], us_init="quasi_static"
    )


class Expanded(NamedTuple):
    """A trajectory one step into the solution, with the problem as solvers take it, its expansion and its sweep."""

    us: np.ndarray
    xs: np.ndarray
    posed: Any
    model: Any
    sweep: Any


def one_step_in(problem: trajopt.Problem) -> Expanded:
    """The iterate after one step of iLQR."""
    us = trajopt.ILQR(max_iterations=1).solve(problem).us
    posed = formulation_of(problem, None, Curvature())
    iterate = posed.start(us, None)
    model = posed.expand(iterate)
    return Expanded(us, iterate.xs, posed, model, posed.sweep(model, 0.0))


def parts(problem: trajopt.Problem) -> dict[str, Callable[[], object]]:
    """Calls that are the parts of an iteration, and whole iterations, at a trajectory one step into the solution."""
    system = problem.system
    us, xs, posed, model, found = one_step_in(problem)
    lam = np.ascontiguousarray(found.Vx[1:])
    dt, leading = semi_implicit_form(system)
    return {
        "linearize": lambda: system.linearize(xs, us),
        "expansion, costs included": lambda: expand(problem, xs, us),
        "adjoint": lambda: adjoint(model.expansion),
        "hessian_products": lambda: system.hessian_products(xs, us, lam),
        "backward pass, dense": lambda: sweep(model.expansion, 0.0),
        "backward pass": lambda: sweep(model.expansion, 0.0, dt, leading=leading),
        "rollout of 8 step lengths": lambda: list(posed.candidates(model, found)),
        **iterations(problem, us),
    }


def measure(horizon: int, repeats: int, thread_counts: tuple[int, ...] = (1, 2)) -> dict[str, dict[int, float]]:
    """Least microseconds per knot of each part for each number of threads, all taken in turns."""
    calls = parts(shift_problem(horizon))
    timed = {(name, n): partial(on_threads, n, call) for n in thread_counts for name, call in calls.items()}
    with threads(None):
        samples = in_turns(timed, repeats)
    return {name: {count: 1e6 * min(samples[name, count]) / horizon for count in thread_counts} for name in calls}
