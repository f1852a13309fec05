"""Any system with the controls before in its state, for costs and limits of how fast controls change."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from trajopt.interfaces.system import System, check_system, control_names, state_array
from trajopt.problem.remembering_system import RememberingSystem
from trajopt.validation import scalar_or_vector


class ControlRateSystem(RememberingSystem):
    """Any system with the previous control appended to its state: z = (x, u_before), tangent (dx, du_before).

    Parameters
    ----------
    system : System
        With state x (nx), tangent (ndx) and controls u (nu); its time step and controls remain.

    Attributes
    ----------
    nx, ndx : those of the system inside, plus nu.

    Raises
    ------
    ValueError
        If the system takes accelerations for controls (``formulation="inverse"``).

    Notes
    -----
    It has most capabilities of the system inside; those that it cannot carry raise an AttributeError
    that says why.
    """

    def __init__(self, system: System) -> None:
        check_system(system, "nx", "ndx", "nu", "dt", "integrate", "difference", "step")
        super().__init__(system, system.nu)

    def state(self, x: ArrayLike, u_before: ArrayLike = 0.0) -> np.ndarray:
        """z = (x, u_before), x (nx,) of the system inside, u_before a number or (nu,)."""
        before = np.full(self.nu, 1.0) * scalar_or_vector("u_before", u_before, self.nu)
        return np.concatenate([state_array(self.system, "x", x), before])

    def _remembered(self, x, u):
        return u

    def _write_memory(self, px, pu):
        pu[:] = np.eye(self.nu)

    def _names_before(self):
        return control_names(self.system) or [f"u_{i + 1}" for i in range(self.nu)]
