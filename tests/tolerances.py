"""What counts as equal in the tests: one table, and the error that it is compared with."""

import numpy as np
from numpy.typing import ArrayLike

IDENTITY = 1e-12  # two expressions of the same quantity, both computed here
COMPLEX_STEP = 1e-10

ORACLE = 1e-11  # another library's values and first derivatives
ORACLE_SECOND_ORDER = 1e-10  # its tensors of inverse dynamics
ORACLE_FORWARD_SECOND_ORDER = 1e-8  # its tensors of forward dynamics
ORACLE_ILL_CONDITIONED = 1e-9  # its forward dynamics where cond(M) exceeds the next number
ILL_CONDITIONED = 1e3

CONTRACTED = 1e-12  # a Hessian against the tensors it never forms
CENTRAL_DIFFERENCES = 1e-6
SIXTH_ORDER_DIFFERENCES = 1e-9
DENSE_KKT = 1e-8

SLOPE = 0.1  # of an error against its step length on a log-log plot


def relative_error(value: ArrayLike, expected: ArrayLike, floor: float = 0.0) -> float:
    """Largest deviation over the largest entry of `expected`, or over `floor` if that is larger.

    Where both are zero the deviation itself counts.  Shapes must agree; a NaN gives NaN, which no tolerance admits.
    """
    value, expected = np.asarray(value), np.asarray(expected)
    assert value.shape == expected.shape, f"shape {value.shape}, expected {expected.shape}"
    scale = max(float(np.abs(expected).max(initial=0.0)), floor)
    return float(np.abs(value - expected).max(initial=0.0)) / (scale or 1.0)


def forward_tolerance(M: np.ndarray) -> float:
    """Tolerance of forward dynamics against an oracle, by the condition of the mass matrices M (..., nv, nv)."""
    return ORACLE_ILL_CONDITIONED if np.linalg.cond(M).max() > ILL_CONDITIONED else ORACLE
