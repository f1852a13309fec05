"""Jerks, the rates of accelerations: the velocities before become part of the state.

With p = v of the knot before, z = (x, p), and a(x, u) the acceleration of the step (`trajopt.AccelerationResidual`),

    r = (a(x, u) - (v - p)/h)/h     r_x = (a_x - [0 1]/h)/h     r_p = 1/h^2     r_u = a_u/h     mu'r'' = (mu/h)'a''
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dynamics.validation import as_number_or_vector
from trajopt.costs.residuals import AccelerationResidual, velocity_count
from trajopt.interfaces.system import System, state_array, tangent_names
from trajopt.interfaces.terms import At, subject_of
from trajopt.problem.constraints import Limits, ResidualConstraint
from trajopt.problem.extended_system import ExtendedSystem
from trajopt.problem.lifted_terms import WithControls
from trajopt.problem.limits import limited_joints


class JerkSystem(ExtendedSystem):
    """Any system whose states end with velocities v, with those before appended: z = (x, v_before).

    Costs and residuals made for the system inside are lifted (`lift`), as for `ControlRateSystem`.  Those before are
    velocities a step before, also where a plan runs at another rate: there they go evenly from those of a knot
    to those of the next one.

    Parameters
    ----------
    system : System
        With state x (nx), tangent (ndx) and n velocities; its time step and controls remain.

    Attributes
    ----------
    nx, ndx : those of the system inside, plus n.

    Raises
    ------
    TypeError, ValueError
        For a system that does not say which numbers are velocities, or that takes accelerations for controls
        (``formulation="inverse"``).
    """

    numbers_are, remembers = "states", "velocities"

    def __init__(self, system: System) -> None:
        super().__init__(system, velocity_count(system))

    def state(self, x: ArrayLike, v_before: ArrayLike | None = None) -> np.ndarray:
        """z = (x, v_before), x (nx,) of the system inside, v_before a number or (n,), by default the velocities of x:
        no acceleration before."""
        x = state_array(self.system, "x", x)
        if v_before is None:
            v_before = x[-self.memory :]
        return np.concatenate([x, np.full(self.memory, 1.0) * as_number_or_vector("v_before", v_before, self.memory)])

    def _number_names(self):
        names = tangent_names(self.system)[-self.memory :] or [f"v_{i + 1}" for i in range(self.memory)]
        return [f"{name} before" for name in names]


class JerkResidual:
    """r = (a - a_before)/dt, rad/s^3 or m/s^3, of the accelerations of two steps that follow each other.

    Parameters
    ----------
    system : JerkSystem
    components : integers, optional
        Which velocities, counted among themselves; all by default.

    Attributes
    ----------
    joints : names of all velocities' degrees of freedom, empty if the system has none
    component_names : "elbow jerk", ..., or none

    Raises
    ------
    TypeError, ValueError
        For another system, one whose knots differ, or components that it has not got.
    """

    name, reads_dynamics = "jerks", True

    def __init__(self, system: JerkSystem, components: ArrayLike | None = None) -> None:
        if not isinstance(system, JerkSystem):
            raise TypeError(f"system: got {type(system).__name__}, expected a trajopt.JerkSystem")
        self.system, self._a = system, AccelerationResidual(system.system, components)
        self._lifted, self.joints, self.nr = system.lift(self._a), self._a.joints, self._a.nr
        subject = subject_of(self._a)
        self.made_for: Any = None if subject is None else WithControls(subject, system.memory, system.remembers)
        self.component_names = tuple(name.replace("acceleration", "jerk") for name in self._a.component_names)
        n, chosen = system.memory, np.arange(self.nr)
        self._before = np.zeros((self.nr, system.ndx))
        self._before[chosen, system.ndx - n + self._a.components] = -1.0 / system.dt
        self._before[chosen, system.ndx - 2 * n + self._a.components] = 1.0 / system.dt

    def evaluate(self, xs: np.ndarray, us: np.ndarray | None) -> np.ndarray:
        """r (K, nr)."""
        tail = self._before[:, self.system.ndx - 2 * self.system.memory :]
        before = xs[:, -2 * self.system.memory :] @ tail.T
        return (self._lifted.evaluate(xs, us) - before) / self.system.dt

    def jacobians(self, xs: np.ndarray, us: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """rx (K, nr, ndx), ru (K, nr, nu)."""
        rx, ru = self._lifted.jacobians(xs, us)
        return (rx - self._before) / self.system.dt, ru / self.system.dt

    def hessian_products(
        self, xs: np.ndarray, us: np.ndarray | None, mu: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Hessians of mu'r."""
        return self._lifted.hessian_products(xs, us, mu / self.system.dt)


class JerkBounds(ResidualConstraint):
    """lower <= (a_t - a_{t-1})/dt <= upper, of the accelerations that the controls cause.

    Parameters
    ----------
    system : JerkSystem, or a `ControlRateSystem` around one
    lower, upper : number, (n,) array of the n velocities, or mapping of joints' names to numbers
        Limits, rad/s^3 or m/s^3, infinite by default; joints with two infinite ones are free.
    at : "path" (default), knots, times or a slice
    name : str, optional

    Raises
    ------
    TypeError, ValueError
        Naming the argument, what it got and what was expected.
    """

    def __init__(
        self,
        system: System,
        lower: Limits = -np.inf,
        upper: Limits = np.inf,
        at: At = "path",
        name: str = "jerk bounds",
    ) -> None:
        super().__init__(*limited_joints("JerkBounds", system, JerkResidual, lower, upper, JerkSystem), at, name)
