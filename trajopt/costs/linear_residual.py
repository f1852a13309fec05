"""A linear function of the controls and of a state's last numbers, velocities or controls before, as a residual."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from trajopt.interfaces.owners import state_space
from trajopt.interfaces.system import System, check_system
from trajopt.validation import float_array


class LinearResidual:
    """r = A y + B u, y the last n numbers of the state, which are plain ones also where others lie on a manifold.

    Parameters
    ----------
    system : System
    A : (nr, n) array
    B : (nr, nu) array
    component_names : of the nr numbers, or none
    name : how messages call it
    """

    def __init__(
        self, system: System, A: ArrayLike, B: ArrayLike, component_names: tuple[str, ...] = (), name: str = "linear"
    ) -> None:
        check_system(system, "nx", "ndx", "nu")
        self.A, self.B = float_array("A", A, None), float_array("B", B, None)
        self.nr, self.name, self.component_names = len(self.B), name, component_names
        if self.B.shape != (self.nr, system.nu) or self.A.shape != (self.nr, min(self.A.shape[-1], system.ndx)):
            wanted = f"({self.nr}, n <= {system.ndx}) and ({self.nr}, {system.nu})"
            raise ValueError(f"A, B: got shapes {self.A.shape} and {self.B.shape}, wanted {wanted}")
        self.made_for: Any = state_space(system)
        self._rx = np.zeros((self.nr, system.ndx))
        self._rx[:, system.ndx - self.A.shape[1] :] = self.A

    def evaluate(self, xs: np.ndarray, us: np.ndarray | None) -> np.ndarray:
        """r (K, nr)."""
        if us is None:
            raise ValueError(f"us: got None, wanted controls: {self.name} depends on them")
        return us @ self.B.T + xs[: len(us), xs.shape[1] - self.A.shape[1] :] @ self.A.T

    def jacobians(self, xs: np.ndarray, us: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """rx (K, nr, ndx), ru (K, nr, nu), the same at all knots."""
        return np.tile(self._rx, (len(xs), 1, 1)), np.tile(self.B, (len(xs), 1, 1))

    def hessian_products(self, xs: np.ndarray, us: np.ndarray | None, mu: np.ndarray) -> tuple[None, None, None]:
        """No curvature."""
        return None, None, None
