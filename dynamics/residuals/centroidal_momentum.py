"""Momentum about the centre of mass:  r = [p; k] - target, world axes.

A degree of freedom k moves the subtree below it, of inertia I_k and momentum h_k about the world origin.  With its
column s_k = (w_k, .), psi_k = v_parent x s_k, the momentum h = (k0, p) of the whole robot changes by

    dh/dv_k = g_k = I_k s_k                   dh/dq_k = d_k = I_k psi_k + s_k x* h_k

and about the centre of mass c, with c_k = lin(g_k)/mass,

    k = k0 - c x p        dk/dv_k = ang(g_k) - c x lin(g_k)        dk/dq_k = ang(d_k) - c x lin(d_k) - c_k x p

The Hessian of n.p + rho.k is, with the constant motion V = (rho, n + c x rho), b_k = (s_k x* I_k - I_k s_k x) V and
z_k = V x s_k, a sum over all pairs of degrees of freedom, on a path or not, and one over u above l,

    H[q_i, q_j] = -rho.(c_i x lin(d_j) + c_j x lin(d_i))     H[q_l, q_u] += b_l.psi_u + d_l.z_u - ((p x rho) x w_u).c_l
    H[q_i, v_j] = -rho.(c_i x lin(g_j))                      H[q_l, v_u] += b_l.s_u,      H[q_u, v_l] += g_l.z_u

and Hvv = 0.  Inside one joint q counts as the upper one, and both orders of qq are averaged.

Rotors, of which a model knows the armature, carry no momentum here.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.center_of_mass import require_mass, total_mass
from dynamics.algorithms.kinematics import (
    BODY,
    COLUMN,
    DOF,
    INERTIA,
    MOMENT,
    MOMENTA,
    MOMENTUM,
    PSI,
    PSI2,
    RATE,
    VELOCITY,
    forward_pass,
)
from dynamics.model.knot_driver import nb, nv
from dynamics.model.model import RigidBodyModel
from dynamics.residuals.kernel_residual import KernelResidual, residual_kernels
from dynamics.residuals.robot_residual import VALUE, VECTOR
from dynamics.residuals.squares import add_pair
from dynamics.simd import align_stack, helper, kernel, load, splat, store
from dynamics.simd.lane_algebra import store_pair
from dynamics.spatial.spatial import (
    accumulate,
    add_cross,
    add_cross_force,
    angular,
    cross,
    cross_motion,
    dot3,
    dot6,
    inertia_times,
    join,
    linear,
    load3,
    load6,
    rate_moment,
    rate_rotation,
    rate_times,
    scale3,
    store3,
    store6,
)
from dynamics.spatial.tangent import store_column6

BY_VELOCITY, BY_POSITION = PSI2, RATE
"""Where a degree of freedom keeps g and d."""
PAIR = 12
"""Numbers per degree of freedom for the Hessian: b, z."""
WHOLE = 9
"""First moment, then momentum, of the whole robot."""


@helper
def _store_columns(m, i, body, dof):
    """psi, g and d of the degrees of freedom of body i, whose block holds the sums of its subtree."""
    b, zero = i * BODY, splat(body, 0.0)
    parent = (zero, zero, zero, zero, zero, zero)
    if m.parent[i] >= 0:
        parent = load6(body, m.parent[i] * BODY + VELOCITY)
    mass, h, I = m.subtree_mass[i], load3(body, b + MOMENT), load6(body, b + INERTIA)
    momentum = load6(body, b + MOMENTUM)
    for k in range(m.v_index[i], m.v_index[i] + m.dof_count[i]):
        s = load6(dof, k * DOF + COLUMN)
        psi = cross_motion(parent, s)
        store6(dof, k * DOF + PSI, psi)
        store6(dof, k * DOF + BY_VELOCITY, inertia_times(mass, h, I, s))
        store6(dof, k * DOF + BY_POSITION, add_cross_force(inertia_times(mass, h, I, psi), s, momentum))


@kernel
def _value(m, target, order, x, body, dof, whole, r):
    """r (6) and, by order, the columns; body and whole (WHOLE) receive sums of subtrees."""
    align_stack(body)
    v = x[x.shape[0] - m.dof_body.size :]
    forward_pass(m, x, v, v, body, dof, MOMENTA)
    whole[:] = 0.0
    for i in range(m.parent.size - 1, -1, -1):
        if order != VALUE:
            _store_columns(m, i, body, dof)
        b, above = i * BODY, m.parent[i] * BODY
        if m.parent[i] >= 0:
            accumulate(body, above + MOMENT, b + MOMENT, 9)
            accumulate(body, above + MOMENTUM, b + MOMENTUM, 6)
        else:
            for k in range(3):
                store(whole, k, load(whole, k) + load(body, b + MOMENT + k))
            for k in range(6):
                store(whole, 3 + k, load(whole, 3 + k) + load(body, b + MOMENTUM + k))
    c, momentum = _center(m, whole), load6(whole, 3)
    p = linear(momentum)
    store3(r, 0, p)
    store3(r, 3, add_cross(angular(momentum), p, c))
    for k in range(6):
        store(r, k, load(r, k) - load(target, k))


@helper
def _center(m, whole):
    """Centre of mass."""
    return scale3(load3(whole, 0), 1.0 / total_mass(m))


@helper
def _about_center(f, c):
    """[linear; angular] of the force vector f, its moment taken about c."""
    p = linear(f)
    k = add_cross(angular(f), p, c)
    return (p[0], p[1], p[2], k[0], k[1], k[2])


@kernel
def _jacobian(m, dof, whole, J):
    """J (6 2nv), columns d/dq and d/dv."""
    align_stack(J)
    n, per_mass = m.dof_body.size, 1.0 / total_mass(m)
    c, p = _center(m, whole), linear(load6(whole, 3))
    for k in range(n):
        g = load6(dof, k * DOF + BY_VELOCITY)
        store_column6(J, n + k, 2 * n, _about_center(g, c))
        d = _about_center(load6(dof, k * DOF + BY_POSITION), c)
        shifted = add_cross((d[3], d[4], d[5]), p, scale3(linear(g), per_mass))
        store_column6(J, k, 2 * n, (d[0], d[1], d[2], shifted[0], shifted[1], shifted[2]))


@helper
def _all_pairs(m, rho, dof, H):
    """What c x p adds for every pair of degrees of freedom."""
    n, per_mass = m.dof_body.size, 1.0 / total_mass(m)
    for i in range(n):
        a_i = scale3(cross(rho, linear(load6(dof, i * DOF + BY_VELOCITY))), -per_mass)
        d_i = linear(load6(dof, i * DOF + BY_POSITION))
        for j in range(n):
            g_j = linear(load6(dof, j * DOF + BY_VELOCITY))
            store_pair(H, 2 * n, i, n + j, dot3(a_i, g_j))
            if j <= i:
                a_j = scale3(cross(rho, g_j), -per_mass)
                d_j = linear(load6(dof, j * DOF + BY_POSITION))
                store_pair(H, 2 * n, i, j, dot3(a_i, d_j) + dot3(a_j, d_i))


@helper
def _upper(l, u, turn, dof, pair):
    """b_l.psi_u + d_l.z_u - (turn x w_u).lin(g_l)"""
    w = angular(load6(dof, u * DOF + COLUMN))
    e = dot6(load6(pair, l * PAIR), load6(dof, u * DOF + PSI))
    e = e + dot6(load6(dof, l * DOF + BY_POSITION), load6(pair, u * PAIR + 6))
    return e - dot3(cross(turn, w), linear(load6(dof, l * DOF + BY_VELOCITY)))


@helper
def _path_pairs(m, turn, dof, pair, H):
    """The sum over u above l; turn = (p x rho)/mass."""
    n = m.dof_body.size
    for l in range(n):
        g_l, b_l = load6(dof, l * DOF + BY_VELOCITY), load6(pair, l * PAIR)
        u = l
        while u >= 0:
            e = _upper(l, u, turn, dof, pair)
            add_pair(H, 2 * n, u, n + l, dot6(g_l, load6(pair, u * PAIR + 6)))
            if m.dof_body[u] != m.dof_body[l]:
                add_pair(H, 2 * n, l, n + u, dot6(b_l, load6(dof, u * DOF + COLUMN)))
            else:
                e = 0.5 * (e + _upper(u, l, turn, dof, pair))
                if u != l:
                    g_u = load6(dof, u * DOF + BY_VELOCITY)
                    add_pair(H, 2 * n, l, n + u, dot6(g_u, load6(pair, l * PAIR + 6)))
            add_pair(H, 2 * n, l, u, e)
            u = m.dof_parent[u]


@kernel
def _hessian(m, mu, body, dof, whole, pair, H):
    """H (2nv 2nv) of mu'r, after `_evaluate` with columns."""
    align_stack(H)
    n, rho, p = m.dof_body.size, load3(mu, 3), linear(load6(whole, 3))
    V = join(rho, add_cross(load3(mu, 0), _center(m, whole), rho))
    for k in range(n):
        i = m.dof_body[k]
        s, h, I = load6(dof, k * DOF + COLUMN), load3(body, i * BODY + MOMENT), load6(body, i * BODY + INERTIA)
        b = rate_times(rate_moment(m.subtree_mass[i], h, s), rate_rotation(h, I, s), V)
        store6(pair, k * PAIR, b)
        store6(pair, k * PAIR + 6, cross_motion(V, s))
    H[:] = 0.0
    _all_pairs(m, rho, dof, H)
    _path_pairs(m, scale3(cross(p, rho), 1.0 / total_mass(m)), dof, pair, H)


class CentroidalMomentum(KernelResidual):
    """Linear momentum and angular momentum about the centre of mass less a target, [linear; angular], world axes.

    In kg m/s and kg m^2/s; of all moving bodies, without the rotors that a model's armature stands for.

    Parameters
    ----------
    model : RigidBodyModel
    target : (6,), optional, zero unless given; or (N+1, 6) with one for each knot of a problem, or a function of time,
        t (s) to (6,), which a problem evaluates at its knots

    Raises
    ------
    ValueError : a target of wrong shape or with non-finite entries, or a model without mass.
    """

    nr, reads_dynamics = 6, True
    target_kind = VECTOR
    kernels = residual_kernels(
        _value, _jacobian, _hessian, 6, 2 * nv,
        {"body": nb * BODY, "dof": nv * DOF, "pair": nv * PAIR, "whole": WHOLE}, target=6,
    )  # fmt: skip

    def __init__(self, model: RigidBodyModel, target: ArrayLike | Callable[[float], ArrayLike] | None = None) -> None:
        require_mass(model)
        super().__init__(model, "centroidal momentum")
        self._finish(np.arange(2 * model.full.nv), targets=self._as_targets(np.zeros(6) if target is None else target))
