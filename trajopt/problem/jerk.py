"""Jerks, the rates of accelerations: the velocities before become part of the state.

With p = v of the knot before, z = (x, p), and a(x, u) the acceleration of the step (`trajopt.AccelerationResidual`),

    r = (a(x, u) - (v - p)/h)/h     r_x = (a_x - [0 1]/h)/h     r_p = 1/h^2     r_u = a_u/h     mu'r'' = (mu/h)'a''
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dynamics.simd import by_address, routine
from dynamics.simd.array_loops import fill
from dynamics.simd.prepared_calls import PreparedCall, PreparedCalls
from dynamics.simd.squares import KnotSum, multipliers
from dynamics.validation import as_number_or_vector
from trajopt.costs.cost_of_residual import prepared_rows
from trajopt.costs.residuals import AccelerationResidual, velocity_count
from trajopt.costs.summed_rows import SummedRows
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


@routine
def jerks(a, xs, columns, before, dt, r):
    """Write (a - a_before)/dt (K, nr), a (K, nr) being accelerations: v and v before are these columns of xs."""
    for k in range(r.shape[0]):
        for i in range(r.shape[1]):
            r[k, i] = (a[k, i] - (xs[k, columns[i]] - xs[k, before[i]]) / dt) / dt


@routine
def jerk_jacobians(J, before, dt, into):
    """Write (J - before)/dt (K, nr, n), before (nr, n)."""
    for k in range(J.shape[0]):
        for i in range(J.shape[1]):
            for j in range(J.shape[2]):
                into[k, i, j] = (J[k, i, j] - before[i, j]) / dt


@by_address
def jerk_multipliers(mu, dt, weights):
    """Write mu/dt (K, nr) to the first columns of weights."""
    for k in range(mu.shape[0]):
        for i in range(mu.shape[1]):
            weights[k, i] = mu[k, i] / dt


class JerkResidual(SummedRows):
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
        a = self._lifted.evaluate(xs, us)
        r = np.empty(a.shape)
        jerks(a, xs, *self._columns, self.system.dt, r)
        return r

    def jacobians(self, xs: np.ndarray, us: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """rx (K, nr, ndx), ru (K, nr, nu)."""
        rx, ru = self._lifted.jacobians(xs, us)
        into = np.empty(rx.shape), np.empty(ru.shape)
        jerk_jacobians(rx, self._before, self.system.dt, into[0])
        jerk_jacobians(ru, np.zeros(ru.shape[1:]), self.system.dt, into[1])
        return into

    @property
    def _columns(self) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of a state that are the velocities, and those before."""
        n, nx = self.system.memory, self.system.nx
        return nx - 2 * n + self._a.components, nx - n + self._a.components

    @property
    def sums_squares(self) -> bool:
        """See `trajopt.interfaces.residual.SummedResidual`."""
        return type(self) is JerkResidual

    def prepared_rows(
        self, xs: np.ndarray, us: np.ndarray | None, jacobians: bool
    ) -> Callable[[], tuple[Any, ...]] | None:
        """See `trajopt.interfaces.residual.PreparedResidual`."""
        inside = prepared_rows(self._lifted, xs, us, jacobians) if type(self) is JerkResidual else None
        if inside is None:
            return None
        (a, ax, au), dt = inside.arrays, float(self.system.dt)
        r, rx, ru = (None if array is None else np.zeros(array.shape) for array in (a, ax, au))
        parts = [inside, PreparedCall(jerks, a, xs, *self._columns, dt, r)]
        if jacobians:
            parts.append(PreparedCall(jerk_jacobians, ax, self._before, dt, rx))
            parts.append(PreparedCall(jerk_jacobians, au, np.zeros(au.shape[1:]), dt, ru))
        return PreparedCalls(*parts, result=lambda: (r, rx, ru))

    def prepared_hessians(
        self, xs: np.ndarray, us: np.ndarray | None, mu: np.ndarray
    ) -> tuple[Callable[[], Any], tuple[np.ndarray | None, ...]] | None:
        """See `trajopt.costs.summed_rows.SummedRows`."""
        assert us is not None
        K, n, m, weights = len(us), self.system.ndx, self.system.nu, multipliers(np.zeros(mu.shape))
        H = np.zeros((K, n, n)), np.zeros((K, m, n)), np.zeros((K, m, m))
        into = np.zeros((K, n)), np.zeros((K, m)), *H
        add = self._lifted.prepared_sum(KnotSum((0, K), xs, us, weights, None, into))
        if add is None:
            return None
        weigh = PreparedCall(jerk_multipliers, mu, float(self.system.dt), weights.rows)
        return PreparedCalls(weigh, *[PreparedCall(fill, block, 0.0) for block in H], add), H

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
