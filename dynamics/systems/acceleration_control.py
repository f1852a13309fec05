"""Accelerations as controls: u = B^-1 ID(q, v, a), with joint friction in ID, becomes an output, and the dynamics of an
Euler step linear.

A quadratic model of a cost l(x, u) along a trajectory becomes one of l(x, u(x, a)), with U_x = B^-1 [ID_q, ID_v] and
U_a = B^-1 M:

    lx  + U_x' lu                          la  = U_a' lu
    lxx + U_x' luu U_x + U_x' lux + lux' U_x  + H_xx        lax = U_a' (luu U_x + lux)  + H_ax      laa = U_a' luu U_a

H is the Hessian of w'ID with w = B^-T lu, which is known before any backward pass; M is constant in a, so H_aa = 0.
"""

from collections.abc import Sequence

import numpy as np

from dynamics.actuation import Actuation
from dynamics.algorithms.forward_dynamics import forward_dynamics
from dynamics.algorithms.inverse_dynamics import inverse_dynamics_kernel
from dynamics.algorithms.kinematics import BODY, DOF
from dynamics.derivatives.hessian import inverse_dynamics_hessian_kernel
from dynamics.derivatives.inverse_dynamics import inverse_dynamics_derivatives, inverse_dynamics_first_order
from dynamics.derivatives.virtual import VIRTUAL_BODY
from dynamics.joint_friction import add_friction_curvature, add_friction_slope, friction_forces, subtract_friction
from dynamics.kernel_model import kernel_model
from dynamics.lane_algebra import add_product
from dynamics.model import RigidBodyModel
from dynamics.simd import (
    LANES,
    align_stack,
    aligned_empty,
    carve,
    driver,
    fma,
    gather,
    helper,
    kernel,
    launch,
    load,
    scatter,
    splat,
    store,
)


@helper
def _left_multiply(n, columns, B_inverse, column, A):
    """A (n columns) <- B_inverse A; column (n) is scratch."""
    for j in range(columns):
        for i in range(n):
            store(column, i, load(A, i * columns + j))
        for i in range(n):
            x = splat(A, 0.0)
            for k in range(n):
                x = fma(B_inverse[i, k], load(column, k), x)
            store(A, i * columns + j, x)


@kernel
def _join(n, dq, dv, U):
    """U (n 2n) = [dq dv]"""
    align_stack(U)
    for i in range(n):
        for j in range(n):
            store(U, i * 2 * n + j, load(dq, i * n + j))
            store(U, i * 2 * n + n + j, load(dv, i * n + j))


@kernel
def _add_curvature(n, Hqq, Hqv, Hvv, Hqa, lxx, lax):
    """Add H to lxx (2n 2n) and lax (n 2n)."""
    align_stack(lxx)
    for i in range(n):
        for j in range(n):
            qv = load(Hqv, i * n + j)
            o, p, r, s = i * 2 * n + j, i * 2 * n + n + j, (n + j) * 2 * n + i, (n + i) * 2 * n + n + j
            store(lxx, o, load(lxx, o) + load(Hqq, i * n + j))
            store(lxx, p, load(lxx, p) + qv)
            store(lxx, r, load(lxx, r) + qv)
            store(lxx, s, load(lxx, s) + load(Hvv, i * n + j))
            store(lax, i * 2 * n + j, load(lax, i * 2 * n + j) + load(Hqa, j * n + i))


@kernel
def _substitute(n, mixed, U, Ua, lu, lux, luu, lx, lxx, la, lax, laa, work):
    """The formulas of the module without H: lx, lxx in place, la, lax, laa overwritten; work (3 n n).  lux is zero,
    and not read, unless `mixed`."""
    align_stack(work)
    T, S = work[: 2 * n * n], work[2 * n * n : 3 * n * n]
    S[:], la[:], lax[:], laa[:], T[:] = 0.0, 0.0, 0.0, 0.0, 0.0
    if mixed:
        for i in range(2 * n * n):
            store(T, i, load(lux, i))
        add_product(True, n, 2 * n, 2 * n, 1.0, 1.0, lux, 1, 2 * n, U, lxx)
    add_product(False, n, n, 2 * n, 1.0, 1.0, luu, 1, n, U, T)  # luu is symmetric
    add_product(False, n, n, n, 1.0, 1.0, luu, 1, n, Ua, S)
    add_product(True, n, 2 * n, 2 * n, 1.0, 1.0, U, 1, 2 * n, T, lxx)
    add_product(False, n, 2 * n, 1, 1.0, 1.0, U, 1, 2 * n, lu, lx)
    add_product(False, n, n, 1, 1.0, 1.0, Ua, 1, n, lu, la)
    add_product(False, n, n, 2 * n, 1.0, 1.0, Ua, 1, n, T, lax)
    add_product(False, n, n, n, 1.0, 1.0, Ua, 1, n, S, laa)
    for i in range(2 * n):
        for j in range(i):
            store(lxx, i * 2 * n + j, load(lxx, j * 2 * n + i))


@driver
def _drive_substitution(
    first, last, work, block, B_inverse, curved, mixed, x, a, lx, lu, lxx, lux, luu, lx_out, la, lxx_out, lax, laa
):
    """Blocks in (x, u) to blocks in (x, a), knots in lanes; all (K, numbers).  curved None: without H; mixed False: lux
    is zero."""
    m = kernel_model(block)
    nb, n = m.parent.size, m.dof_body.size
    for c in range(first, last):
        body, w = carve(work, nb * BODY)
        dof, w = carve(w, n * DOF)
        x_, w = carve(w, 2 * n)
        a_, w = carve(w, n)
        lx_, w = carve(w, 2 * n)
        lu_, w = carve(w, n)
        lxx_, w = carve(w, 4 * n * n)
        lux_, w = carve(w, 2 * n * n)
        luu_, w = carve(w, n * n)
        la_, w = carve(w, n)
        lax_, w = carve(w, 2 * n * n)
        laa_, w = carve(w, n * n)
        U, w = carve(w, 2 * n * n)
        tau, w = carve(w, n)
        weights, w = carve(w, n)
        first_order, w = carve(w, 3 * n * n)
        gather(x, c * LANES, x_)
        gather(a, c * LANES, a_)
        gather(lx, c * LANES, lx_)
        gather(lu, c * LANES, lu_)
        gather(lxx, c * LANES, lxx_)
        if mixed:
            gather(lux, c * LANES, lux_)
        gather(luu, c * LANES, luu_)
        if c == first or B_inverse is not None:  # no chunk writes the entries between branches, but B_inverse does
            first_order[:] = 0.0
        dq, dv, M = first_order[: n * n], first_order[n * n : 2 * n * n], first_order[2 * n * n :]
        H, w = carve(w, 4 * n * n)
        if curved is None:
            inverse_dynamics_first_order(m, x_[:n], x_[n:], a_, None, body, dof, tau, dq, dv, M)
            add_friction_slope(m, x_[n:], dv)
        else:
            virtual, r = carve(w, nb * VIRTUAL_BODY)
            zeta, r = carve(r, n * 6)
            if c == first:
                H[:] = 0.0
            for i in range(n):
                s = load(lu_, i)
                if B_inverse is not None:
                    s = splat(lu_, 0.0)
                    for k in range(n):
                        s = fma(B_inverse[k, i], load(lu_, k), s)
                store(weights, i, s)
            inverse_dynamics_hessian_kernel(
                m, x_[:n], x_[n:], a_, weights, None, body, dof, virtual, zeta, tau, dq, dv, M,
                H[: n * n], H[n * n : 2 * n * n], H[2 * n * n : 3 * n * n], H[3 * n * n :],
            )  # fmt: skip
            add_friction_slope(m, x_[n:], dv)
            add_friction_curvature(m, x_[n:], weights, H[2 * n * n : 3 * n * n])
        _join(n, dq, dv, U)
        Ua, scratch = M, w[: 3 * n * n]
        if B_inverse is not None:
            Ua = dq  # free after `_join`
            for i in range(n * n):
                store(Ua, i, load(M, i))
            _left_multiply(n, 2 * n, B_inverse, tau, U)
            _left_multiply(n, n, B_inverse, tau, Ua)
        _substitute(n, mixed, U, Ua, lu_, lux_, luu_, lx_, lxx_, la_, lax_, laa_, scratch)
        if curved is not None:
            _add_curvature(n, H[: n * n], H[n * n : 2 * n * n], H[2 * n * n : 3 * n * n], H[3 * n * n :], lxx_, lax_)
        scatter(lx_, c * LANES, lx_out)
        scatter(la_, c * LANES, la)
        scatter(lxx_, c * LANES, lxx_out)
        scatter(lax_, c * LANES, lax)
        scatter(laa_, c * LANES, laa)


@driver
def _drive_controls(first, last, work, block, B_inverse, x, a, u):
    """u[t] = B^-1 (ID(x[t], a[t]) + f(v[t])), knots in lanes."""
    m = kernel_model(block)
    nb, n = m.parent.size, m.dof_body.size
    for c in range(first, last):
        body, w = carve(work, nb * BODY)
        dof, w = carve(w, n * DOF)
        x_, w = carve(w, 2 * n)
        a_, w = carve(w, n)
        tau, w = carve(w, n)
        column, w = carve(w, n)
        gather(x[: a.shape[0]], c * LANES, x_)
        gather(a, c * LANES, a_)
        inverse_dynamics_kernel(m, x_[:n], x_[n:], a_, None, body, dof, tau)
        subtract_friction(m, -1.0, x_[n:], tau)
        if B_inverse is not None:
            _left_multiply(n, 1, B_inverse, column, tau)
        scatter(tau, c * LANES, u)


class AccelerationControl:
    """Change of controls of a fully actuated robot whose joints have one degree of freedom each.

    Attributes
    ----------
    fx (2 nv, 2 nv), fu (2 nv, nv) : x+ = fx x + fu a, exactly
    """

    def __init__(self, model: RigidBodyModel, actuation: Actuation, dt: float, semi_implicit: bool) -> None:
        n = model.nv
        self.model = model
        identity = np.eye(n)
        self._B, self._B_inverse = actuation.B, None if actuation.skip == 0 else np.linalg.inv(actuation.B)
        nb = len(model.arrays.parent)
        self._numbers = nb * BODY + n * (DOF + 9 + 19 * n) + max(3 * n * n, nb * VIRTUAL_BODY + 6 * n)
        self.fx, self.fu = np.eye(2 * n), np.zeros((2 * n, n))
        self.fx[:n, n:] = dt * identity
        self.fu[n:] = dt * identity
        if semi_implicit:
            self.fu[:n] = dt**2 * identity

    def accelerations(self, xs: np.ndarray, us: np.ndarray) -> np.ndarray:
        """a (N, nv) of the robot at the first N states xs, under the controls us (N, nv)."""
        q, v = np.split(xs[: len(us)], 2, axis=1)
        return forward_dynamics(self.model, q, v, us @ self._B.T - friction_forces(self.model, v)[0])

    def controls(self, xs: np.ndarray, a: np.ndarray) -> np.ndarray:
        """us (N, nv) that give the accelerations a (N, nv) at the first N states xs."""
        n, nb = self.model.nv, len(self.model.arrays.parent)
        us = np.empty_like(a)
        numbers = nb * BODY + n * DOF + 5 * n
        launch(_drive_controls, len(a), numbers, self.model.block, self._B_inverse, xs, a, us)
        return us

    def jacobians(self, xs: np.ndarray, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """U_x (N, nv, 2 nv) and U_a (N, nv, nv)."""
        n, N = self.model.nv, len(a)
        d = inverse_dynamics_derivatives(self.model, xs[:N, :n], xs[:N, n:], a)
        slope = friction_forces(self.model, xs[:N, n:])[1]
        U, M = np.concatenate([d.dtau_dq, d.dtau_dv + slope[:, :, None] * np.eye(n)], axis=2), d.M
        return (U, M) if self._B_inverse is None else (self._B_inverse @ U, self._B_inverse @ M)

    def substitute(
        self, xs: np.ndarray, a: np.ndarray, blocks: Sequence[np.ndarray], curvature: bool
    ) -> tuple[np.ndarray, ...]:
        """A quadratic model of costs in (x, u) as one in (x, a).

        Parameters: xs (N+1, 2 nv), a (N, nv); blocks lx (N+1, ndx), lu (N, nu), lxx (N+1, ndx, ndx), lux (N, nu, ndx),
        luu (N, nu, nu); curvature: with the Hessian of lu'u(x, a).  Returns: such blocks; the last knot unchanged.
        """
        N, n = a.shape
        lx, lu, lxx, lux, luu = blocks
        sizes = {"x": (N + 1) * 2 * n, "xx": (N + 1) * 4 * n * n, "a": N * n, "ax": N * 2 * n * n, "aa": N * n * n}
        memory, parts, start = aligned_empty(sum(sizes.values()) + 8 * len(sizes)), {}, 0
        for name, size in sizes.items():
            parts[name] = memory[start : start + size].reshape(N + 1 if "x" in name and name != "ax" else N, -1)
            start += -(-size // 8) * 8  # every part starts on a vector boundary
        launch(
            _drive_substitution, N, self._numbers, self.model.block, self._B_inverse, True if curvature else None,
            bool(lux.any()), xs[:N], a, lx[:N], lu, lxx.reshape(N + 1, -1)[:N], lux.reshape(N, -1), luu.reshape(N, -1),
            parts["x"][:N], parts["a"], parts["xx"][:N], parts["ax"], parts["aa"],
        )  # fmt: skip
        parts["x"][N], parts["xx"][N] = lx[N], lxx[N].ravel()
        return (
            parts["x"], parts["a"], parts["xx"].reshape(N + 1, 2 * n, 2 * n), parts["ax"].reshape(N, n, 2 * n),
            parts["aa"].reshape(N, n, n),
        )  # fmt: skip
