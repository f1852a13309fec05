"""States x = [q; v] of a robot as points of a manifold: moved, compared, and the difference expanded.

    integrate       [q (+) dq; v + dv]
    difference      r = [log(q_ref^-1 q); v - v_ref]
    expansion       r(x (+) d) = r + J d + ...      mu'r = ... + 1/2 d'H d

J = diag(Jr(r)^-1, I) and H = -J'Gam(r, J'mu)J on the configuration are block diagonal over the joints, so only these
blocks are written.  A batch of a single point goes to all lanes: `gather` repeats the last one that there is.

Only shapes are checked, because solvers call this in their inner loops and with states that have diverged: a state that
is not finite gives a result that is not finite.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from dynamics.kernel_model import kernel_model
from dynamics.knot_driver import knot_driver, nv
from dynamics.lane_algebra import combine
from dynamics.model import RigidBodyModel
from dynamics.simd import LANES, carve, driver, gather, helper, kernel, launch, scatter
from dynamics.simd.sizes import Size
from dynamics.tangent import (
    JACOBIAN_INVERSE,
    TANGENT_SLOTS,
    add_map,
    difference_configuration,
    integrate_configuration,
    tangent_maps_inverse,
)
from dynamics.tangent_geometry import add_log_hessian
from dynamics.validation import as_floats


@kernel
def _integrate_kernel(m, x, dx, out):
    n = m.dof_body.size
    nq = x.shape[0] - n
    integrate_configuration(m, x[:nq], dx[:n], out[:nq])
    combine(n, out[nq:], x[nq:], 1.0, dx[n:])


@kernel
def _difference_kernel(m, x_ref, x, r):
    n = m.dof_body.size
    nq = x.shape[0] - n
    difference_configuration(m, x_ref[:nq], x[:nq], r[:n])
    combine(n, r[n:], x[nq:], -1.0, x_ref[nq:])


_drive_integrate = knot_driver(
    _integrate_kernel, inputs="x dx", scratch={}, outputs={"out": Size("nx", "x.shape[1]")}
)
_drive_difference = knot_driver(_difference_kernel, inputs="x_ref x", scratch={}, outputs={"r": 2 * nv})


@helper
def _scatter_joint_blocks(m, ws, first, target):
    """The block of every joint of ws (n n) into target (K, 2n, 2n)."""
    n = m.dof_body.size
    for k in range(min(LANES, target.shape[0] - first)):
        for i in range(len(m.joint_type)):
            start, stop = m.v_index[i], m.v_index[i] + m.dof_count[i]
            for r in range(start, stop):
                for c in range(start, stop):
                    target[first + k, r, c] = ws[r * n + c, k]


@driver
def _drive_expansion(first, last, work, block, x_ref, x, mu, r, J, H):
    """r (K, 2n), J and, unless mu is None, H (K, 2n, 2n), which are zero on entry."""
    m = kernel_model(block)
    nb, n, nx = m.parent.size, m.dof_body.size, x.shape[1]
    nq = nx - n
    for c in range(first, last):
        a, w = carve(work, nx)
        b, w = carve(w, nx)
        k, w = carve(w, 2 * n)
        r_, w = carve(w, 2 * n)
        maps, w = carve(w, nb * TANGENT_SLOTS)
        X, w = carve(w, n * n)
        gather(x_ref, c * LANES, a)
        gather(x, c * LANES, b)
        difference_configuration(m, a[:nq], b[:nq], r_[:n])
        combine(n, r_[n:], b[nq:], -1.0, a[nq:])
        scatter(r_, c * LANES, r)
        tangent_maps_inverse(m, r_, maps)
        X[:] = 0.0
        add_map(m, maps, JACOBIAN_INVERSE, 1.0, X, 0, n)
        _scatter_joint_blocks(m, X, c * LANES, J)
        for t in range(c * LANES, min((c + 1) * LANES, J.shape[0])):
            for i in range(n, 2 * n):
                J[t, i, i] = 1.0
        if mu is not None:
            gather(mu, c * LANES, k)
            X[:] = 0.0
            add_log_hessian(m, maps, r_, k, 1.0, X, 0, n)
            _scatter_joint_blocks(m, X, c * LANES, H)


# ------------------------------------------------------------------------------------------------ from arrays
def points(name: str, value: ArrayLike, size: int) -> tuple[np.ndarray, bool]:
    """A batch (K, size) for a driver, and whether it came as one point (size,); only the shape is checked."""
    array = as_floats(name, value)
    if array.ndim not in (1, 2) or array.shape[-1] != size:
        raise ValueError(f"{name}: got shape {array.shape}, expected ({size},) or (K, {size})")
    if not array.flags.writeable:
        array = array.copy()  # a read-only array would compile the driver anew
    return array.reshape(-1, size), array.ndim == 1


def common_count(one: str, a: np.ndarray, other: str, b: np.ndarray) -> int:
    """How many points two batches have, of which one may be a single point."""
    if len(a) != len(b) and len(a) != 1 and len(b) != 1:
        raise ValueError(f"{one} has {len(a)} points and {other} has {len(b)}; expected as many")
    return len(b) if len(a) == 1 else len(a)


def integrate_states(model: RigidBodyModel, x: ArrayLike, dx: ArrayLike) -> np.ndarray:
    """x (+) dx;  x (nx,) or (K, nx), dx (2 nv,) or (K, 2 nv)."""
    n, nx = model.nv, model.nq + model.nv
    (x, one), (dx, other) = points("x", x, nx), points("dx", dx, 2 * n)
    K = common_count("x", x, "dx", dx)
    if model.is_euclidean:
        with np.errstate(invalid="ignore"):
            out = x + dx
    else:
        out = np.empty((K, nx))
        _drive_integrate(model, x, dx, out, knots=K)
    return out[0] if one and other else out


def difference_of_states(model: RigidBodyModel, x0: ArrayLike, x1: ArrayLike) -> np.ndarray:
    """The tangent vector from x0 to x1, each (nx,) or (K, nx)."""
    n, nx = model.nv, model.nq + model.nv
    (x0, one), (x1, other) = points("x0", x0, nx), points("x1", x1, nx)
    K = common_count("x0", x0, "x1", x1)
    if model.is_euclidean:
        with np.errstate(invalid="ignore"):
            out = x1 - x0
    else:
        out = np.empty((K, 2 * n))
        _drive_difference(model, x0, x1, out, knots=K)
    return out[0] if one and other else out


def difference_expansion(
    model: RigidBodyModel, x_ref: ArrayLike, xs: ArrayLike, mu: ArrayLike | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Expansion of r = difference(x_ref, x) in the tangent of x at every point of xs.

    Parameters: x_ref (nx,) or (K, nx), xs (K, nx), mu (K, 2 nv) or None.
    Returns: r (K, 2 nv), J and H (K, 2 nv, 2 nv); H is None without mu.
    """
    n, nx = model.nv, model.nq + model.nv
    (x_ref, _), (xs, _) = points("x_ref", x_ref, nx), points("xs", xs, nx)
    K = len(xs)
    if len(x_ref) not in (1, K):
        raise ValueError(f"x_ref has {len(x_ref)} points and xs has {K}; expected as many, or a single point")
    r, J, H = np.empty((K, 2 * n)), np.zeros((K, 2 * n, 2 * n)), None
    if mu is not None:
        mu, _ = points("mu", mu, 2 * n)
        if len(mu) != K:
            raise ValueError(f"mu has {len(mu)} rows and xs has {K}; expected as many")
        H = np.zeros(J.shape)
    numbers = 2 * nx + 4 * n + len(model.arrays.parent) * TANGENT_SLOTS + n * n
    launch(_drive_expansion, K, numbers, model.block, x_ref, xs, mu, r, J, H)
    return r, J, H
