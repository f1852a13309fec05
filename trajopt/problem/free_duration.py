"""Systems whose phases take as long as is best: the system, its rollouts, and running costs over free durations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dynamics.validation import as_floats, as_positive, as_whole_number
from trajopt.capabilities import Knots, KnownLimits, capability
from trajopt.interfaces.system import System, control_names, state_array
from trajopt.problem.augmented_system import AugmentedSystem, Choices
from trajopt.problem.constraints import ControlBounds
from trajopt.problem.extended_system import Refused
from trajopt.problem.lifted_terms import LiftedCost

# --------------------------------------------------------------------------------------------
# Systems whose phases take as long as is best: the duration of knots becomes part of the state.
#
# With z = (x, s), s how long a knot takes relative to the system's own dt, and Phi(x, u; h) a step of h seconds,
#
#     where a phase goes on       F(z, w) = (Phi(x, u; s dt), s)          w = (u, e)
#     where a phase begins        F(z, w) = (x, 1 + e)
#
# so each phase has one more knot, which takes no time and sets s.  Phi has exact derivatives by its duration, of first
# and second order; with h = s dt as one more argument they are those of F.  Running costs l are integrated over time,
# that is s l (`trajopt.problem.lifted_terms`).

SETTING = -1
"""In place of a knot of the system inside: a knot that sets the duration of those that follow."""


class FreeDurationSystem(AugmentedSystem):
    """A system with free durations, one for each phase: states z = (x, s), controls w = (u, e).

    Parameters
    ----------
    system : System that can step for any time (`timed` of `trajopt.capabilities.Knots`): robots, phases of contact,
        differential equations (`trajopt.CallableSystem(xdot=...)`)
    horizon : int, the number of knots, for a system that has none of its own
    phases : sequence of int, how many knots each phase has; by default those that the system has, or one
    bounds : lower and upper limit of s, how long a knot takes relative to the system's dt: positive numbers, or (P, 2)
        for P phases; see `duration_bounds`

    Attributes
    ----------
    horizon : int, N, the knots of all phases, and one more for each, in front, at which its duration is set
    setting : (N,) bool, which knots these are
    nx, ndx, nu : those of the system inside, plus 1

    Raises
    ------
    TypeError : a system that cannot step for any time.
    ValueError : no horizon, phases that do not fill it, bounds that are no growing positive numbers.

    Notes
    -----
    e is zero for s = 1, so that zeros for controls are the system's own durations.  Costs and residuals of the system
    inside are taken by `lift`; running ones are integrated over the time that knots take.  `at=` in seconds means the
    system's own durations.
    """

    remembers = "durations"
    resimulated = Refused("steps are exact for durations that are given")

    def __init__(
        self,
        system: System,
        horizon: int | None = None,
        phases: Sequence[int] | None = None,
        bounds: ArrayLike = (0.2, 3.0),
    ) -> None:
        timed = capability(system, Knots).timed
        if timed is None:
            raise TypeError(
                f"system: got {type(system).__name__}, which cannot step for any time, expected one that can "
                "(timed of trajopt.capabilities.Knots)"
            )
        knots = _knots_of_phases(system, horizon, phases)
        self.bounds = _checked_bounds(bounds, len(knots))
        n, nu = system.ndx, system.nu + 1
        choices = Choices(np.zeros((1, n, nu)), np.eye(1, nu, nu - 1)[None], np.ones(1), np.zeros(system.nx))
        super().__init__(system, choices, np.concatenate([np.append(SETTING, phase) for phase in knots]), ("duration",))

    def _motion_of(self, system):
        """The system inside that steps for any time, of which the last control is s dt."""
        m = system.nu
        return system.timed(), self.map._replace(nu=m + 1, parameters=np.array([m]), scale=system.dt)

    # -------------------------------------------------------------------------------------------- states and times
    def state(self, x: ArrayLike, duration: float = 1.0) -> np.ndarray:
        """z = (x, s), x (nx,) of the system inside, s how long a knot takes relative to its dt."""
        s = as_positive("duration", duration)
        return np.append(state_array(self.system, "x", x), s)

    def durations_along(self, xs: np.ndarray) -> np.ndarray:
        """How long each knot of a trajectory xs (N or N+1, nx) takes, (N,), s."""
        return self.durations * np.asarray(xs)[: self.horizon, -1]

    def phase_durations(self, xs: np.ndarray) -> np.ndarray:
        """How long each phase of a trajectory takes, (P,), s."""
        return np.add.reduceat(self.durations_along(xs), np.flatnonzero(self.setting))

    def total_time(self, xs: np.ndarray) -> float:
        """Duration of a trajectory, s."""
        return float(self.durations_along(xs).sum())

    @property
    def control_names(self) -> tuple[str, ...]:
        """Names of the controls: those of the system inside, and "duration"."""
        names = control_names(self.system) or tuple(f"u_{i + 1}" for i in range(self.system.nu))
        return (*names, "duration")

    def control_limits(self) -> tuple[np.ndarray, np.ndarray]:
        """lower and upper (nu,) of the system inside, and of e in any phase."""
        limits, n = capability(self.system, KnownLimits).control_limits, self.system.nu
        lower, upper = (np.full(n, -np.inf), np.full(n, np.inf)) if limits is None else limits()
        return np.append(lower, self.bounds[:, 0].min() - 1.0), np.append(upper, self.bounds[:, 1].max() - 1.0)

    def duration_bounds(self) -> ControlBounds:
        """The limits of the phases' durations, as a constraint "duration" for `trajopt.Problem`."""
        limits = np.full((2, self.horizon, self.nu), [[[-np.inf]], [[np.inf]]])
        limits[:, self.setting, -1] = self.bounds.T - 1.0
        return ControlBounds(limits[0], limits[1], name="duration")

    # -------------------------------------------------------------------------------------------- what was made for x
    def lift(self, inner: Any) -> Any:
        """A cost or a residual made for the system inside, as one for this system; running costs over the time that
        knots take, but those at single knots (`at=`).

        Raises TypeError if it is neither.
        """
        made = super().lift(inner)
        return LiftedCost(self, made.cost, True) if isinstance(made, LiftedCost) else made


def _knots_of_phases(system: System, horizon: int | None, phases: Sequence[int] | None) -> list[np.ndarray]:
    """The knots of the system inside that each phase has."""
    own = capability(system, Knots).horizon
    if own is not None:
        if horizon not in (None, own):
            raise ValueError(f"horizon: got {horizon}, expected {own}, which the system has")
        count = own
    elif horizon is not None:
        count = as_whole_number("horizon", horizon, 1)
    elif phases is not None:
        count = sum(as_whole_number("phases", knots, 1) for knots in phases)
    else:
        raise ValueError("horizon: got None, expected the number of knots, or the knots of phases")
    if phases is not None:
        if not isinstance(phases, Iterable):
            raise TypeError(f"phases: got {type(phases).__name__}, expected how many knots each phase has")
        ends = np.cumsum([as_whole_number("phases", knots, 1) for knots in phases])
        if not len(ends) or ends[-1] != count:
            raise ValueError(f"phases: got {list(phases)}, expected numbers of knots whose sum is {count}")
        return np.split(np.arange(count), ends[:-1])
    starts = np.asarray(capability(system, Knots).phase_starts)
    return np.split(np.arange(count), starts[starts > 0])


def _checked_bounds(bounds: ArrayLike, phases: int) -> np.ndarray:
    limits = as_floats("bounds", bounds)
    if limits.shape not in ((2,), (phases, 2)):
        raise ValueError(f"bounds: got shape {limits.shape}, expected (2,), or ({phases}, 2), one row for each phase")
    limits = np.broadcast_to(limits, (phases, 2))
    if not (np.isfinite(limits).all() and (0.0 < limits[:, 0]).all() and (limits[:, 0] <= limits[:, 1]).all()):
        raise ValueError(f"bounds: got {np.asarray(bounds).tolist()}, expected positive numbers, the lower one first")
    return limits
