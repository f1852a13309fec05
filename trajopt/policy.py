"""A solution as a controller: the planned controls and the gains around the planned states, at any time.

    u(t, x) = us_k + K_k difference(r_k(t), x),    k the knot that t belongs to, t_k <= t < t_k + dt

r_k(t) is the state of the knot, as in the rollouts that the gains were made for, or, interpolated, the point
integrate(xs_k, s difference(xs_k, xs_{k+1})) at s = (t - t_k)/dt on the way to the next one.  Between knots a held
reference makes the feedback pull back along the planned motion, by K_k times what the plan itself has moved since t_k;
a controller that runs faster than the knots should interpolate.  At the knots both are the same.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trajopt.solution import Solution
from trajopt.system import System, state_array
from trajopt.validation import float_array

EARLY = 1e-6
"""A time this part of a step before a knot belongs to the knot: sums and multiples of decimal steps are rounded."""


@dataclass(frozen=True, eq=False)
class Policy:
    """u = policy(t, x) along a planned trajectory; see `Solution.policy`.

    Attributes
    ----------
    system : System
    xs, us, K : (N+1, nx), (N, nu), (N, nu, ndx) arrays
        Plan and gains; copies, so that the policy outlives what made it.
    limits : (lower, upper) or None
        What the controls are clipped to, (N, nu) each.
    feedback : bool
        False: the planned controls, whatever the state.
    interpolate : bool
        Whether the state to be held moves between knots.
    """

    system: System
    xs: np.ndarray = field(repr=False)
    us: np.ndarray = field(repr=False)
    K: np.ndarray = field(repr=False)
    limits: tuple[np.ndarray, np.ndarray] | None = field(default=None, repr=False)
    feedback: bool = True
    interpolate: bool = False

    @property
    def horizon(self) -> float:
        """Seconds that are planned."""
        return len(self.us) * self.system.dt

    def knot(self, t: float) -> int:
        """The knot 0 ... N-1 that the time t belongs to; before the start the first, after the end the last one.

        Raises TypeError or ValueError if t is not a finite number.
        """
        return int(np.clip(np.floor(self._steps(t) + EARLY), 0, len(self.us) - 1))

    def __call__(self, t: float, x: Any = None) -> np.ndarray:
        """The control (nu,) at t seconds from the start, in the state x (nx,), which an open loop does not need.

        Raises TypeError or ValueError naming t or x.
        """
        k = self.knot(t)
        u = self.us[k].copy()
        if self.feedback:
            if x is None:
                raise TypeError(f"x: got None, wanted a state of shape ({self.system.nx},) to feed back")
            x = state_array(self.system, "x", x)
            u += self.K[k] @ self.system.difference(self._reference(t, k), x)
        return u if self.limits is None else np.clip(u, self.limits[0][k], self.limits[1][k])

    def _steps(self, t: Any) -> float:
        if isinstance(t, bool) or not isinstance(t, (int, float, np.number, np.ndarray)) or np.ndim(t):
            raise TypeError(f"t: got {t!r}, wanted one number, the seconds from the start")
        return float(float_array("t", t, ())) / self.system.dt

    def _reference(self, t: float, k: int) -> np.ndarray:
        """The state that the feedback holds; beyond the horizon the last one."""
        if not self.interpolate:
            return self.xs[k]
        way = float(np.clip(self._steps(t) - k, 0.0, 1.0))
        return self.system.integrate(self.xs[k], way * self.system.difference(self.xs[k], self.xs[k + 1]))


def policy_of(solution: Solution, feedback: bool = True, interpolate: bool = False) -> Policy:
    """The policy of a solution.

    Parameters
    ----------
    solution : Solution
        With its problem, and with a trajectory: its status is not "diverged".
    feedback, interpolate : bool
        See `Policy`.

    Raises
    ------
    TypeError, ValueError
        Naming the argument, what it got and what was wanted.
    """
    for name, value in (("feedback", feedback), ("interpolate", interpolate)):
        if not isinstance(value, (bool, np.bool_)):
            raise TypeError(f"{name}: got {value!r}, wanted True or False")
    if not isinstance(solution, Solution):
        raise TypeError(f"solution: got {type(solution).__name__}, wanted a Solution")
    if solution.problem is None:
        raise ValueError("solution: got one without its problem, wanted one read by Solution.load(path, problem)")
    if not np.isfinite(solution.cost):
        raise ValueError("solution: got one that diverged, wanted a trajectory to follow")
    problem = solution.problem
    return Policy(
        problem.system,
        solution.xs.copy(),
        solution.us.copy(),
        solution.K.copy(),
        problem.control_limits(),
        bool(feedback),
        bool(interpolate),
    )
