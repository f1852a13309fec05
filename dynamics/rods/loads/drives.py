"""Driven joints: a wrench between the parent's and the child's frame, along the components that the joint moves.

For a joint with g_end = g_start exp(X), X = Phi x, the wrench U = Phi u acts on the child, in axes of the frame that it
carries, and the opposite wrench on the parent.  Its power is U.(T(-X) dX/dt), T(-X) dX/dt being the child's twist
relative to the parent in these axes, so that                                                     [GVS, eqs. D66, D67]

    B = Phi' T(-X)' Phi        w'B u = U.T(-X) W,      W = Phi w

Unlike forces along the coordinates themselves, U does not depend on the chart.  A joint that rotates about at most one
axis, and does not slide across it, has B = I.

In dual numbers, X = theta + e rho, U = Uf + e Um, W = Ww + e Wv, the power of T(-X) is the dual part of

    g(theta; a, b) = c1 a.b + c2 theta.(a x b) + c3 (theta.a) (theta.b)

with the Stumpff functions c_k(s), s = theta.theta (`exponential`).  Its derivatives in theta and rho, written out below
with m = a x b, n = d/dtheta (theta.a)(theta.b), N = a b' + b a' and g_k = c1^(k) a.b + c2^(k) theta.m + c3^(k)
(theta.a) (theta.b), are, before dual parts are taken,

    g_i  = 2 theta_i g_1 + c2 m_i + c3 n_i
    g_ij = 2 delta_ij g_1 + 4 theta_i theta_j g_2 + {2 theta (c2' m + c3' n)'}_ij + c3 N_ij,      {A} = A + A'
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from dynamics.rods.kinematics.exponential import stumpff_derivatives
from dynamics.rods.model.arrays import FIRST, JOINT, SECOND
from dynamics.rods.model.rod_model import RodModel
from dynamics.simd import align_stack, helper, kernel, load, splat, store
from dynamics.simd.lane_algebra import add_entry
from dynamics.spatial.spatial import add3, add_scaled3, angular, cross, dot3, join, linear, load6, scale3

# scratch of a joint
X, U, W, ONE, OTHER = 0, 6, 12, 18, 24
"""Displacement, wrench, virtual motion, and unit vectors of two components."""


class DriveArrays(NamedTuple):
    """Arrays of the driven joints."""

    coordinate: np.ndarray  # (D,) coordinates that controls act along directly
    control: np.ndarray  # (D,) their controls
    joint: np.ndarray  # (J, 8) for other joints, `rows` of their segments, and the first of their controls


# ------------------------------------------------------------------------------------------------ the power
@helper
def _sum3(x, s, a, t, b):
    """x + s a + t b"""
    return add_scaled3(add_scaled3(x, s, a), t, b)


@helper
def _parts(x, u, w):
    """(s, ds), and values and dual parts of theta.m, (theta.a) (theta.b), a.b, m, n."""
    theta, rho, a, b, au, bw = angular(x), linear(x), linear(u), angular(w), angular(u), linear(w)
    s, ds = dot3(theta, theta), 2.0 * dot3(theta, rho)
    m, dm = cross(a, b), add3(cross(au, b), cross(a, bw))
    p, q = dot3(theta, a), dot3(theta, b)
    dp, dq = dot3(rho, a) + dot3(theta, au), dot3(rho, b) + dot3(theta, bw)
    n = add_scaled3(scale3(a, q), p, b)
    dn = add_scaled3(_sum3(scale3(au, q), dq, a, p, bw), dp, b)
    alpha, dalpha = dot3(a, b), dot3(au, b) + dot3(a, bw)
    beta, dbeta = dot3(theta, m), dot3(rho, m) + dot3(theta, dm)
    return (s, ds), (alpha, beta, p * q), (dalpha, dbeta, dp * q + p * dq), (m, dm), (n, dn)


@helper
def _weighted(c, k, x):
    """g_k from a.b, theta.m and (theta.a) (theta.b)."""
    return c[0][k] * x[0] + c[1][k] * x[1] + c[2][k] * x[2]


@helper
def power(x, u, w):
    """U.T(-X) W, and its gradient in X."""
    (s, ds), real, dual, (m, dm), (n, dn) = _parts(x, u, w)
    c = stumpff_derivatives(s)
    theta, rho, c2, c3 = angular(x), linear(x), c[1], c[2]
    g1 = _weighted(c, 1, real)
    dg1 = _weighted(c, 1, dual) + ds * _weighted(c, 2, real)
    by_theta = _sum3(_sum3(scale3(rho, 2.0 * g1), 2.0 * dg1, theta, c2[0], dm), ds * c2[1], m, c3[0], dn)
    by_theta = add_scaled3(by_theta, ds * c3[1], n)
    by_rho = _sum3(scale3(theta, 2.0 * g1), c2[0], m, c3[0], n)
    return _weighted(c, 0, dual) + ds * g1, join(by_theta, by_rho)


@helper
def _outer(x, s, a, b, y):
    """x + s {a b'} y"""
    return _sum3(x, s * dot3(b, y), a, s * dot3(a, y), b)


@helper
def power_hessian_times(x, u, w, y):
    """The Hessian of U.T(-X) W in X times a direction y."""
    (s, ds), real, dual, (m, dm), (n, dn) = _parts(x, u, w)
    c = stumpff_derivatives(s)
    theta, rho, a, b, au, bw = angular(x), linear(x), linear(u), angular(w), angular(u), linear(w)
    c2, c3, of_theta, of_rho = c[1], c[2], angular(y), linear(y)
    g1, g2 = _weighted(c, 1, real), _weighted(c, 2, real)
    dg1 = _weighted(c, 1, dual) + ds * g2
    dg2 = _weighted(c, 2, dual) + ds * _weighted(c, 3, real)
    z = add_scaled3(scale3(m, c2[1]), c3[1], n)
    dz = add_scaled3(_sum3(scale3(dm, c2[1]), ds * c2[2], m, c3[1], dn), ds * c3[2], n)
    # mixed derivatives, on either direction
    mixed_rho = _real_times(theta, g1, g2, z, c3[0], a, b, of_rho)
    mixed_theta = _real_times(theta, g1, g2, z, c3[0], a, b, of_theta)
    x1 = _sum3(mixed_rho, 2.0 * dg1, of_theta, 4.0 * dg2 * dot3(theta, of_theta), theta)
    x1 = _outer(_outer(x1, 4.0 * g2, rho, theta, of_theta), 2.0, rho, z, of_theta)
    x1 = _outer(_outer(x1, 2.0, theta, dz, of_theta), ds * c3[1], a, b, of_theta)
    x1 = _outer(_outer(x1, c3[0], au, b, of_theta), c3[0], a, bw, of_theta)
    return join(x1, mixed_theta)


@helper
def _real_times(theta, g1, g2, z, c3, a, b, y):
    """g_ij y_j"""
    first = add_scaled3(scale3(y, 2.0 * g1), 4.0 * g2 * dot3(theta, y), theta)
    return _outer(_outer(first, 2.0, theta, z, y), c3, a, b, y)


# ------------------------------------------------------------------------------------------------ kernels
@kernel
def _gather(rows, first, state, ws, o):
    """Store six components at ws[o]: those of the joint from the state at `first` on, zero for the others."""
    align_stack(ws)
    for r in range(6):
        store(ws, o + r, splat(ws, 0.0))
        for i in range(rows[r], rows[r + 1]):
            store(ws, o + r, load(state, first + i - rows[0]))


@kernel
def _unit(r, ws, o):
    align_stack(ws)
    ws[o : o + 6] = 0.0
    store(ws, o + r, splat(ws, 1.0))


@kernel
def _add_joint(rows, level, n, nu, state, ws, r, dq, Hqq, B, Hqu):
    """Add the part of one driven joint; the last entry of `rows` is its first control."""
    align_stack(ws)
    start, control = rows[0], rows[7]
    _gather(rows, start, state, ws, X)
    _gather(rows, 4 * n + control, state, ws, U)
    _gather(rows, 3 * n + start, state, ws, W)
    x, u, w = load6(ws, X), load6(ws, U), load6(ws, W)
    for a in range(6):
        for i in range(rows[a], rows[a + 1]):
            _unit(a, ws, ONE)
            one = load6(ws, ONE)
            value, gradient = power(x, u, one)
            add_entry(r, i, -value)
            if level >= FIRST:
                _, of_control = power(x, one, w)
                bent = power_hessian_times(x, u, w, one)
                for b in range(6):
                    for j in range(rows[b], rows[b + 1]):
                        _unit(b, ws, OTHER)
                        other, k = load6(ws, OTHER), control + j - start
                        entry, _ = power(x, other, one)
                        store(B, i * nu + k, entry)
                        add_entry(dq, i * n + j, -_component(gradient, b))
                        if level >= SECOND:
                            store(Hqu, j * nu + control + i - start, -_component(of_control, b))
                            add_entry(Hqq, i * n + j, -_component(bent, b))


@helper
def _component(x, k):
    if k == 0:
        return x[0]
    if k == 1:
        return x[1]
    if k == 2:
        return x[2]
    if k == 3:
        return x[3]
    return x[4] if k == 4 else x[5]


@kernel
def add_drives(e, level, n, nu, state, ws, r, dq, Hqq, B, Hqu):
    """Add the part of driven joints to r = ... - B u and, as the level goes, to dr/dq, B, Hqq, Hqu.

    e: DriveArrays; state: q, v, a, w, u; scratch ws: 30 numbers."""
    align_stack(ws)
    for k in range(e.coordinate.size):
        i, c = e.coordinate[k], e.control[k]
        add_entry(r, i, -load(state, 4 * n + c))
        if level >= FIRST:
            store(B, i * nu + c, splat(B, 1.0))
    for k in range(e.joint.shape[0]):
        _add_joint(e.joint[k], level, n, nu, state, ws, r, dq, Hqq, B, Hqu)


# ------------------------------------------------------------------------------------------------ from a model
def drive_arrays(model: RodModel, joints: Iterable[slice], first: int) -> DriveArrays:
    """Drives of joints with these coordinates, whose controls are those from number `first` on."""
    m, own, controls, others = model.arrays, [], [], []
    for coordinates in joints:
        for s in np.flatnonzero((m.rows[:, 0] >= coordinates.start) & (m.rows[:, 6] <= coordinates.stop)):
            rows = m.rows[s]
            count = int(rows[6] - rows[0])
            if m.kind[s] == JOINT and rows[0] < rows[3]:
                others.append([*rows.tolist(), first])
            else:
                own += range(int(rows[0]), int(rows[6]))
                controls += range(first, first + count)
            first += count
    return DriveArrays(
        np.array(own, np.int64), np.array(controls, np.int64), np.array(others, np.int64).reshape(-1, 8)
    )
