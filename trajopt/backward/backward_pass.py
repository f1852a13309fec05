"""One sweep from the last knot to the first: gains and value function of the linear-quadratic problem at each knot.

    Qx  = lx + fx'Vx'            Qu  = lu + fu'Vx'                                          [Tassa 2012, eq. 5]
    Qxx = lxx + fx'Vxx'fx        Qux = lux + fu'Vxx'fx       Quu = luu + fu'Vxx'fu
    k = -(Quu + mu I)^-1 Qu      K = -(Quu + mu I)^-1 Qux                                   [eq. 10]
    Vx  = Qx + K'Quu k + K'Qu + Qux'k                                                       [eq. 11b]
    Vxx = Qxx + K'Quu K + K'Qux + Qux'K                                                     [eq. 11c]

with ' on V the next knot's.  Curvature of the dynamics, where wanted, has been added to lxx, lux and luu beforehand.
The expected change of the cost for a step alpha is alpha d1 + alpha^2/2 d2, d1 = sum k'Qu, d2 = sum k'Quu k.  The
update of V is exact for any gains, so a regularized sweep still returns the value of the policy it returns.

With control limits, `Box`, a box QP finds k, and rows of K are zero where a limit holds [Tassa 2014].  With gaps
between the states and the dynamics, Vx at each knot is that at the end of its gap, Vx + Vxx gap [Mastalli 2020].

These are plain loops for any size: the reference for the SIMD sweep, and the sweep whose curvature depends on Vx'.
"""

from typing import NamedTuple

import numpy as np

from dynamics.simd import routine
from trajopt.backward.box_qp import PIVOT, box_qp


class SweepResult(NamedTuple):
    """Gains k (N, nu), K (N, nu, ndx); value function Vx (N+1, ndx), Vxx (N+1, ndx, ndx); expected change d1, d2.

    If not ok, Quu + mu I was not positive definite, or something not finite, at failed_knot (else -1), and the arrays
    are incomplete.  `finite` is False if that is because the sweep was given something that is not finite.
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


class Box(NamedTuple):
    """Limits of the change of the controls, lower <= k <= upper (N, nu), for a sweep to keep.

    The sweep fills k (N, nu) and clamped (N, nu), which says where a limit holds; H, L (nu, nu), g (nu,) and work
    (4, nu) are scratch.
    """

    lower: np.ndarray
    upper: np.ndarray
    k: np.ndarray
    clamped: np.ndarray
    H: np.ndarray
    g: np.ndarray
    L: np.ndarray
    work: np.ndarray


def box_around(us: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> Box:
    """The box of changes of the controls us (N, nu) that keep them within lower and upper (N, nu)."""
    N, nu = us.shape
    scratch = np.empty((nu, nu)), np.empty(nu), np.empty((nu, nu)), np.empty((4, nu))
    return Box(lower - us, upper - us, np.zeros((N, nu)), np.zeros((N, nu), dtype=np.bool_), *scratch)


class Workspace(NamedTuple):
    """Scratch for one knot: Qx (ndx,), Qu (nu,), Qxx, Qux, Quu, Vf (ndx, ndx + nu), L (nu, nu), W (nu, ndx)."""

    Qx: np.ndarray
    Qu: np.ndarray
    Qxx: np.ndarray
    Qux: np.ndarray
    Quu: np.ndarray
    Vf: np.ndarray
    L: np.ndarray
    W: np.ndarray


def workspace(ndx: int, nu: int) -> Workspace:
    """Scratch for a sweep with these sizes."""
    shapes = (ndx,), (nu,), (ndx, ndx), (nu, ndx), (nu, nu), (ndx, ndx + nu), (nu, nu), (nu, ndx)
    return Workspace(*(np.empty(shape) for shape in shapes))


@routine
def action_value(t, fx, fu, lx, lu, lxx, lux, luu, Vx, Vxx, ws):
    """Expansion of Q at knot t from that of V at knot t + 1, into the workspace."""
    n, m = fu.shape[1], fu.shape[2]
    for i in range(n):  # Vf = Vxx' [fx fu]
        for j in range(n + m):
            ws.Vf[i, j] = 0.0
        for l in range(n):
            a = Vxx[t + 1, i, l]
            for j in range(n):
                ws.Vf[i, j] += a * fx[t, l, j]
            for j in range(m):
                ws.Vf[i, n + j] += a * fu[t, l, j]
    for i in range(n):
        ws.Qx[i] = lx[t, i]
        for j in range(n):
            ws.Qxx[i, j] = lxx[t, i, j]
    for i in range(m):
        ws.Qu[i] = lu[t, i]
        for j in range(n):
            ws.Qux[i, j] = lux[t, i, j]
        for j in range(m):
            ws.Quu[i, j] = luu[t, i, j]
    for l in range(n):
        slope = Vx[t + 1, l]
        for i in range(n):
            a = fx[t, l, i]
            ws.Qx[i] += a * slope
            for j in range(n):
                ws.Qxx[i, j] += a * ws.Vf[l, j]
        for i in range(m):
            a = fu[t, l, i]
            ws.Qu[i] += a * slope
            for j in range(n):
                ws.Qux[i, j] += a * ws.Vf[l, j]
            for j in range(m):
                ws.Quu[i, j] += a * ws.Vf[l, n + j]


@routine
def clamp_right_sides(t, box, ws, L, k, K):
    """Solve the box QP of knot t with H = L, then rewrite H k = -Qu, H K = -Qux so that clamped controls stay."""
    m = k.shape[1]
    x, clamped = box.k[t], box.clamped[t]
    for i in range(m):
        x[i] = 0.0
        for j in range(m):
            box.H[i, j] = L[i, j]
    good = box_qp(box.H, ws.Qu, box.lower[t], box.upper[t], x, clamped, box.L, box.work)
    for c in range(m):
        if clamped[c]:
            for i in range(m):
                if not clamped[i]:
                    k[t, i] -= box.H[i, c] * x[c]
                if i != c:
                    L[i, c] = 0.0
                    L[c, i] = 0.0
            k[t, c] = box.H[c, c] * x[c]
            K[t, c] = 0.0
    return good


@routine
def gains(t, mu, ws, box, k, K):
    """k = -(Quu + mu I)^-1 Qu, K = -(Quu + mu I)^-1 Qux at knot t, by LDL'; False if a pivot is not positive."""
    m, n = K.shape[1], K.shape[2]
    L = ws.L
    largest = 0.0
    for i in range(m):
        for j in range(m):
            L[i, j] = 0.5 * (ws.Quu[i, j] + ws.Quu[j, i])
        L[i, i] += mu
        largest = max(largest, abs(L[i, i]))
        k[t, i] = -ws.Qu[i]
        for j in range(n):
            K[t, i, j] = -ws.Qux[i, j]
    if box is not None and not clamp_right_sides(t, box, ws, L, k, K):
        return False
    for c in range(m):  # eliminate column c below the diagonal, right-hand sides along
        if not L[c, c] > PIVOT * largest:
            return False
        for i in range(c + 1, m):
            f = L[i, c] / L[c, c]
            for j in range(c + 1, m):
                L[i, j] -= f * L[c, j]
            k[t, i] -= f * k[t, c]
            for j in range(n):
                K[t, i, j] -= f * K[t, c, j]
    for c in range(m - 1, -1, -1):
        for i in range(c + 1, m):
            k[t, c] -= L[c, i] * k[t, i]
            for j in range(n):
                K[t, c, j] -= L[c, i] * K[t, i, j]
        k[t, c] /= L[c, c]
        for j in range(n):
            K[t, c, j] /= L[c, c]
    if box is not None:
        for c in range(m):
            if box.clamped[t, c]:
                k[t, c] = box.k[t, c]  # without rounding
    return True


@routine
def shift_gradient(t, gaps, Vx, Vxx):
    """Vx[t] += Vxx[t] gaps[t]: the gradient at the end of the gap."""
    for i in range(Vx.shape[1]):
        for j in range(Vx.shape[1]):
            Vx[t, i] += Vxx[t, i, j] * gaps[t, j]


@routine
def value_function(t, ws, k, K, Vx, Vxx):
    """Vx, Vxx of the policy (k, K) at knot t; returns its k'Qu and k'Quu k."""
    m, n = K.shape[1], K.shape[2]
    d1, d2 = 0.0, 0.0
    for i in range(n):
        Vx[t, i] = ws.Qx[i]
        for j in range(n):
            Vxx[t, i, j] = ws.Qxx[i, j]
    for i in range(m):
        Quu_k = 0.0
        for j in range(m):
            Quu_k += ws.Quu[i, j] * k[t, j]
        d1 += k[t, i] * ws.Qu[i]
        d2 += k[t, i] * Quu_k
        for j in range(n):  # W = Quu K / 2 + Qux, so that K'W + W'K = K'Quu K + K'Qux + Qux'K
            ws.W[i, j] = ws.Qux[i, j]
            Vx[t, j] += K[t, i, j] * (Quu_k + ws.Qu[i]) + ws.Qux[i, j] * k[t, i]
        for l in range(m):
            a = 0.5 * ws.Quu[i, l]
            for j in range(n):
                ws.W[i, j] += a * K[t, l, j]
    for l in range(m):
        for i in range(n):
            a, b = K[t, l, i], ws.W[l, i]
            for j in range(n):
                Vxx[t, i, j] += a * ws.W[l, j] + b * K[t, l, j]
    for i in range(n):
        for j in range(i):
            mean = 0.5 * (Vxx[t, i, j] + Vxx[t, j, i])
            Vxx[t, i, j] = mean
            Vxx[t, j, i] = mean
    return d1, d2


@routine
def backward_step(t, fx, fu, lx, lu, lxx, lux, luu, mu, gaps, box, ws, k, K, Vx, Vxx):
    """Knot t of the sweep: reads V at knot t + 1, writes gains and V at knot t; returns d1, d2, ok."""
    action_value(t, fx, fu, lx, lu, lxx, lux, luu, Vx, Vxx, ws)
    if not gains(t, mu, ws, box, k, K):
        return 0.0, 0.0, False
    d1, d2 = value_function(t, ws, k, K, Vx, Vxx)
    if gaps is not None:
        shift_gradient(t, gaps, Vx, Vxx)
    good = np.isfinite(d1 + d2)
    if t == 0:  # no knot follows that would notice
        good = good and np.isfinite(Vx[0]).all() and np.isfinite(Vxx[0]).all()
    return d1, d2, good


@routine
def _sweep(fx, fu, lx, lu, lxx, lux, luu, mu, gaps, box, ws, k, K, Vx, Vxx):
    d1, d2 = 0.0, 0.0
    for t in range(fx.shape[0] - 1, -1, -1):
        a, b, ok = backward_step(t, fx, fu, lx, lu, lxx, lux, luu, mu, gaps, box, ws, k, K, Vx, Vxx)
        if not ok:
            return d1, d2, t
        d1 += a
        d2 += b
    return d1, d2, -1


def start_sweep(
    lx: np.ndarray, lxx: np.ndarray, nu: int, gaps: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """k, K, Vx, Vxx for a sweep to fill, V at the last knot in place."""
    k, K, Vx, Vxx = empty_gains(lx.shape[0] - 1, lx.shape[1], nu)
    Vx[-1], Vxx[-1] = lx[-1], lxx[-1]
    if gaps is not None:
        shift_gradient(len(lx) - 1, gaps, Vx, Vxx)
    return k, K, Vx, Vxx


def empty_gains(N: int, ndx: int, nu: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Zeroed k, K, Vx, Vxx for a sweep to fill."""
    return np.zeros((N, nu)), np.zeros((N, nu, ndx)), np.zeros((N + 1, ndx)), np.zeros((N + 1, ndx, ndx))


def sweep_loops(
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
    leading: int = 0,
) -> SweepResult:
    """The whole sweep, from the arrays of an `Expansion` and the regularization mu >= 0.

    ``semi_implicit_dt`` tells a structured sweep that fx and fu have semi-implicit form with this time step (0: they
    have not), ``leading`` that their first rows have not; these loops make no use of it.
    """
    _, ndx, nu = fu.shape
    arrays = start_sweep(lx, lxx, nu, gaps)
    d1, d2, failed = _sweep(fx, fu, lx, lu, lxx, lux, luu, float(mu), gaps, box, workspace(ndx, nu), *arrays)
    return SweepResult(*arrays, d1, d2, failed < 0, failed)
