"""A plan at another rate, for the robot that executes it.

The motion between knots is that of `trajopt.results.dense_output`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dynamics.printed import in_brief
from dynamics.validation import as_positive
from trajopt.capabilities import Joints, capability
from trajopt.interfaces.system import System
from trajopt.results.dense_output import EARLY, dense_output
from trajopt.results.policy import deployed, planned_problem
from trajopt.results.records import SolutionData


@dataclass(frozen=True, eq=False)
class ResampledPlan:
    """A plan at equal intervals, and at its end; made by `Solution.resample`.

    Attributes
    ----------
    system : System
    times : (M,) array
        Seconds from the start, strictly increasing: 0, dt, 2 dt, ... and the plan's end.
    xs, us : (M, nx), (M, nu) arrays
        States, at impacts those after; controls from each time on, held as planned, the last one repeated.
    K : (M, nu, ndx) array
        Gains, held like the controls: u = us + K difference(xs, x), with the state at the same time.
    accelerations : (M, nx - nq) array or None
        Derivatives of the velocities, from each time on; None for systems that do not say which entries of the state
        are velocities.
    knots : (M,) array
        The knot of the plan that each time belongs to.
    """

    system: System
    times: np.ndarray = field(repr=False)
    xs: np.ndarray = field(repr=False)
    us: np.ndarray = field(repr=False)
    K: np.ndarray = field(repr=False)
    accelerations: np.ndarray | None = field(repr=False)
    knots: np.ndarray = field(repr=False)

    def __repr__(self) -> str:
        return in_brief(self, duration=float(self.times[-1]))


def resample(
    solution: SolutionData,
    dt: float,
    joint_stiffness: Any = None,
    joint_damping: Any = None,
    hold: bool | None = False,
    delay: float | None = None,
) -> ResampledPlan:
    """The plan at times dt apart.

    Parameters
    ----------
    solution : Solution
        With its problem, and with a trajectory.
    dt : float
        Seconds, positive; longer or shorter than the plan's steps, of which it need not be a whole fraction.
    joint_stiffness, joint_damping : number or (J,) array or "auto", optional
        Added to the gains, as in `Solution.policy`.
    hold : bool, optional
        True: gains and the last row are those of a policy that holds the last posture; repeating the last row then
        stands still.  None: wherever the end is at rest and can be held.  By default False: the plan as it is.
    delay : float, optional
        Seconds after a measurement at which the control made of it acts, as in `Solution.policy`; by default dt and
        2 ms more.

    Raises
    ------
    TypeError, ValueError
        Naming the argument; ValueError too where the motion between two knots is not finite.

    Notes
    -----
    States are those that the solution's policy refers to.  Systems without finer steps
    (`refined` of `trajopt.capabilities.Steps`) go from knot to knot by equal fractions of the tangent vector between
    them.  Derivatives of positions by Euler's rules differ from the planned velocities between knots, by up to 3/4 of
    dt times the acceleration, as in the plan.
    """
    system, dt = planned_problem(solution).system, as_positive("dt", dt)
    motion = dense_output(system, solution.xs, solution.us)
    times = _times(motion.times[-1], dt)
    xs, knots = motion.states(times)
    nq, accelerations = capability(system, Joints).nq, None
    if nq is not None:
        velocities = slice(system.ndx - (system.nx - nq), None)
        accelerations = motion.rates(*motion.locate_all(times), velocities)
    solution, _, end = deployed(solution, True, joint_stiffness, joint_damping, hold, delay, dt)
    us, K = solution.us[knots], solution.K[knots]
    if end is not None:
        xs[-1], us[-1], K[-1] = end
        if accelerations is not None:
            accelerations[-1] = 0.0
    return ResampledPlan(system, times, xs, us, K, accelerations, knots)


def _times(end: float, dt: float) -> np.ndarray:
    """Times 0, dt, 2 dt, ... and the end."""
    times = dt * np.arange(int(np.floor(end / dt + EARLY)) + 1)
    if end - times[-1] > EARLY * dt:
        return np.append(times, end)
    times[-1] = end
    return times
