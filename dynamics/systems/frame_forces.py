"""Forces of actuators between frames: thrusters on frames, forces along lines between points, and their derivatives."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dynamics.algorithms.frames import (
    FRAME,
    LOCAL,
    LOCAL_WORLD_ALIGNED,
    components,
    frame_jacobian,
    frame_numbers,
    frame_placement,
    frame_pose,
    last_dof,
    path_velocity,
)
from dynamics.algorithms.kinematics import COLUMN, DOF, ORIGIN, place_near_origin
from dynamics.contacts.contact_set import free_or_held
from dynamics.derivatives.implicit_function import subtract_product
from dynamics.model.attachments import LinearActuator, Thruster
from dynamics.model.knot_driver import nv
from dynamics.model.model import RigidBodyModel
from dynamics.residuals.frame_velocity import UPPER, store_psi, upper_vectors, velocity_curvature, velocity_first_order
from dynamics.simd import align_stack, fma, helper, kernel, load, shared_kernel, splat, sqrt, store
from dynamics.simd.by_type import by_type
from dynamics.simd.lane_blocks import lanes
from dynamics.simd.sizes import Size
from dynamics.spatial.spatial import add_cross, add_scaled3, cross, dot3, dot6, load3, load6, rotate, scale3
from dynamics.spatial.tangent import load_column3, load_column6

# --------------------------------------------------------------------------------------------
# Actuators that act on frames, as kernels read them: wrenches fixed in a frame, forces along the line of two frames.
#
# The force on the joints is linear in the controls and depends on the configuration, tau = B u + sum_i u_i r_i(q).  At
# joint rates mu the power of unit control is
#
#     mu'r = W . V(q, mu)                    W a wrench in the axes of its frame, V the frame's velocity in the same
#     mu'r = n . (v_1 - v_2) = dl/dt         n the direction from the second frame to the first, l their distance
#
# so that r and all its derivatives are those of velocities of frames.

NOWHERE = -2
"""Value in place of the second body of a wrench."""


class FrameActuators(NamedTuple):
    """Arrays of the D actuators."""

    control: np.ndarray  # (D,) the control of each
    body: np.ndarray  # (D,)
    frame: np.ndarray  # (D, FRAME) placements in the bodies
    other: np.ndarray  # (D,) second bodies, NOWHERE for a wrench
    other_frame: np.ndarray  # (D, FRAME)
    wrench: np.ndarray  # (D, 6) force and moment in the frame's axes; of a line its ratio first


pushed = Size("pushed", "actuators.control.size")
"""Number of these actuators."""


def frame_actuators(model: RigidBodyModel) -> FrameActuators | None:
    """Arrays of a robot's actuators on frames, with their controls; None if it has none."""
    chosen = [(i, each) for i, each in enumerate(model.actuators) if isinstance(each, (Thruster, LinearActuator))]
    if not chosen:
        return None
    D = len(chosen)
    arrays = FrameActuators(
        np.array([i for i, _ in chosen], dtype=np.int64), np.zeros(D, np.int64), np.zeros((D, FRAME)),
        np.full(D, NOWHERE, np.int64), np.zeros((D, FRAME)), np.zeros((D, 6)),
    )  # fmt: skip
    for d, (_, each) in enumerate(chosen):
        if isinstance(each, Thruster):
            arrays.body[d], arrays.frame[d] = frame_numbers(model, each.frame)
            arrays.wrench[d] = each.wrench
        else:
            arrays.body[d], arrays.frame[d] = frame_numbers(model, each.frame1)
            arrays.other[d], arrays.other_frame[d] = frame_numbers(model, each.frame2)
            arrays.wrench[d, 0] = each.ratio
    return arrays


def force_map(model: RigidBodyModel, q: np.ndarray) -> np.ndarray:
    """The columns r_i (K, nv, nu) at configurations q (K, nq), zero for controls of other actuators."""
    R = np.zeros((len(q), model.nv, len(model.actuators)))
    for i, each in enumerate(model.actuators):
        if isinstance(each, Thruster):
            R[:, :, i] = np.einsum("kij,i->kj", frame_jacobian(model, q, each.frame, "local"), each.wrench)
        elif isinstance(each, LinearActuator):
            (_, p1), (_, p2) = (frame_placement(model, q, frame) for frame in (each.frame1, each.frame2))
            J1, J2 = (frame_jacobian(model, q, frame)[:, :3] for frame in (each.frame1, each.frame2))
            apart = p1 - p2
            n = each.ratio * apart / np.maximum(np.linalg.norm(apart, axis=1, keepdims=True), 1e-300)
            R[:, :, i] = np.einsum("kij,ki->kj", J1 - J2, n)
    return R


# --------------------------------------------------------------------------------------------
# Contribution of actuators on frames to accelerations and their derivatives, one knot per lane.
#
# With tau(q, u) = B u + R(q) u, T = d(R u)/dq and, at mu = da/dtau' y, the power mu'R u as above:
#
#     a_q += a_tau T      Hqq += H_qtau T + T'H_tauq + d2(mu'R u)/dq2
#     a_u = a_tau (B + R)      Hqu = H_qtau (B + R) + d(mu'R)/dq
#
# For a line, with P = (1 - n n')/l, g = P dV, and columns delta_k, W_k of the difference of the two points' velocities
# dV along rates and configuration,
#
#     d(mu'r)/dq_k = g.delta_k + n.W_k      d2/dmu_j dq_k = delta_k'P delta_j + [n.V]_kj
#     d2/dq_k dq_l = [g.p]_kl + [n.V]_kl + delta_k'P W_l + delta_l'P W_k - (n.dV) delta_k'P delta_l / l
#                    - ((n.delta_k)(g.delta_l) + (n.delta_l)(g.delta_k)) / l
#
# where brackets are the second derivatives of positions and velocities of frames, see `residuals`.

TINY = 1e-24
"""Squared length, m^2, added so that lines of no length have no force."""


class Forces(NamedTuple):
    """Lanes of the derivatives of the forces."""

    first: np.ndarray = lanes(nv * 12)  # columns d/dq and d/dmu of a frame's velocity (6 2nv)
    second: np.ndarray = lanes(nv * 12)
    upper: np.ndarray = lanes(nv * UPPER)
    H: np.ndarray = lanes(nv * nv * 4)
    R: np.ndarray = lanes(pushed * nv)  # columns r_i, one after the other
    S: np.ndarray = lanes(pushed * nv)  # d(mu'r_i)/dq
    T: np.ndarray = lanes(nv * nv)  # d(R u)/dq
    D: np.ndarray = lanes(nv * nv)  # d2(mu'R u)/dq2
    X: np.ndarray = lanes(nv * nv)
    Y: np.ndarray = lanes(nv * nv)
    mu: np.ndarray = lanes(nv)


# ------------------------------------------------------------------------------------------------ forces
@helper
def _direction(p1, p2):
    """Unit vector from p2 to p1, and the inverse of their distance."""
    d = (p1[0] - p2[0], p1[1] - p2[1], p1[2] - p2[2])
    inverse = 1.0 / sqrt(dot3(d, d) + TINY)
    return scale3(d, inverse), inverse


@helper
def _pose(i, frame, body):
    """Pose of a frame of body i, -1 the world, with positions from ORIGIN."""
    R, p = frame_pose(i, frame, body)
    return R, (p if i >= 0 else add_scaled3(p, -1.0, load3(body, ORIGIN)))


@helper
def _push(m, i, p, f, moment, size, dof, tau):
    """tau += size (J'f + w'moment) of a point p on body i."""
    k = last_dof(m, i)
    while k >= 0:
        s = load6(dof, k * DOF + COLUMN)
        w = (s[0], s[1], s[2])
        power = dot3(add_cross((s[3], s[4], s[5]), w, p), f) + dot3(w, moment)
        store(tau, k, fma(size, power, load(tau, k)))
        k = m.dof_parent[k]


@shared_kernel
def _add_some(m, actuators, q, u, body, dof, tau):
    align_stack(body)
    place_near_origin(m, q, body, dof)
    zero = splat(body, 0.0)
    nothing = (zero, zero, zero)
    for d in range(actuators.control.size):
        i, W = actuators.body[d], actuators.wrench[d]
        R, p = _pose(i, actuators.frame[d], body)
        size = load(u, actuators.control[d])
        if actuators.other[d] < -1:
            f, moment = (zero + W[0], zero + W[1], zero + W[2]), (zero + W[3], zero + W[4], zero + W[5])
            _push(m, i, p, rotate(R, f), rotate(R, moment), size, dof, tau)
        else:
            _, p2 = _pose(actuators.other[d], actuators.other_frame[d], body)
            n, _ = _direction(p, p2)
            _push(m, i, p, n, nothing, W[0] * size, dof, tau)
            _push(m, actuators.other[d], p2, n, nothing, -W[0] * size, dof, tau)


@helper
def _add_none(m, actuators, q, u, d):
    pass


@helper
def _add(m, actuators, q, u, d):
    _add_some(m, actuators, q, u, d.space.body, d.space.dof, d.tau)


add_frame_forces = by_type("actuators", {None: _add_none, FrameActuators: _add})
"""d.tau += R(q) u, before the bodies in d.space are needed: (m, actuators, q, u, d)."""


# ------------------------------------------------------------------------------------------------ their derivatives
@helper
def _place_velocity(m, i, reference, R, p, mu, dof, J):
    """Store the columns of a frame's velocity at rates mu in J (6 2nv); returns the velocity; both are zero for the
    world."""
    V = components(reference, R, p, path_velocity(m, i, mu, dof))
    if i >= 0:
        store_psi(m, i, mu, dof)
    velocity_first_order(m, i, reference, R, p, V, dof, J)
    return V


@helper
def _add_curvature(m, i, reference, W, size, dof, J, w):
    """Add to T and D size times the derivatives of W.V, with J (6 2nv) its columns."""
    n = m.dof_body.size
    upper_vectors(m, i, reference, W, dof, J, w.upper)
    w.H[:] = 0.0
    velocity_curvature(m, i, w.upper, J, w.H)
    for k in range(n):
        for l in range(n):
            store(w.D, k * n + l, fma(size, load(w.H, k * 2 * n + l), load(w.D, k * n + l)))
            store(w.T, l * n + k, fma(size, load(w.H, k * 2 * n + n + l), load(w.T, l * n + k)))


@helper
def _add_rotating(m, i, g, size, dof, J, D):
    """Add to D size times the second derivatives of g.p."""
    n = m.dof_body.size
    x = last_dof(m, i)
    while x >= 0:
        J_x, w_x = load_column3(J, n + x, 2 * n), load3(dof, x * DOF + COLUMN)
        y = x
        while y >= 0:
            e = dot3(cross(g, load3(dof, y * DOF + COLUMN)), J_x)
            if m.dof_body[y] == m.dof_body[x]:
                e = 0.5 * (e + dot3(cross(g, w_x), load_column3(J, n + y, 2 * n)))
            store(D, x * n + y, fma(size, e, load(D, x * n + y)))
            if x != y:
                store(D, y * n + x, fma(size, e, load(D, y * n + x)))
            y = m.dof_parent[y]
        x = m.dof_parent[x]


@helper
def _apart(w, n, k):
    """Column k (3,) of the difference of two points' velocities."""
    a, b = load_column3(w.first, k, 2 * n), load_column3(w.second, k, 2 * n)
    return (a[0] - b[0], a[1] - b[1], a[2] - b[2])


@shared_kernel
def _wrench_derivatives(m, i, frame, W, size, d, body, dof, w):
    n = m.dof_body.size
    R, p = _pose(i, frame, body)
    zero = splat(body, 0.0)
    wrench = (zero + W[0], zero + W[1], zero + W[2], zero + W[3], zero + W[4], zero + W[5])
    _place_velocity(m, i, LOCAL, R, p, w.mu, dof, w.first)
    for k in range(n):
        store(w.S, d * n + k, dot6(wrench, load_column6(w.first, k, 2 * n)))
        store(w.R, d * n + k, dot6(wrench, load_column6(w.first, n + k, 2 * n)))
    _add_curvature(m, i, LOCAL, wrench, size, dof, w.first, w)


@shared_kernel
def _line_derivatives(m, i, frame, j, other_frame, ratio, size, d, body, dof, w):
    n, zero = m.dof_body.size, splat(body, 0.0)
    R1, p1 = _pose(i, frame, body)
    R2, p2 = _pose(j, other_frame, body)
    V1 = _place_velocity(m, i, LOCAL_WORLD_ALIGNED, R1, p1, w.mu, dof, w.first)
    V2 = _place_velocity(m, j, LOCAL_WORLD_ALIGNED, R2, p2, w.mu, dof, w.second)
    e, inverse = _direction(p1, p2)
    dV = (V1[0] - V2[0], V1[1] - V2[1], V1[2] - V2[2])
    along = dot3(e, dV)
    g = scale3((dV[0] - e[0] * along, dV[1] - e[1] * along, dV[2] - e[2] * along), inverse)
    size = ratio * size
    for k in range(n):
        delta, W = _apart(w, n, n + k), _apart(w, n, k)
        ed, gd = dot3(e, delta), dot3(g, delta)
        across = scale3((delta[0] - e[0] * ed, delta[1] - e[1] * ed, delta[2] - e[2] * ed), inverse)
        store(w.R, d * n + k, ratio * ed)
        store(w.S, d * n + k, ratio * (gd + dot3(e, W)))
        for l in range(n):
            other, W_l = _apart(w, n, n + l), _apart(w, n, l)
            bent = dot3(across, other)
            store(w.T, l * n + k, fma(size, bent, load(w.T, l * n + k)))
            ed_l = dot3(e, other)
            both = dot3(across, W_l) - inverse * (along * bent + ed * dot3(g, other) + ed_l * gd)
            W_across = scale3((W[0] - e[0] * dot3(e, W), W[1] - e[1] * dot3(e, W), W[2] - e[2] * dot3(e, W)), inverse)
            store(w.D, k * n + l, fma(size, both + dot3(W_across, other), load(w.D, k * n + l)))
    _add_rotating(m, i, g, size, dof, w.first, w.D)
    _add_rotating(m, j, g, -size, dof, w.second, w.D)
    _add_curvature(m, i, LOCAL_WORLD_ALIGNED, (e[0], e[1], e[2], zero, zero, zero), size, dof, w.first, w)
    _add_curvature(m, j, LOCAL_WORLD_ALIGNED, (e[0], e[1], e[2], zero, zero, zero), -size, dof, w.second, w)


@shared_kernel
def force_derivatives(m, actuators, q, u, body, dof, w):
    """Store R, S, T and D of `Forces` at rates w.mu."""
    align_stack(body)
    place_near_origin(m, q, body, dof)
    w.T[:] = 0.0
    w.D[:] = 0.0
    for d in range(actuators.control.size):
        size = load(u, actuators.control[d])
        i, j = actuators.body[d], actuators.other[d]
        if j < -1:
            _wrench_derivatives(m, i, actuators.frame[d], actuators.wrench[d], size, d, body, dof, w)
        else:
            _line_derivatives(
                m, i, actuators.frame[d], j, actuators.other_frame[d], actuators.wrench[d, 0], size, d, body, dof, w
            )


# ------------------------------------------------------------------------------------------------ responses
@helper
def _of_free(contacts, n, e):
    return e.first.Minv, n


@helper
def _of_held(contacts, n, e):
    return e.first.Z, n + 3 * contacts.blocks


_response = by_type("contacts", free_or_held(_of_free, _of_held))
"""da/dtau as rows of a matrix, and the distance of the rows."""


@helper
def _mixed_free(contacts, n, e, s, X):
    """H_qtau = -Hqa M^-1"""
    X[:] = 0.0
    subtract_product(None, n, n, s.second.Hqa, e.first.Minv, n, X)


@helper
def _mixed_held(contacts, n, e, s, X):
    for i in range(n * n):
        store(X, i, load(s.second.Hqtau, i))


_mixed = by_type("contacts", free_or_held(_mixed_free, _mixed_held))
"""Store H_qtau (nv nv) in X."""


@helper
def _add_products(n, A, stride, B, C):
    """C += A B for B (n n), with rows of A `stride` apart."""
    for i in range(n):
        for k in range(n):
            x = load(C, i * n + k)
            for j in range(n):
                x = fma(load(A, i * stride + j), load(B, j * n + k), x)
            store(C, i * n + k, x)


@helper
def _add_columns(n, nu, actuators, A, stride, R, C):
    """C[:, control] += A r for every actuator; C (n nu)."""
    for d in range(actuators.control.size):
        c = actuators.control[d]
        for i in range(n):
            x = load(C, i * nu + c)
            for j in range(n):
                x = fma(load(A, i * stride + j), load(R, d * n + j), x)
            store(C, i * nu + c, x)


@helper
def _respond(m, actuators, contacts, nu, q, u, d, e):
    """Store the derivatives of the forces at w.mu, and add e.aq += a_tau T, e.au += a_tau R."""
    n, w = m.dof_body.size, e.forces
    force_derivatives(m, actuators, q, u, d.space.body, d.space.dof, w)
    Z, stride = _response(contacts, n, e)
    _add_products(n, Z, stride, w.T, e.aq)
    _add_columns(n, nu, actuators, Z, stride, w.R, e.au)


@kernel
def _first_some(m, actuators, contacts, nu, q, u, d, e):
    e.forces.mu[:] = 0.0
    _respond(m, actuators, contacts, nu, q, u, d, e)


@kernel
def _second_some(m, actuators, contacts, nu, q, u, d, e, s):
    n, w = m.dof_body.size, e.forces
    Z, stride = _response(contacts, n, e)
    for j in range(n):
        x = splat(s.y, 0.0)
        for i in range(n):
            x = fma(load(Z, i * stride + j), load(s.y, i), x)
        store(w.mu, j, x)
    _respond(m, actuators, contacts, nu, q, u, d, e)
    _mixed(contacts, n, e, s, w.X)
    w.Y[:] = 0.0
    _add_products(n, w.X, n, w.T, w.Y)
    for i in range(n * n):
        store(s.Hqq, i, load(s.Hqq, i) + load(w.D, i) + 2.0 * load(w.Y, i))
    _add_columns(n, nu, actuators, w.X, n, w.R, s.Hqu)
    for k in range(actuators.control.size):
        c = actuators.control[k]
        for i in range(n):
            store(s.Hqu, i * nu + c, load(s.Hqu, i * nu + c) + load(w.S, k * n + i))


@helper
def _first_none(m, actuators, contacts, nu, q, u, d, e):
    pass


@helper
def _second_none(m, actuators, contacts, nu, q, u, d, e, s):
    pass


add_force_derivatives = by_type("actuators", {None: _first_none, FrameActuators: _first_some})
"""Add the actuators' part to e.aq and e.au: (m, actuators, contacts, nu, q, u, d, e)."""
add_force_curvature = by_type("actuators", {None: _second_none, FrameActuators: _second_some})
"""The same, and the part of s.Hqu and of s.Hqq, of which twice the symmetric part is needed: (..., d, e, s)."""
