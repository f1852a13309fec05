"""Does a plan hold?  Its execution in fine steps, by its own system, by one of another model, or by any other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from dynamics.printed import in_brief
from trajopt.capabilities import KnotByKnot, OtherModels, Refinement, capability
from trajopt.interfaces.system import System, check_system, knot_durations, knot_times, state_array
from trajopt.results.policy import Policy, planned_problem
from trajopt.results.substeps import Controller, deviations, fine_rows, finer_for_stiff, roll_out_finely
from trajopt.validation import one_of, positive_number, same_shape

if TYPE_CHECKING:
    from trajopt.results.solution import Solution

MODES = ("feedback", "open loop")


@dataclass(frozen=True, eq=False)
class Simulation:
    """What became of a plan; made by `trajopt.simulate`.

    Attributes
    ----------
    system : System
        What moved, in steps of its dt.
    times, xs, us : (M+1,), (M+1, nx), (M, nu) arrays
        Motion in these steps, s from the start; infinite from where it is not finite.
    knots : (N+1,) array
        The rows of times and xs that are the plan's knots.
    deviation : (N+1, ndx) array
        Tangent vectors from the plan to the motion, at the knots.
    """

    system: System
    times: np.ndarray = field(repr=False)
    xs: np.ndarray = field(repr=False)
    us: np.ndarray = field(repr=False)
    knots: np.ndarray = field(repr=False)
    deviation: np.ndarray = field(repr=False)

    def __repr__(self) -> str:
        return in_brief(self, finite=self.finite, largest_deviation=float(self.largest_deviation.max()))

    @property
    def finite(self) -> bool:
        """Whether the motion is finite to its end."""
        return bool(np.isfinite(self.xs).all())

    @property
    def largest_deviation(self) -> np.ndarray:
        """The largest deviation (ndx,) of each component of the tangent."""
        return np.abs(self.deviation).max(axis=0)


def simulate(
    solution: Solution,
    model: Any = None,
    dt: float = 1e-3,
    policy: str | Policy | Callable[[float, np.ndarray], np.ndarray] = "feedback",
    x0: ArrayLike | None = None,
    system: System | None = None,
) -> Simulation:
    """Execute a plan in fine steps, on a robot that may be another one than it was made for.

    Controls are decided at the plan's knots, held between them, and clipped to the problem's control limits.  Contacts
    and impacts happen when they were planned.

    Parameters
    ----------
    solution : Solution
        With its problem, and with a trajectory.
    model : optional
        A model to put into the plan's system in place of its own, with the same states, e.g. with a heavier payload.
    dt : float
        Longest step, s; steps are a whole part of the plan's, by the integrator of highest order that suits (rk4 for
        robots).  Systems without finer steps (`trajopt.capabilities.Refinement`) take their own.
    policy : "feedback" (default), "open loop", or a function u = policy(t, x) such as a `trajopt.Policy`
        With the plan's gains, without, or by another controller, which is asked at the plan's knots.
    x0 : (nx,) array, optional
        Where to begin; by default where the plan does.
    system : System, optional
        What moves in place of the plan's system, with the same states and controls, and steps that are a whole part of
        the plan's.

    Raises
    ------
    TypeError, ValueError
        Naming the argument, what it got and what was wanted.

    Examples
    --------
    >>> solution = trajopt.DDP().solve(problems.make("pendulum"))
    >>> heavier = solution.problem.system.model.with_body("load", "bob", mass=0.05, com=[0.0, 0.0, -1.0])
    >>> for policy in ("open loop", "feedback"):
    ...     motion = trajopt.simulate(solution, model=heavier, policy=policy)
    ...     print(f"{policy}: {motion.largest_deviation[0]:.1f} rad")
    open loop: 2.7 rad
    feedback: 0.1 rad
    """
    problem = planned_problem(solution)
    own, xs, us, N = problem.system, solution.xs, solution.us, len(solution.us)
    dt = positive_number("dt", dt)
    fine, k = _in_fine_steps(own, _what_moves(own, model, system), dt)
    rows = fine_rows(own, N, k)
    varying = capability(fine, KnotByKnot)
    if varying is not None and varying.horizon != rows[-1]:
        raise ValueError(f"system: got one of {varying.horizon} knots in these steps, wanted {rows[-1]}")
    start = xs[0] if x0 is None else state_array(own, "x0", x0)
    X, U = roll_out_finely(fine, rows, start, us, _controller(solution, policy))
    durations, counts = knot_durations(own, N), np.diff(rows)
    inside = np.arange(rows[-1]) - np.repeat(rows[:-1], counts)
    starts = knot_times(own, N)
    times = np.append(np.repeat(starts[:-1], counts) + inside * np.repeat(durations / counts, counts), starts[-1])
    return Simulation(fine, times, X, np.repeat(U, counts, axis=0), rows, deviations(own, xs, X[rows]))


def _what_moves(own: System, model: Any, system: System | None) -> System:
    """The plan's system, that with another model, or another one."""
    if system is not None:
        if model is not None:
            raise ValueError("model, system: got both, wanted one of them at most")
        check_system(system, "nx", "ndx", "nu", "dt", "rollout")
        given, wanted = ((s.nx, s.ndx, s.nu) for s in (system, own))
        if given != wanted:
            raise ValueError(f"system: got nx, ndx, nu = {given}, wanted {wanted} as of the plan's")
        return system
    if model is None:
        return own
    known = capability(own, OtherModels)
    if known is None:
        raise TypeError(f"model: got one for a {type(own).__name__}, which takes none; wanted system= in its place")
    return known.with_model(model)


def _in_fine_steps(own: System, moves: System, dt: float) -> tuple[System, int]:
    """What moves in steps of at most dt, and how many of these a step of the plan has."""
    steps = round(own.dt / moves.dt)
    if steps < 1 or abs(own.dt / moves.dt - steps) > 1e-9 * steps:
        raise ValueError(f"system: got dt = {moves.dt:g}, wanted a whole part of {own.dt:g}, the plan's")
    if capability(moves, Refinement) is None:
        return moves, steps
    fine, k = finer_for_stiff(moves, max(1, int(np.ceil(moves.dt / dt - 1e-9))))
    return fine, steps * k


def _controller(solution: Solution, policy: Any) -> Controller:
    """The control of a knot, clipped to the problem's limits."""
    problem, xs, us, K = solution.problem, solution.xs, solution.us, solution.K
    system, limits = problem.system, problem.control_limits
    starts = knot_times(system, len(us))
    if not callable(policy):
        feedback = one_of("policy", policy, MODES) == MODES[0]

    def control(t: int, x: np.ndarray) -> np.ndarray:
        if callable(policy):
            u = same_shape("policy", policy(float(starts[t]), x), (system.nu,))
        else:
            u = us[t] + K[t] @ system.difference(xs[t], x) if feedback else us[t]
        return u if limits is None else np.clip(u, limits[0][t], limits[1][t])

    return control
