"""Accelerations that the controls cause, as a residual: of any system whose states end with velocities.

    r = (v+ - v)/h                     v+ the velocities of f(x, u)
    r_x = (f_x - [0 1])/h, r_u = f_u/h (the rows of v+)     mu'r'' = lam'f'' with lam = mu/h in those rows

Under Euler steps this is the acceleration of the equation of motion, with damping where it is taken implicitly; under
others the mean over the step.  What the system knows of f, contacts and friction too, is exact here to second order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from trajopt.capabilities import Expansions, Joints, Knots, StateManifold, capability
from trajopt.costs.residuals import chosen_components
from trajopt.interfaces.system import System, check_system, tangent_names


def velocity_count(system: System) -> int:
    """How many of the last numbers of a state are velocities; TypeError if the system does not say."""
    check_system(system, "nx", "ndx", "nu", "dt", "step", "linearize", "hessian_products")
    nq = capability(system, Joints).nq
    if nq is not None:
        return system.nx - nq
    if capability(system, Expansions).semi_implicit:
        return system.nx // 2
    raise TypeError(f"system: {type(system).__name__} does not say which numbers of its states are velocities (nq)")


class AccelerationResidual:
    """r = (v+ - v)/dt, the accelerations (rad/s^2, m/s^2) that the controls cause at a state.

    Parameters
    ----------
    system : System, whose states are positions and velocities, all knots alike
    components : integers, optional
        Which velocities, counted among themselves; all by default.

    Attributes
    ----------
    joints : names of all velocities' degrees of freedom, empty if the system has none
    component_names : "elbow acceleration", ..., or none
    made_for : what the system serves (see `trajopt.interfaces.owners`)

    Raises
    ------
    TypeError, ValueError
        For a system that does not say which numbers are velocities, or whose knots differ.
    """

    name, reads_dynamics = "accelerations", True

    def __init__(self, system: System, components: ArrayLike | None = None) -> None:
        n = velocity_count(system)
        if capability(system, Knots).horizon is not None:
            raise ValueError(
                f"system: the knots of {type(system).__name__} differ, expected the system of some that are alike, as "
                "a segment has it, with these knots for at="
            )
        self.system, self._n = system, n
        self.components = chosen_components(components, n)
        self.nr, serving = len(self.components), capability(system, StateManifold).serves
        self.made_for: Any = serving[-1] if serving else None
        names = tangent_names(system)
        self.joints = names[: len(names) - n] if len(names) == 2 * n else ()
        self.component_names = tuple(f"{self.joints[i]} acceleration" for i in self.components) if self.joints else ()
        self._rows = system.ndx - n + self.components

    def _given(self, xs: np.ndarray, us: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        if us is None:
            raise ValueError("us: got None, expected controls: accelerations depend on them")
        return np.ascontiguousarray(xs[: len(us)]), np.ascontiguousarray(us)

    def evaluate(self, xs: np.ndarray, us: np.ndarray | None) -> np.ndarray:
        """r (K, nr)."""
        xs, us = self._given(xs, us)
        n = self._n
        return ((self.system.step(xs, us)[:, -n:] - xs[:, -n:]) / self.system.dt)[:, self.components]

    def jacobians(self, xs: np.ndarray, us: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """rx (K, nr, ndx), ru (K, nr, nu)."""
        fx, fu = self.system.linearize(*self._given(xs, us))
        rx = fx[:, self._rows]
        rx[:, np.arange(self.nr), self._rows] -= 1.0
        return rx / self.system.dt, fu[:, self._rows] / self.system.dt

    def hessian_products(
        self, xs: np.ndarray, us: np.ndarray | None, mu: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Hessians of mu'r."""
        lam = np.zeros((len(mu), self.system.ndx))
        lam[:, self._rows] = mu / self.system.dt
        return self.system.hessian_products(*self._given(xs, us), lam)
