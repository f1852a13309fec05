"""Sweeps that contract the dynamics curvature with their own Vx', which is known only one knot after another.

At each knot sum_i Vx'_i d2 f_i is added to Qxx, Qux and Quu [Tassa 2012, eq. 5c-5e], either from the system's Hessian
products, one knot per call, or from full tensors that were computed for all knots beforehand.
"""

import numpy as np

from dynamics.simd import routine
from trajopt.backward.backward_pass import Box, SweepResult, backward_step, start_sweep, workspace
from trajopt.backward.expansions import Expansion, finite, hessian_products
from trajopt.interfaces.system import System, window
from trajopt.validation import same_shape


def sweep_products(
    system: System,
    xs: np.ndarray,
    us: np.ndarray,
    expansion: Expansion,
    mu: float,
    gaps: np.ndarray | None = None,
    box: Box | None = None,
) -> SweepResult:
    """Exact sweep with `system.hessian_products` called knot by knot (classical DDP)."""
    fx, fu, lx, lu, lxx, lux, luu = expansion
    N, ndx, nu = fu.shape
    lxx, lux, luu = lxx.copy(), lux.copy(), luu.copy()
    ws, arrays = workspace(ndx, nu), start_sweep(lx, lxx, nu, gaps)
    Vx = arrays[2]
    d1 = d2 = 0.0
    for t in range(N - 1, -1, -1):
        knot = window(system, t, t + 1)
        Hxx, Hux, Huu = hessian_products(knot, xs[t : t + 2], us[t : t + 1], Vx[t + 1 : t + 2])
        lxx[t] += Hxx[0]
        lux[t] += Hux[0]
        luu[t] += Huu[0]
        a, b, ok = backward_step(t, fx, fu, lx, lu, lxx, lux, luu, float(mu), gaps, box, ws, *arrays)
        if not ok:
            return SweepResult(*arrays, d1, d2, False, t, finite(fx, fu, lx, lu, lxx, lux, luu))
        d1, d2 = d1 + a, d2 + b
    return SweepResult(*arrays, d1, d2, True)


@routine
def _add_contraction(t, Vx, tensor, target):
    """target[t, j, l] += sum_i Vx[t + 1, i] tensor[t, i, j, l]."""
    for i in range(tensor.shape[1]):
        for j in range(tensor.shape[2]):
            for l in range(tensor.shape[3]):
                target[t, j, l] += Vx[t + 1, i] * tensor[t, i, j, l]


@routine
def _sweep_tensors(fx, fu, lx, lu, lxx, lux, luu, fxx, fux, fuu, mu, gaps, box, ws, k, K, Vx, Vxx):
    d1, d2 = 0.0, 0.0
    for t in range(fx.shape[0] - 1, -1, -1):
        _add_contraction(t, Vx, fxx, lxx)
        _add_contraction(t, Vx, fux, lux)
        _add_contraction(t, Vx, fuu, luu)
        a, b, ok = backward_step(t, fx, fu, lx, lu, lxx, lux, luu, mu, gaps, box, ws, k, K, Vx, Vxx)
        if not ok:
            return d1, d2, t
        d1 += a
        d2 += b
    return d1, d2, -1


def sweep_tensors(
    expansion: Expansion,
    tensors: tuple[np.ndarray, np.ndarray, np.ndarray],
    mu: float,
    gaps: np.ndarray | None = None,
    box: Box | None = None,
) -> SweepResult:
    """Exact sweep that contracts full tensors fxx, fux, fuu (N, ndx, ., .) as it goes."""
    fx, fu, lx, lu, lxx, lux, luu = expansion
    _, ndx, nu = fu.shape
    arrays = start_sweep(lx, lxx, nu, gaps)
    rows = (("fxx", lxx[:-1]), ("fux", lux), ("fuu", luu))
    fxx, fux, fuu = (
        same_shape(f"hessians, {name}", tensor, (len(fx), ndx, *block.shape[1:]))
        for (name, block), tensor in zip(rows, tensors, strict=True)
    )
    d1, d2, failed = _sweep_tensors(
        fx, fu, lx, lu, lxx.copy(), lux.copy(), luu.copy(), fxx, fux, fuu, float(mu), gaps, box, workspace(ndx, nu),
        *arrays,
    )  # fmt: skip
    good = failed < 0
    return SweepResult(*arrays, d1, d2, good, failed, good or finite(*expansion, fxx, fux, fuu))
