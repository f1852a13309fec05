"""Torques beyond those that hold the robot still:  r = B u - g(q).

A degree of freedom k moves the subtree below it, of mass m_k and first moment h_k, whose moment changes at the rate

    c_k = m_k v_k + w_k x h_k        for the column s_k = (w_k, v_k),        g_k = -G.c_k,   G the gravity vector

A degree of freedom y above it turns c_k like any vector below, so every further derivative is one more cross product,

    d2U / dq_k dq_y  =  -(G x w_y).c_k                  d3U / dq_k dq_x dq_y  =  -((G x w_y) x w_x).c_k

from the lowest k to the uppermost y.  With C_x the sum of mu_l c_l at and below x's joint, and W the sum of mu_l w_l
strictly above a joint, the sum of the latter over l = k, x or y is a Hessian of two dot products per pair,

    H[x, y] of mu'r  =  (G x w_y).(w_x x C_x + W_x x c_x)  +  ((G x W_y) x w_y - (G x w_y) x W_y).c_x

for y at or above x.  Inside one joint y counts as the upper one, and both orders are averaged.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.kinematics import BODY, COLUMN, DOF, MOMENT, POSITION, PSI, PSI2, ROTATION, place_near_origin
from dynamics.model.actuation import actuation_map, torques_of_controls
from dynamics.model.knot_driver import nb, nv
from dynamics.model.model import RigidBodyModel, check_inertias
from dynamics.model.subject import Subject
from dynamics.residuals.kernel_residual import KernelResidual, residual_kernels
from dynamics.simd import align_stack, helper, kernel, load, splat, store
from dynamics.simd.sizes import Size
from dynamics.spatial.spatial import (
    accumulate,
    add_cross,
    add_rotated,
    add_scaled3,
    angular,
    cross,
    dot3,
    load3,
    load6,
    load9,
    rate_moment,
    scale3,
    store3,
)

# where the vectors of a degree of freedom x are kept in its block, and sums over the tree in that of a body
RATE_OF_MOMENT, TURN = PSI, PSI + 3
"""c_x and G x w_x."""
BELOW, ABOVE = PSI2, PSI2 + 3
"""What meets the turn of an upper degree of freedom, w_x x C_x + W_x x c_x, and what meets c of a lower one."""
SUM_BELOW, SUM_ABOVE = ROTATION, ROTATION + 3
"""C of a body's joint, and W below it; rotations are not needed any more then."""


@helper
def _gravity(m, ws):
    return splat(ws, m.gravity[0]), splat(ws, m.gravity[1]), splat(ws, m.gravity[2])


@kernel
def _moment_rates(m, body, dof):
    """c and G x w of every degree of freedom, after `place_bodies`."""
    align_stack(body)
    G = _gravity(m, body)
    for i in range(m.parent.size):
        b, f = i * BODY, (m.first_moment[i, 0], m.first_moment[i, 1], m.first_moment[i, 2])
        h = scale3(load3(body, b + POSITION), m.mass[i])
        store3(body, b + MOMENT, add_rotated(h, load9(body, b + ROTATION), f))
    for i in range(m.parent.size - 1, -1, -1):
        h = load3(body, i * BODY + MOMENT)
        for k in range(m.v_index[i], m.v_index[i] + m.dof_count[i]):
            s = load6(dof, k * DOF + COLUMN)
            store3(dof, k * DOF + RATE_OF_MOMENT, rate_moment(m.subtree_mass[i], h, s))
            store3(dof, k * DOF + TURN, cross(G, angular(s)))
        if m.parent[i] >= 0:
            accumulate(body, m.parent[i] * BODY + MOMENT, i * BODY + MOMENT, 3)


@kernel
def _vectors_of_hessian(m, mu, body, dof):
    """BELOW and ABOVE of every degree of freedom; mu (nv)."""
    align_stack(body)
    G, zero = _gravity(m, body), splat(body, 0.0)
    for i in range(m.parent.size):
        W = (zero, zero, zero)
        if m.parent[i] >= 0:
            W = load3(body, m.parent[i] * BODY + SUM_ABOVE)
        turned, inclusive, C = cross(G, W), W, (zero, zero, zero)
        for k in range(m.v_index[i], m.v_index[i] + m.dof_count[i]):
            o, w = k * DOF, load3(dof, k * DOF + COLUMN)
            c = load3(dof, o + RATE_OF_MOMENT)
            store3(dof, o + BELOW, cross(W, c))
            store3(dof, o + ABOVE, add_cross(cross(turned, w), W, load3(dof, o + TURN)))
            inclusive, C = add_scaled3(inclusive, load(mu, k), w), add_scaled3(C, load(mu, k), c)
        store3(body, i * BODY + SUM_ABOVE, inclusive)
        store3(body, i * BODY + SUM_BELOW, C)
    for i in range(m.parent.size - 1, -1, -1):
        C = load3(body, i * BODY + SUM_BELOW)
        for k in range(m.v_index[i], m.v_index[i] + m.dof_count[i]):
            o = k * DOF
            store3(dof, o + BELOW, add_cross(load3(dof, o + BELOW), load3(dof, o + COLUMN), C))
        if m.parent[i] >= 0:
            accumulate(body, m.parent[i] * BODY + SUM_BELOW, i * BODY + SUM_BELOW, 3)


@kernel
def _jacobian(m, dof, J):
    """J (nv nv) of -g; zero between branches."""
    align_stack(dof)
    n = m.dof_body.size
    J[:] = 0.0
    for x in range(n):
        c, turn = load3(dof, x * DOF + RATE_OF_MOMENT), load3(dof, x * DOF + TURN)
        y = x
        while y >= 0:
            e = dot3(load3(dof, y * DOF + TURN), c)
            store(J, x * n + y, e)
            if m.dof_body[y] == m.dof_body[x]:
                e = dot3(turn, load3(dof, y * DOF + RATE_OF_MOMENT))
            store(J, y * n + x, e)
            y = m.dof_parent[y]


@helper
def _curvature(dof, lower, upper):
    """H for one order of the two degrees of freedom."""
    x, y = lower * DOF, upper * DOF
    e = dot3(load3(dof, y + TURN), load3(dof, x + BELOW))
    return e + dot3(load3(dof, y + ABOVE), load3(dof, x + RATE_OF_MOMENT))


@kernel
def _hessian(m, mu, body, dof, H):
    """H (nv nv) of -mu'g, symmetric."""
    align_stack(dof)
    n = m.dof_body.size
    _vectors_of_hessian(m, mu, body, dof)
    H[:] = 0.0
    for x in range(n):
        y = x
        while y >= 0:
            e = _curvature(dof, x, y)
            if m.dof_body[y] == m.dof_body[x]:
                e = 0.5 * (e + _curvature(dof, y, x))
            store(H, x * n + y, e)
            store(H, y * n + x, e)
            y = m.dof_parent[y]


@kernel
def _value(m, B, skip, x, u, body, dof, r):
    """r (nv), and the vectors that its derivatives need."""
    align_stack(body)
    place_near_origin(m, x, body, dof)
    _moment_rates(m, body, dof)
    torques_of_controls(B, skip, u, r)
    G = _gravity(m, body)
    for k in range(m.dof_body.size):
        store(r, k, load(r, k) + dot3(G, load3(dof, k * DOF + RATE_OF_MOMENT)))


class ControlGravity(KernelResidual):
    """Torques of the controls less those that hold the robot still, B u - g(q), N m (N for translations).

    At the terminal knot, where there are no controls, -g(q).

    Parameters
    ----------
    model : RigidBodyModel
    actuation : None (a torque per degree of freedom), "floating_base" (all but the first six), or B (nv, nu)
        As for `RigidBodySystem`.

    Raises
    ------
    ValueError : an actuation that does not fit the model.

    Notes
    -----
    nr = nv: degrees of freedom that are not actuated have a row too, -g_i(q).
    """

    kernels = residual_kernels(
        _value, _jacobian, _hessian, nv, nv, {"body": nb * BODY, "dof": nv * DOF}, nu=Size("nu", "B.shape[1]")
    )
    nu: int
    actuation: np.ndarray
    _B: np.ndarray

    reads_dynamics = True

    def __init__(self, model: RigidBodyModel, actuation: str | ArrayLike | None = None) -> None:
        B, skip, on_frames = actuation_map(check_inertias(model), actuation)
        if model.mimics:
            raise ValueError(f"model: {model.name!r} has mimic joints, which ControlGravity does not take")
        if on_frames:
            raise ValueError("actuation: the model has actuators on frames, expected none, or a matrix")
        super().__init__(model, "control less gravity")
        n, nu = B.shape
        self._set(nr=n, nu=nu, actuation=B.copy(), _B=B)
        self._finish(np.arange(n), B=B, skip=skip)

    @property
    def made_for(self) -> Subject:
        """The robot with its actuation."""
        return Subject(self.model, self.actuation)

    def _control_jacobians(self, K, nu):
        return self._B[np.newaxis].repeat(K, axis=0)
