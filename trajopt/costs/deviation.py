"""The plain difference from a reference, of states or controls: a residual that sums its own squares."""

from typing import Any

import numpy as np

from dynamics.simd import routine
from trajopt.validation import check_rows


@routine
def _squares(z, reference, weights, start, stop, gradient, hessian):
    """1/2 sum w (z - reference)^2; w s and w are added to gradient (K, n) and hessian (K, n, n) if these have rows."""
    total, expanded = 0.0, gradient.shape[0] > 0
    next_row = min(weights.shape[0] - 1, 1)
    for t in range(start, stop):
        for i in range(z.shape[1]):
            w, s = weights[next_row * (t - start), i], z[t, i] - reference[i]
            total += 0.5 * w * s * s
            if expanded:
                gradient[t, i] += w * s
                hessian[t, i, i] += w
    return total


_NO_ROWS, _NO_BLOCKS = np.empty((0, 0)), np.empty((0, 0, 0))


class Deviation:
    """r = x - x_ref, or u - u_ref; weights hold weights alone (see `trajopt.problem.squares`).

    Equal where all this is equal.

    Parameters
    ----------
    of_controls : bool
    reference : (n,) array
    """

    sums_squares = True

    def __init__(self, of_controls: bool, reference: np.ndarray) -> None:
        self._of_controls, self._reference = of_controls, np.array(reference, dtype=np.float64)
        self.nr = len(self._reference)
        self._key = of_controls, self._reference.tobytes()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Deviation) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def weighted_squares(
        self, xs: np.ndarray, us: np.ndarray, weights: np.ndarray, start: int, stop: int, target: Any, curvature: Any
    ) -> float:
        """The sum over knots start <= t < stop; gradient and Hessian, which is exact, are added to the target."""
        n, z, gradient, hessian = self.nr, (us if self._of_controls else xs), _NO_ROWS, _NO_BLOCKS
        check_rows("us" if self._of_controls else "xs", z, stop, (n,))
        check_rows("weights", weights, 1 if len(weights) == 1 else stop - start, (n,))
        if target is not None:
            gradient, hessian = (target[1], target[4]) if self._of_controls else (target[0], target[2])
            check_rows("gradient", gradient, stop, (n,))
            check_rows("hessian", hessian, stop, (n, n))
        return _squares(z, self._reference, weights, start, stop, gradient, hessian)
