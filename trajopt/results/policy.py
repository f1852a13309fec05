"""A solution as a controller: the planned controls and the gains around the planned states, at any time.

    u(t, x) = us_k + K_k difference(xs_k, x),    k the knot that t belongs to, t_k <= t < t_k + dt

Control, gain and planned state are held between knots, as in the rollouts that the gains were made for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from dynamics.printed import in_brief
from trajopt.interfaces.system import System, knot_times, state_array
from trajopt.validation import flag, float_array

if TYPE_CHECKING:
    from trajopt.problem.problem import Problem
    from trajopt.results.solution import Solution

EARLY = 1e-6
"""A time this part of a step before a knot belongs to the knot: sums and multiples of decimal steps are rounded."""


@dataclass(frozen=True, eq=False)
class Policy:
    """u = policy(t, x) along a planned trajectory; made by `Solution.policy`.

    Attributes
    ----------
    system : System
    xs, us, K : (N+1, nx), (N, nu), (N, nu, ndx) arrays
        Plan and gains.
    limits : (lower, upper) or None
        What the controls are clipped to, (N, nu) each.
    feedback : bool
        False: the planned controls, whatever the state.
    """

    system: System
    xs: np.ndarray = field(repr=False)
    us: np.ndarray = field(repr=False)
    K: np.ndarray = field(repr=False)
    limits: tuple[np.ndarray, np.ndarray] | None = field(default=None, repr=False)
    feedback: bool = True

    def __repr__(self) -> str:
        return in_brief(self, horizon=self.horizon)

    @property
    def horizon(self) -> float:
        """Seconds that are planned."""
        return float(knot_times(self.system, len(self.us), self.xs)[-1])

    def knot(self, t: float) -> int:
        """The knot 0 ... N-1 that the time t belongs to; before the start the first, after the end the last one.

        Raises TypeError or ValueError if t is not a finite number.
        """
        if isinstance(t, bool) or not isinstance(t, (int, float, np.number, np.ndarray)) or np.ndim(t):
            raise TypeError(f"t: got {t!r}, wanted one number, the seconds from the start")
        late = float(float_array("t", t, ())) + EARLY * self.system.dt
        begun = knot_times(self.system, len(self.us), self.xs) <= late
        return int(np.clip(np.count_nonzero(begun) - 1, 0, len(self.us) - 1))

    def __call__(self, t: float, x: ArrayLike | None = None) -> np.ndarray:
        """The control (nu,) at t seconds from the start, in the state x (nx,), which an open loop does not need.

        Raises TypeError or ValueError naming t or x.
        """
        k = self.knot(t)
        u = self.us[k].copy()
        if self.feedback:
            if x is None:
                raise TypeError(f"x: got None, wanted a state of shape ({self.system.nx},) to feed back")
            u += self.K[k] @ self.system.difference(self.xs[k], state_array(self.system, "x", x))
        return u if self.limits is None else np.clip(u, self.limits[0][k], self.limits[1][k])


def planned_problem(solution: Solution) -> Problem:
    """The problem of a solution that is a plan; ValueError for one without its problem or without a trajectory."""
    if solution.problem is None:
        raise ValueError("solution: got one without its problem, wanted one read by Solution.load(path, problem)")
    if not np.isfinite(solution.cost):
        raise ValueError("solution: got one that diverged, wanted a trajectory to follow")
    return solution.problem


def policy_of(solution: Solution, feedback: bool = True) -> Policy:
    """The policy of a solution.

    Parameters
    ----------
    solution : Solution
        With its problem, and with a trajectory: its status is not "diverged".
    feedback : bool
        False: the planned controls alone.

    Raises
    ------
    TypeError, ValueError
        Naming the argument, what it got and what was wanted.
    """
    problem = planned_problem(solution)
    plan = solution.xs.copy(), solution.us.copy(), solution.K.copy()
    return Policy(problem.system, *plan, problem.control_limits, flag("feedback", feedback))
