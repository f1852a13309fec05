"""Sweeps that contract the dynamics curvature with their own Vx', which is known only one knot after another.

At each knot sum_i Vx'_i d2 f_i is added to Qxx, Qux and Quu [Tassa 2012, eq. 5c-5e], either from the system's Hessian
products, one knot per call, or from full tensors that were computed for all knots beforehand.
"""

import numpy as np

from dynamics.simd import kernel
from trajopt.backward_pass import SweepResult, backward_step, empty_gains
from trajopt.expansions import Expansion
from trajopt.system import System


def sweep_products(system: System, xs: np.ndarray, us: np.ndarray, expansion: Expansion, mu: float) -> SweepResult:
    """Exact sweep with `system.hessian_products` called knot by knot (classical DDP)."""
    fx, fu, lx, lu, lxx, lux, luu = expansion
    N, ndx, nu = fu.shape
    k, K, Vx, Vxx = empty_gains(N, ndx, nu)
    Vx[N], Vxx[N] = lx[N], lxx[N]
    d1 = d2 = 0.0
    for t in range(N - 1, -1, -1):
        Hxx, Hux, Huu = system.hessian_products(xs[t : t + 2], us[t : t + 1], Vx[t + 1 : t + 2])
        a, b, ok = backward_step(
            fx[t], fu[t], lx[t], lu[t], lxx[t] + Hxx[0], lux[t] + Hux[0], luu[t] + Huu[0],
            Vx[t + 1], Vxx[t + 1], float(mu), k[t], K[t], Vx[t], Vxx[t],
        )  # fmt: skip
        if not ok:
            return SweepResult(k, K, Vx, Vxx, d1, d2, False)
        d1, d2 = d1 + a, d2 + b
    return SweepResult(k, K, Vx, Vxx, d1, d2, bool(np.isfinite(d1 + d2)))


@kernel
def _add_contraction(y, tensor, target):
    """target[j, k] += sum_i y[i] tensor[i, j, k]."""
    for i in range(tensor.shape[0]):
        for j in range(tensor.shape[1]):
            for l in range(tensor.shape[2]):
                target[j, l] += y[i] * tensor[i, j, l]


@kernel
def _sweep_tensors(fx, fu, lx, lu, lxx, lux, luu, fxx, fux, fuu, mu, k, K, Vx, Vxx):
    N = fx.shape[0]
    Vx[N] = lx[N]
    Vxx[N] = lxx[N]
    Hxx, Hux, Huu = np.empty_like(lxx[0]), np.empty_like(lux[0]), np.empty_like(luu[0])
    d1, d2 = 0.0, 0.0
    for t in range(N - 1, -1, -1):
        Hxx[:] = lxx[t]
        Hux[:] = lux[t]
        Huu[:] = luu[t]
        _add_contraction(Vx[t + 1], fxx[t], Hxx)
        _add_contraction(Vx[t + 1], fux[t], Hux)
        _add_contraction(Vx[t + 1], fuu[t], Huu)
        a, b, ok = backward_step(
            fx[t], fu[t], lx[t], lu[t], Hxx, Hux, Huu, Vx[t + 1], Vxx[t + 1], mu, k[t], K[t], Vx[t], Vxx[t]
        )
        if not ok:
            return d1, d2, False
        d1 += a
        d2 += b
    return d1, d2, np.isfinite(d1 + d2)


def sweep_tensors(expansion: Expansion, tensors: tuple[np.ndarray, np.ndarray, np.ndarray], mu: float) -> SweepResult:
    """Exact sweep that contracts full tensors fxx, fux, fuu (N, ndx, ., .) as it goes."""
    N, ndx, nu = expansion.fu.shape
    arrays = empty_gains(N, ndx, nu)
    fxx, fux, fuu = (np.ascontiguousarray(tensor, dtype=np.float64) for tensor in tensors)
    d1, d2, ok = _sweep_tensors(*expansion, fxx, fux, fuu, float(mu), *arrays)
    return SweepResult(*arrays, d1, d2, bool(ok))
