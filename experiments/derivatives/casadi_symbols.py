"""Inverse dynamics and its first derivatives as CasADi expressions, for trees of revolute and prismatic joints.

Two algorithms, each the better start for automatic differentiation on some trees:

    rnea     recursive Newton-Euler in body coordinates; few joints enter each intermediate   [Featherstone 2008, 5.3]
    idsva    the analytical first derivatives in ground coordinates, as paper 004 differentiates [Singh 2022, alg. 1]

Vectors are SX columns, spatial vectors [angular; linear]; no 6x6 matrix is formed.  SX drops products with the zeros
and ones of a model while they are written, so the expressions fit the one robot they are made for.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from dynamics.model.joints import PRISMATIC, REVOLUTE

try:
    import casadi  # pyright: ignore[reportMissingImports]
except ImportError:
    casadi = None
ca: Any = casadi

UPPER = np.triu_indices(3)


def symbols(model) -> tuple:
    """q, v, a as columns of symbols.

    Raises ImportError without CasADi, ValueError if a joint is neither revolute nor prismatic.
    """
    if ca is None:
        raise ImportError("this comparison needs CasADi: make peers")
    if not set(model.arrays.joint_type) <= {REVOLUTE, PRISMATIC}:
        raise ValueError("model: expected revolute and prismatic joints only, CasADi knows no others")
    return ca.SX.sym("q", model.nv), ca.SX.sym("v", model.nv), ca.SX.sym("a", model.nv)


def _local_pose(m, i, q):
    """R, p of body i in its parent."""
    blocks, p = m.rotation[i].reshape(3, 3, 3), ca.SX(m.translation[i])
    if m.joint_type[i] == PRISMATIC:
        return ca.SX(blocks[0]), p + q * ca.SX(m.joint_axis[i])
    return ca.SX(blocks[0]) + ca.SX(blocks[1]) * ca.cos(q) + ca.SX(blocks[2]) * ca.sin(q), p


def _mirror(I):
    """The symmetric matrix of this upper triangle; each entry is one expression, not two."""
    return ca.triu2symm(ca.triu(I))


def _inertia(m, i):
    """Mass, first moment and inertia about the body's origin, as numbers."""
    I = np.zeros((3, 3))
    I[UPPER] = m.rotational_inertia[i]
    return float(m.mass[i]), m.first_moment[i], I + np.triu(I, 1).T


# ------------------------------------------------------------------------------------------------ Newton-Euler
def rnea(model, q, v, a):
    """tau (nv, 1)."""
    m = model.arrays
    poses, motions, wrenches, tau = [], [], [], ca.SX(model.nv, 1)
    for i, parent in enumerate(m.parent):
        R, p = _local_pose(m, i, q[i])
        w, alpha, acc = motions[parent] if parent >= 0 else (ca.SX(3, 1), ca.SX(3, 1), ca.SX(-m.gravity))
        acc = R.T @ (acc + ca.cross(alpha, p) + ca.cross(w, ca.cross(w, p)))
        w, alpha, axis = R.T @ w, R.T @ alpha, ca.SX(m.dof_axis[i])
        if m.joint_type[i] == REVOLUTE:
            alpha = alpha + ca.cross(w, axis * v[i]) + axis * a[i]
            w = w + axis * v[i]
        else:
            acc = acc + axis * a[i] + 2 * ca.cross(w, axis * v[i])
        mass, h, I = _inertia(m, i)
        force = mass * acc + ca.cross(alpha, h) + ca.cross(w, ca.cross(w, h))
        moment = I @ alpha + ca.cross(w, I @ w) + ca.cross(h, acc)
        poses.append((R, p))
        motions.append((w, alpha, acc))
        wrenches.append((force, moment))
    for i in reversed(range(len(wrenches))):
        (R, p), (force, moment), parent = poses[i], wrenches[i], m.parent[i]
        effort = moment if m.joint_type[i] == REVOLUTE else force
        tau[i] = ca.dot(ca.SX(m.dof_axis[i]), effort) + m.armature[i] * a[i]
        if parent >= 0:
            above = wrenches[parent]
            force = R @ force
            wrenches[parent] = above[0] + force, above[1] + R @ moment + ca.cross(p, force)
    return tau


# ------------------------------------------------------------------------------------------------ spatial algebra
def _cross_motion(x, y):
    return ca.vertcat(ca.cross(x[:3], y[:3]), ca.cross(x[:3], y[3:]) + ca.cross(x[3:], y[:3]))


def _cross_force(x, f):
    return ca.vertcat(ca.cross(x[:3], f[:3]) + ca.cross(x[3:], f[3:]), ca.cross(x[:3], f[3:]))


def _inertia_times(mass, h, I, x):
    return ca.vertcat(I @ x[:3] + ca.cross(h, x[3:]), mass * x[3:] + ca.cross(x[:3], h))


def _parallel_axis(h, v):
    """2 h.v 1 - h v' - v h'"""
    return 2 * ca.dot(h, v) * ca.SX.eye(3) - h @ v.T - v @ h.T


def _rate(h, I, x):
    """Rotational part of x x* I - I x."""
    turned = ca.skew(x[:3]) @ I
    return _mirror(turned + turned.T + _parallel_axis(h, x[3:]))


# ------------------------------------------------------------------------------------------------ analytical
def _forward(model, q, v, a):
    """Per body its column S, psi, psi2 and its inertia, inertia rate, momentum and force in ground coordinates."""
    m, places, columns, composites = model.arrays, [], [], []
    for i, parent in enumerate(m.parent):
        world = ca.SX.eye(3), ca.SX(3, 1), ca.SX(6, 1), ca.vertcat(ca.SX(3, 1), -m.gravity)
        R, p, vp, ap = places[parent] if parent >= 0 else world
        axis, (local, shift) = R @ ca.SX(m.joint_axis[i]), _local_pose(m, i, q[i])
        R, p = R @ local, p + R @ shift
        S = ca.vertcat(axis, ca.cross(p, axis)) if m.joint_type[i] == REVOLUTE else ca.vertcat(ca.SX(3, 1), axis)
        psi = _cross_motion(vp, S)
        psi2 = _cross_motion(ap, S) + _cross_motion(vp, psi)
        vi, ai = vp + S * v[i], ap + S * a[i] + psi * v[i]
        mass, h, I = _inertia(m, i)
        com = h / mass if mass > 0.0 else h
        about_com = I - mass * (com @ com * np.eye(3) - np.outer(com, com))
        com = p + R @ ca.SX(com)
        h = mass * com
        I = _mirror(R @ ca.SX(about_com) @ R.T + 0.5 * _parallel_axis(h, com))
        momentum = _inertia_times(mass, h, I, vi)
        force = _inertia_times(mass, h, I, ai) + _cross_force(vi, momentum)
        places.append((R, p, vi, ai))
        columns.append((S, psi, psi2))
        composites.append((mass, h, I, _rate(h, I, vi), momentum, force))
    return columns, composites


def idsva(model, q, v, a):
    """dtau_dq, dtau_dv, M (nv, nv), zero between branches."""
    m, n = model.arrays, model.nv
    columns, composites = _forward(model, q, v, a)
    dq, dv, M = ca.SX(n, n), ca.SX(n, n), ca.SX(n, n)
    for i in reversed(range(n)):
        S, psi, psi2 = columns[i]
        mass, h, I, J, p, f = composites[i]
        massless = lambda x, k=p[3:], J=J: _inertia_times(0, k, J, x)  # noqa: E731
        half, turned = massless(S), _cross_force(S, p)
        i_s, b_s = _inertia_times(mass, h, I, S), half - turned
        f_v = half + turned + 2 * _inertia_times(mass, h, I, psi)
        f_q = massless(psi) + _cross_force(psi, p) + _inertia_times(mass, h, I, psi2) + _cross_force(S, f)
        j = i
        while j >= 0:
            Sj, psij, psi2j = columns[j]
            M[i, j] = ca.dot(i_s, Sj)
            dq[i, j] = ca.dot(b_s, psij) + ca.dot(i_s, psi2j)
            dv[i, j] = ca.dot(b_s, Sj) + 2 * ca.dot(i_s, psij)
            if j < i:
                M[j, i] = M[i, j]
                dq[j, i] = ca.dot(f_q, Sj)
                dv[j, i] = ca.dot(f_v, Sj)
            j = m.parent[j]
        M[i, i] += m.armature[i]
        parent = m.parent[i]
        if parent >= 0:
            sums = [above + below for above, below in zip(composites[parent], composites[i], strict=True)]
            sums[2], sums[3] = _mirror(sums[2]), _mirror(sums[3])
            composites[parent] = tuple(sums)
    return dq, dv, M


def rnea_jacobians(model, q, v, a):
    """dtau_dq, dtau_dv, M by automatic differentiation of `rnea`."""
    tau = rnea(model, q, v, a)
    return tuple(ca.jacobian(tau, x) for x in (q, v, a))


FIRST_ORDER: dict[str, Callable] = {"rnea": rnea_jacobians, "idsva": idsva}
