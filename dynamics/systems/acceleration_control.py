"""Accelerations as controls: u = B^-1 ID(q, v, a), with joint friction in ID, becomes an output, and the dynamics of an
Euler step linear.

A quadratic model of a cost l(x, u) along a trajectory becomes one of l(x, u(x, a)), with U_x = B^-1 [ID_q, ID_v] and
U_a = B^-1 M:

    lx  + U_x' lu                          la  = U_a' lu
    lxx + U_x' luu U_x + U_x' lux + lux' U_x  + H_xx        lax = U_a' (luu U_x + lux)  + H_ax      laa = U_a' luu U_a

H is the Hessian of w'ID with w = B^-T lu, which is known before any backward pass; M is constant in a, so H_aa = 0.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dynamics.algorithms.forward_dynamics import forward_dynamics
from dynamics.algorithms.inverse_dynamics import inverse_dynamics_kernel
from dynamics.algorithms.kinematics import BODY, DOF
from dynamics.derivatives.hessian import ExpansionLanes, inverse_dynamics_hessian_kernel
from dynamics.derivatives.implicit_function import store_control_blocks, store_state_blocks
from dynamics.derivatives.inverse_dynamics import inverse_dynamics_derivatives, inverse_dynamics_first_order
from dynamics.model.actuation import Actuation
from dynamics.model.joint_forces import (
    add_friction_curvature,
    add_friction_derivative,
    add_spring_derivatives,
    felt_springs,
    joint_forces,
    subtract_joint_forces,
)
from dynamics.model.knot_driver import knot_driver, nb, nv
from dynamics.model.model import RigidBodyModel
from dynamics.simd import align_stack, aligned_empty, fma, helper, kernel, load, splat, store
from dynamics.simd.lane_algebra import add_product, scale_into
from dynamics.simd.lane_blocks import lanes


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


class CostExpansion(NamedTuple):
    """Of l(x, u), of which that of l(x, u(x, a)) takes the first two places, and la, lax, laa."""

    lx: np.ndarray = lanes(2 * nv)
    lxx: np.ndarray = lanes(4 * nv * nv)
    lu: np.ndarray = lanes(nv)
    lux: np.ndarray = lanes(2 * nv * nv)
    luu: np.ndarray = lanes(nv * nv)
    la: np.ndarray = lanes(nv)
    lax: np.ndarray = lanes(2 * nv * nv)
    laa: np.ndarray = lanes(nv * nv)


class AccelerationScratch(NamedTuple):
    """Lanes on top of those of inverse dynamics and its derivatives."""

    body: np.ndarray = lanes(nb * BODY)
    dof: np.ndarray = lanes(nv * DOF)
    weights: np.ndarray = lanes(nv)
    U: np.ndarray = lanes(2 * nv * nv)
    T: np.ndarray = lanes(2 * nv * nv)
    S: np.ndarray = lanes(nv * nv)


@kernel
def _substitute(n, mixed, Ua, l, w):
    """The formulas of the module without H: l.lx, l.lxx in place, l.la, l.lax, l.laa overwritten.  l.lux is zero, and
    not read, unless `mixed`."""
    align_stack(w.T)
    U, T, S = w.U, w.T, w.S
    S[:], l.la[:], l.lax[:], l.laa[:], T[:] = 0.0, 0.0, 0.0, 0.0, 0.0
    if mixed:
        scale_into(2 * n * n, T, 1.0, l.lux)
        add_product(True, n, 2 * n, 2 * n, 1.0, 1.0, l.lux, 1, 2 * n, U, l.lxx)
    add_product(False, n, n, 2 * n, 1.0, 1.0, l.luu, 1, n, U, T)  # luu is symmetric
    add_product(False, n, n, n, 1.0, 1.0, l.luu, 1, n, Ua, S)
    add_product(True, n, 2 * n, 2 * n, 1.0, 1.0, U, 1, 2 * n, T, l.lxx)
    add_product(False, n, 2 * n, 1, 1.0, 1.0, U, 1, 2 * n, l.lu, l.lx)
    add_product(False, n, n, 1, 1.0, 1.0, Ua, 1, n, l.lu, l.la)
    add_product(False, n, n, 2 * n, 1.0, 1.0, Ua, 1, n, T, l.lax)
    add_product(False, n, n, n, 1.0, 1.0, Ua, 1, n, S, l.laa)
    for i in range(2 * n):
        for j in range(i):
            store(l.lxx, i * 2 * n + j, load(l.lxx, j * 2 * n + i))


@kernel
def _substitution_kernel(m, B_inverse, hessian, mixed, a, x, l, e, w):
    """Blocks in (x, u) to blocks in (x, a).  hessian None: without H."""
    align_stack(w.U)
    n = m.dof_body.size
    if B_inverse is not None or m.spring.shape[0] > 0:
        e.dq[:], e.dv[:] = 0.0, 0.0  # of the call before, where they were `Ua` or had springs
    if hessian is None:
        inverse_dynamics_first_order(m, x[:n], x[n:], a, None, w.body, w.dof, e.tau, e.dq, e.dv, e.M)
        add_friction_derivative(m, x[n:], e.dv)
    else:
        for i in range(n):
            s = load(l.lu, i)
            if B_inverse is not None:
                s = splat(l.lu, 0.0)
                for k in range(n):
                    s = fma(B_inverse[k, i], load(l.lu, k), s)
            store(w.weights, i, s)
        inverse_dynamics_hessian_kernel(m, x[:n], x[n:], a, w.weights, None, w.body, w.dof, e)
        add_friction_derivative(m, x[n:], e.dv)
        add_friction_curvature(m, x[n:], w.weights, e.Hvv)
    add_spring_derivatives(m, e.dq, e.dv)
    _join(n, e.dq, e.dv, w.U)
    Ua = e.M
    if B_inverse is not None:
        Ua = e.dq  # free after `_join`
        scale_into(n * n, Ua, 1.0, e.M)
        _left_multiply(n, 2 * n, B_inverse, e.tau, w.U)
        _left_multiply(n, n, B_inverse, e.tau, Ua)
    _substitute(n, mixed, Ua, l, w)
    if hessian is not None:
        store_state_blocks(True, n, 2 * n, e, l.lxx)
        store_control_blocks(True, n, n, 2 * n, e.Hqa, l.lax)


_drive_substitution = knot_driver(
    _substitution_kernel,
    inputs="a x lx=l.lx lu=l.lu lxx=l.lxx lux=l.lux? luu=l.luu",
    scratch={"l": CostExpansion, "e": ExpansionLanes, "w": AccelerationScratch},
    outputs={"la": "l.la", "lax": "l.lax", "laa": "l.laa", "lx_out": "l.lx", "lxx_out": "l.lxx"},
)


@kernel
def _controls_kernel(m, B_inverse, a, x, body, dof, column, u):
    """u = B^-1 (ID(x, a) + f), f of friction and springs"""
    n = m.dof_body.size
    inverse_dynamics_kernel(m, x[:n], x[n:], a, None, body, dof, u)
    subtract_joint_forces(m, -1.0, x[:n], x[n:], u)
    if B_inverse is not None:
        _left_multiply(n, 1, B_inverse, column, u)


_drive_controls = knot_driver(
    _controls_kernel,
    inputs="a x",
    scratch={"body": nb * BODY, "dof": nv * DOF, "column": nv},
    outputs={"u": nv},
)


class AccelerationControl:
    """Change of controls of a fully actuated robot whose joints have one degree of freedom each.

    Attributes
    ----------
    fx (2 nv, 2 nv), fu (2 nv, nv) : x+ = fx x + fu a, exactly
    """

    def __init__(self, model: RigidBodyModel, actuation: Actuation, dt: float, semi_implicit: bool) -> None:
        n = model.nv
        self.model = model
        self._springs = felt_springs(model.arrays)
        identity = np.eye(n)
        self._B, self._B_inverse = actuation.B, None if actuation.skip == 0 else np.linalg.inv(actuation.B)
        self.fx, self.fu = np.eye(2 * n), np.zeros((2 * n, n))
        self.fx[:n, n:] = dt * identity
        self.fu[n:] = dt * identity
        if semi_implicit:
            self.fu[:n] = dt**2 * identity

    def accelerations(self, xs: np.ndarray, us: np.ndarray) -> np.ndarray:
        """a (N, nv) of the robot at the first N states xs, under the controls us (N, nv)."""
        q, v = np.split(xs[: len(us)], 2, axis=1)
        return forward_dynamics(self.model, q, v, us @ self._B.T - joint_forces(self.model, q, v)[0])

    def controls(self, xs: np.ndarray, a: np.ndarray) -> np.ndarray:
        """us (N, nv) that give the accelerations a (N, nv) at the first N states xs."""
        us = np.empty_like(a)
        _drive_controls(self.model, self._B_inverse, a, xs, us)
        return us

    def jacobians(self, xs: np.ndarray, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """U_x (N, nv, 2 nv) and U_a (N, nv, nv)."""
        n, N = self.model.nv, len(a)
        d = inverse_dynamics_derivatives(self.model, xs[:N, :n], xs[:N, n:], a)
        friction = joint_forces(self.model, xs[:N, :n], xs[:N, n:])[1]
        K, D, _ = self._springs
        U, M = np.concatenate([d.dtau_dq + K, d.dtau_dv + D + friction[:, :, None] * np.eye(n)], axis=2), d.M
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
        mixed = bool(lux.any())
        _drive_substitution(
            self.model, self._B_inverse, True if curvature else None, mixed, a, xs, lx, lu, lxx.reshape(N + 1, -1),
            lux.reshape(N, -1)[: N if mixed else 0], luu.reshape(N, -1), parts["a"], parts["ax"], parts["aa"],
            parts["x"][:N], parts["xx"][:N],
        )  # fmt: skip
        parts["x"][N], parts["xx"][N] = lx[N], lxx[N].ravel()
        return (
            parts["x"], parts["a"], parts["xx"].reshape(N + 1, 2 * n, 2 * n), parts["ax"].reshape(N, n, 2 * n),
            parts["aa"].reshape(N, n, n),
        )  # fmt: skip
