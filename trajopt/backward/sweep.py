"""The backward pass of differential dynamic programming: from the last knot to the first, gains and value function.

At each knot three parts follow one another, `action_value`, `gains` and `value_function`, with SIMD registers along
matrix rows, on one thread.  The expected change of the cost for a step alpha is alpha d1 + alpha^2/2 d2, d1 = sum k'Qu,
d2 = sum k'Quu k.  The update of V is exact for any gains, so a regularized sweep still returns the value of the policy
it returns.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from dynamics.simd import driver
from trajopt.backward.action_value import action_value
from trajopt.backward.box_qp import NO_BOX, Box
from trajopt.backward.curvature import NO_TENSORS, CurvatureOfKnot, Tensors, add_contraction
from trajopt.backward.expansions import Expansion, finite
from trajopt.backward.gains import gains
from trajopt.backward.scratch import SweepShape, scratch_size, split
from trajopt.backward.value_function import final_value, finite_value, value_function

COMMON_SIZES = {(12, 6), (14, 7)}
"""(ndx, nu) of arms with six and seven joints: these sizes are compile-time constants by default, a fifth to a third
faster for a few seconds of compilation per size.  All others share a kernel that reads them from the arrays, so that a
new robot compiles nothing."""
ANY_SIZES = 0, 0, 0
_NO_GAPS = np.empty((0, 0))


class SweepResult(NamedTuple):
    """Gains k (N, nu), K (N, nu, ndx); value function Vx (N+1, ndx), Vxx (N+1, ndx, ndx); expected change d1, d2.

    If not ok, Quu + mu I was not positive definite, or a number not finite, at failed_knot (else -1), and the arrays
    are zero.  `finite` is False if that is because an input of the sweep was not finite.
    """

    k: np.ndarray
    K: np.ndarray
    Vx: np.ndarray
    Vxx: np.ndarray
    d1: float
    d2: float
    ok: bool
    failed_knot: int = -1
    finite: bool = True


class _Arrays(NamedTuple):
    """The arrays of a `SweepResult`."""

    k: np.ndarray
    K: np.ndarray
    Vx: np.ndarray
    Vxx: np.ndarray


@cache
def _compiled(constant_ndx: int, constant_nu: int, constant_derived: int):
    """The sweep compiled for these sizes, without leading rows, or for any sizes (0, 0, 0); with box and tensors None,
    without code for them."""
    shared = None if constant_ndx > 0 else ()

    @driver
    def sweep(first, last, mu, shape, seconds, accelerations, e, tensors, gaps, box, result, ws):
        if constant_ndx > 0:
            shape = np.int64(constant_ndx), np.int64(constant_nu), np.int64(0), np.int64(constant_derived)
        shape, e, result = SweepShape(*shape), Expansion(*e), _Arrays(*result)
        s = split(ws, shape)
        if last == len(e.fx):
            final_value(shape.ndx, gaps, e, result)
        d1, d2 = 0.0, 0.0
        for t in range(last - 1, first - 1, -1):
            if tensors is not None:
                add_contraction(t, shape.ndx, result.Vx, tensors, (e.lxx, e.lux, e.luu))
            Qxx = action_value(shared, t, shape, mu, seconds[t], accelerations, e, result, s)
            good, linear, quadratic = gains(t, shape, mu, box, s, result)
            if not good:
                return t, 0.0, 0.0
            value_function(shared, t, shape, mu, gaps, Qxx, s, result)
            d1, d2 = d1 + linear, d2 + quadratic
        if first == 0 and not finite_value(shape.ndx, result):
            return 0, 0.0, 0.0
        return -1, d1, d2

    return sweep


class _Window:
    """A sweep that continues from one range of knots to the next; arguments as of `sweep`, arrays checked, and tensors
    to contract."""

    def __init__(
        self, e, mu, semi_implicit_dt, gaps, box, leading, accelerations=False, constant_sizes=None, tensors=None
    ):
        knots, ndx, nu = e[1].shape
        if not 0 <= leading < max(1, ndx // 2):
            raise ValueError(f"leading: got {leading}, expected at least 0 and less than ndx / 2 = {ndx // 2}")
        scalar = isinstance(semi_implicit_dt, float)
        seconds = np.full(knots, semi_implicit_dt) if scalar else np.ascontiguousarray(semi_implicit_dt, np.float64)
        shape = (ndx, nu, leading, ndx // 2 - leading) if np.count_nonzero(seconds) else (ndx, nu, 0, 0)
        constant = (ndx, nu) in COMMON_SIZES if constant_sizes is None else constant_sizes
        constant = constant and shape[2] == 0 and (shape[3] > 0 or constant_sizes is not None)
        self._run = _compiled(*((ndx, nu, shape[3]) if constant else ANY_SIZES))
        if box is not None or tensors is not None:  # both, so that one kernel serves for either
            box, tensors = NO_BOX if box is None else tuple(box), NO_TENSORS if tensors is None else tensors
        self._arrays = (
            np.empty((knots, nu)), np.empty((knots, nu, ndx)),
            np.empty((knots + 1, ndx)), np.empty((knots + 1, ndx, ndx)),
        )  # fmt: skip
        # plain tuples: numba takes a microsecond to recognize a named one
        self._start = float(mu), shape, seconds, accelerations, e, tensors
        self._end = _NO_GAPS if gaps is None else gaps, box, self._arrays
        self._scratch = np.empty(scratch_size(ndx, nu))

    def sweep(self, first: int, last: int) -> SweepResult:
        """Sweep knots last - 1 to first, the knots from `last` on having been swept; returns the whole result, with d1
        and d2 of these knots."""
        failed, d1, d2 = self._run(first, last, *self._start, *self._end, self._scratch)
        if failed >= 0:
            for array in self._arrays:
                array[...] = 0.0
        return SweepResult(*self._arrays, d1, d2, failed < 0, failed)


def empty_gains(N: int, ndx: int, nu: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Zeroed k, K, Vx, Vxx for a sweep to fill."""
    return np.zeros((N, nu)), np.zeros((N, nu, ndx)), np.zeros((N + 1, ndx)), np.zeros((N + 1, ndx, ndx))


def sweep(
    fx: np.ndarray,
    fu: np.ndarray,
    lx: np.ndarray,
    lu: np.ndarray,
    lxx: np.ndarray,
    lux: np.ndarray,
    luu: np.ndarray,
    mu: float,
    semi_implicit_dt: float | np.ndarray = 0.0,
    gaps: np.ndarray | None = None,
    box: Box | None = None,
    constant_sizes: bool | None = None,
    accelerations: bool = False,
    leading: int = 0,
) -> SweepResult:
    """Gains and value function of the linear-quadratic problem with N knots, regularized by mu I in Quu.

    fx (N, ndx, ndx), fu (N, ndx, nu), lx (N + 1, ndx), lu (N, nu), lxx (N + 1, ndx, ndx), lux (N, nu, ndx) and
    luu (N, nu, nu); of the symmetric ones only the upper triangles are used.  ``semi_implicit_dt`` = h > 0, or (N,)
    with h >= 0 for every knot, asserts fx[:, :n] = [I 0] + h fx[:, n:] and fu[:, :n] = h fu[:, n:] with n = ndx/2;
    only the lower halves are read then.  ``leading`` = b restricts that assertion to the rows from b < n on; the first
    b rows are read, too.
    ``gaps`` (N + 1, ndx) and ``box`` (see `trajopt.backward.box_qp`) are optional.
    ``accelerations`` asserts fx[:, n:] = [0 I] and fu[:, n:] = h I besides; fx and fu are not read then.
    ``constant_sizes`` compiles a kernel for just this ndx and nu (default: for COMMON_SIZES where it is semi-implicit);
    the results agree to rounding.
    """
    e = _contiguous(fx, fu, lx, lu, lxx, lux, luu)
    return _Window(e, mu, semi_implicit_dt, gaps, box, leading, accelerations, constant_sizes).sweep(0, len(fx))


def _contiguous(*e: np.ndarray) -> tuple[np.ndarray, ...]:
    fx, fu, lx, lu, lxx, lux, luu = arrays = tuple([np.ascontiguousarray(a, np.float64) for a in e])
    knots, ndx, nu = fu.shape
    at_knots = fx.shape == (knots, ndx, ndx) and lu.shape == (knots, nu) and lux.shape == (knots, nu, ndx)
    of_states = lx.shape == (knots + 1, ndx) and lxx.shape == (knots + 1, ndx, ndx)
    if not (at_knots and of_states and luu.shape == (knots, nu, nu)):
        raise ValueError(f"shapes do not fit fu {fu.shape}: {[a.shape for a in arrays]}")
    return arrays


def sweep_with_curvature(
    e: Expansion,
    curvature: CurvatureOfKnot,
    mu: float,
    semi_implicit_dt: float | np.ndarray = 0.0,
    gaps: np.ndarray | None = None,
    box: Box | None = None,
    leading: int = 0,
) -> SweepResult:
    """The sweep of an expansion to which the curvature of the dynamics is added, contracted with the sweep's own Vx',
    which is known only one knot after another [Tassa 2012, eq. 5c-5e]; parameters as of `sweep`."""
    first, hessians = _contiguous(*e)[:4], tuple(H.copy() for H in e[4:])
    tensors = tuple(curvature) if isinstance(curvature, Tensors) else None
    window = _Window((*first, *hessians), mu, semi_implicit_dt, gaps, box, leading, tensors=tensors)
    N, d1, d2 = len(e.fx), 0.0, 0.0
    if isinstance(curvature, Tensors):
        result = window.sweep(0, N)
        return result if result.ok else result._replace(finite=finite(*first, *hessians))
    result = window.sweep(N, N)
    for t in range(N - 1, -1, -1):
        for H, more in zip(hessians, curvature(t, result.Vx[t + 1]), strict=True):
            H[t] += more
        result = window.sweep(t, t + 1)
        d1, d2 = d1 + result.d1, d2 + result.d2
        if not result.ok:
            return result._replace(finite=finite(*first, *hessians))
    return result._replace(d1=d1, d2=d2)
