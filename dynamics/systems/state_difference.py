"""Differences of a robot's states, their Jacobians and curvature, and Jacobians of steps along tangents."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from dynamics.model.joints import FREE_FLYER, PLANAR, SPHERICAL
from dynamics.model.knot_driver import knot_driver, nb, nv
from dynamics.model.model import RigidBodyModel
from dynamics.residuals.kernel_residual import KernelResidual, residual_kernels
from dynamics.residuals.robot_residual import HESSIAN, JACOBIAN, NO_BLOCKS, NO_ROWS, NO_TARGET, NO_WEIGHTS, Rows
from dynamics.residuals.squares import add_entry, add_row
from dynamics.simd import LANES, fma, kernel, load, splat, store
from dynamics.simd.array_loops import add, subtract
from dynamics.simd.lane_algebra import combine
from dynamics.simd.prepared_calls import PreparedCall, PreparedLaunch
from dynamics.simd.sizes import Size
from dynamics.simd.squares import multipliers
from dynamics.spatial.tangent import (
    JACOBIAN_INVERSE,
    TANGENT_SLOTS,
    add_log_hessian,
    add_map,
    difference_configuration,
    integrate_configuration,
    tangent_maps_inverse,
)
from dynamics.validation import as_array, as_floats, writeable

# --------------------------------------------------------------------------------------------
# Derivative of the entries of a state along its tangent: the Jacobian of x (+) dx at dx = 0.
#
#     position of a free flyer      R(q) dp                 planar: the same, in the plane
#     quaternion (x y z w)          1/2 q (phi, 0)          [Sola 2018, eq. 199]
#     all other numbers             dx
#
# A function of the numbers of a state, with gradient g (nx,), has the derivative J'g (ndx,) along the tangent.


def integrate_jacobian(model: RigidBodyModel, xs: ArrayLike) -> np.ndarray:
    """J (K, nx, 2 nv) at states xs (K, nx), whose quaternions are taken to be of unit length."""
    nq, nv = model.nq, model.nv
    q = as_array("xs", xs, (None, nq + nv))[:, :nq]
    J = np.zeros((len(q), nq + nv, 2 * nv))
    J[:, nq:, nv:] = np.eye(nv)
    for joint, at, dof in zip(model.joints, model.q_index, model.v_index, strict=True):
        if joint.code in (FREE_FLYER, SPHERICAL):
            turn, phi = at + joint.nq - 4, dof + joint.nv - 3
            J[:, turn : turn + 4, phi : phi + 3] = _turning(q[:, turn : turn + 4])
            if joint.code == FREE_FLYER:
                J[:, at : at + 3, dof : dof + 3] = _rotation(q[:, turn : turn + 4])
        else:
            J[:, at : at + joint.nq, dof : dof + joint.nv] = np.eye(joint.nq)
            if joint.code == PLANAR:
                c, s = np.cos(q[:, at + 2]), np.sin(q[:, at + 2])
                J[:, at : at + 2, dof : dof + 2] = np.array([[c, -s], [s, c]]).transpose(2, 0, 1)
    return J


def _cross(v: np.ndarray) -> np.ndarray:
    """The matrices [v] (K, 3, 3) of cross products."""
    return np.cross(v[:, None], -np.eye(3))


def _turning(quaternion: np.ndarray) -> np.ndarray:
    """The matrix 1/2 [w + [v]; -v'] (K, 4, 3)."""
    v, w = quaternion[:, :3], quaternion[:, 3, None, None]
    return 0.5 * np.concatenate([w * np.eye(3) + _cross(v), -v[:, None]], axis=1)


def _rotation(quaternion: np.ndarray) -> np.ndarray:
    """The rotation 1 + 2 w [v] + 2 [v]^2 (K, 3, 3)."""
    V, w = _cross(quaternion[:, :3]), quaternion[:, 3, None, None]
    return np.eye(3) + 2.0 * (w * V + V @ V)


# --------------------------------------------------------------------------------------------
# States x = [q; v] of a robot as points of a manifold: moved, compared, and the difference expanded.
#
#     integrate       [q (+) dq; v + dv]
#     difference      r = [log(q_ref^-1 q); v - v_ref]
#     expansion       r(x (+) d) = r + J d + ...      mu'r = ... + 1/2 d'H d
#
# J = diag(Jr(r)^-1, I) and H = -J'Gam(r, J'mu)J on the configuration are block diagonal over the joints, so only these
# blocks are written.  A batch of a single point goes to all lanes: `gather` repeats the last one.
#
# Only shapes are checked, since solvers call this in their inner loops and with states that have diverged: a state
# that is not finite gives a result that is not finite.


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


# ------------------------------------------------------------------------------------------------ as a residual
@kernel
def _value(m, target, x, r):
    """Store r = x (-) target; target (nx): x_ref."""
    _difference_kernel(m, target, x, r)


@kernel
def _jacobian(m, order, r, maps, J):
    """Store the maps, and the block of J (nv nv) for configurations, which is block diagonal over the joints."""
    tangent_maps_inverse(m, r, maps)
    if order & JACOBIAN:
        n = m.dof_body.size
        J[: n * n] = 0.0
        add_map(m, maps, JACOBIAN_INVERSE, 1.0, J, 0, n)


@kernel
def _hessian(m, maps, r, mu, H):
    H[:] = 0.0
    add_log_hessian(m, maps, r, mu, 1.0, H, 0, m.dof_body.size)


@kernel
def _scatter(m, J, t, rx):
    """Scatter J = diag(J, I) to rx (K, 2n, 2n), which is zero on entry."""
    n = m.dof_body.size
    for k in range(min(LANES, rx.shape[0] - t)):
        for i in range(m.parent.size):
            start, stop = m.v_index[i], m.v_index[i] + m.dof_count[i]
            for a in range(start, stop):
                for b in range(start, stop):
                    rx[t + k, a, b] = J[a * n + b, k]
        for a in range(n, 2 * n):
            rx[t + k, a, a] = 1.0


@kernel
def _add_gauss_newton(m, J, mu, gauss_newton_weight, t, count, row, lx, lxx):
    """Joint by joint, the same as `dynamics.residuals.squares.add_gauss_newton`."""
    n = m.dof_body.size
    for i in range(m.parent.size):
        start, stop = m.v_index[i], m.v_index[i] + m.dof_count[i]
        for a in range(start, stop):
            g = splat(J, 0.0)
            for r in range(start, stop):
                g = fma(load(J, r * n + a), load(mu, r), g)
            store(row, 0, g)
            add_row(row, t, count, lx, a)
            for b in range(start, a + 1):
                e = splat(J, 0.0)
                for r in range(start, stop):
                    e = fma(load(gauss_newton_weight, r) * load(J, r * n + a), load(J, r * n + b), e)
                store(row, 0, e)
                add_entry(row, t, count, lxx, a, b)
    for a in range(n, 2 * n):
        add_row(mu[a : a + 1], t, count, lx, a)
        add_entry(gauss_newton_weight[a : a + 1], t, count, lxx, a, a)


@kernel
def _add_curvature(m, H, t, count, Hxx):
    """Add the blocks of H (nv nv) for joints of several degrees of freedom; those of others are zero."""
    n = m.dof_body.size
    for i in range(m.parent.size):
        start, stop = m.v_index[i], m.v_index[i] + m.dof_count[i]
        if stop - start > 1:
            for a in range(start, stop):
                for b in range(start, a + 1):
                    add_entry(H[a * n + b : a * n + b + 1], t, count, Hxx, a, b)


class StateDifference(KernelResidual):
    """r = x (-) x_ref (2 nv,) of a robot, x_ref (nx,) or (K, nx) with one for each of K knots.

    Two differences with equal models and references are equal.
    """

    _key: tuple[RigidBodyModel, bytes]
    kernels = residual_kernels(
        _value, _jacobian, _hessian, 2 * nv, nv,
        {"maps": nb * TANGENT_SLOTS}, target="xs.shape[1]",
        scatter=_scatter, gauss_newton=_add_gauss_newton, curvature=_add_curvature,
    )  # fmt: skip

    def __init__(self, model: RigidBodyModel, x_ref: np.ndarray) -> None:
        super().__init__(model, "difference of states")
        x_ref = np.array(x_ref, dtype=np.float64).reshape(-1, self.nx)
        self._set(nr=2 * model.nv, _key=(model, x_ref.tobytes()))
        self._finish(_EVERY_JOINT, block=model.joint_space.block, targets=(None, x_ref))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StateDifference) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


_EVERY_JOINT = np.empty(0, dtype=np.int64)
"""Empty path, for a term of all joints."""


# ------------------------------------------------------------------------------------------------ from arrays
def points(name: str, value: ArrayLike, size: int) -> tuple[np.ndarray, bool]:
    """A batch (K, size) for a driver, and whether it was given as one point (size,); only the shape is checked."""
    array = as_floats(name, value)
    if array.ndim not in (1, 2) or array.shape[-1] != size:
        raise ValueError(f"{name}: got shape {array.shape}, expected ({size},) or (K, {size})")
    return writeable(array).reshape(-1, size), array.ndim == 1


def common_count(one: str, a: np.ndarray, other: str, b: np.ndarray) -> int:
    """Number of points of two batches, one of which may be a single point."""
    if len(a) != len(b) and len(a) != 1 and len(b) != 1:
        raise ValueError(f"{one}: got {len(a)} points, expected {len(b)} as of {other}")
    return len(b) if len(a) == 1 else len(a)


def integrate_states(model: RigidBodyModel, x: ArrayLike, dx: ArrayLike) -> np.ndarray:
    """The states x (+) dx for x (nx,) or (K, nx), dx (2 nv,) or (K, 2 nv)."""
    n, nx = model.nv, model.nq + model.nv
    (x, one), (dx, other) = points("x", x, nx), points("dx", dx, 2 * n)
    K = common_count("x", x, "dx", dx)
    if model.is_euclidean:
        with np.errstate(invalid="ignore"):
            out = x + dx
    else:
        out = np.empty((K, nx))
        _drive_integrate(model.joint_space, x, dx, out, knots=K)
    return out[0] if one and other else out


def prepared_integrate(
    model: RigidBodyModel, x: np.ndarray, dx: np.ndarray, out: np.ndarray
) -> PreparedCall | PreparedLaunch:
    """The call that writes `integrate_states` of x (K, nx) and dx (K, 2 nv), as these are then, into out (K, nx)."""
    if model.is_euclidean:
        return PreparedCall(add, x, dx, out)
    return _drive_integrate.prepared(model.joint_space, x, dx, out)


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
        _drive_difference(model.joint_space, x0, x1, out, knots=K)
    return out[0] if one and other else out


def prepared_difference(
    model: RigidBodyModel, x0: np.ndarray, x1: np.ndarray, dx: np.ndarray
) -> PreparedCall | PreparedLaunch:
    """The call that writes `difference_of_states` of x0 and x1 (K, nx), as these are then, into dx (K, 2 nv)."""
    if model.is_euclidean:
        return PreparedCall(subtract, x0, x1, dx)
    return _drive_difference.prepared(model.joint_space, x0, x1, dx)


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
        raise ValueError(f"x_ref: got {len(x_ref)} points, expected {K} as of xs, or a single point")
    r, J, H = np.empty((K, 2 * n)), np.zeros((K, 2 * n, 2 * n)), None
    order, (weights, layout) = JACOBIAN, NO_WEIGHTS
    if mu is not None:
        mu, _ = points("mu", mu, 2 * n)
        if len(mu) != K:
            raise ValueError(f"mu: got {len(mu)} rows, expected {K} as of xs")
        order, (weights, layout), H = JACOBIAN | HESSIAN, multipliers(mu), np.zeros(J.shape)
    kernels, robot = StateDifference.kernels, (model.joint_space.block, _EVERY_JOINT)
    workspace_size, span = kernels.workspace_size(model, (), xs, weights), (layout, weights, 0, K, order)
    kernels.run(workspace_size, robot, span, (xs, NO_ROWS, x_ref), Rows(r, J), NO_TARGET, NO_BLOCKS if H is None else H)
    return r, J, H
