"""Torques of joint accelerations, their Jacobians and Hessians at arrays that stay, as prepared calls.

    r = s (ID(q, v, a) + f(q, v))      s the scale, f of joint friction and springs

x = [q; v], and a are the first controls, at K points.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dynamics.algorithms.batch import empty_matrices
from dynamics.algorithms.inverse_dynamics import prepared_inverse_dynamics
from dynamics.derivatives.hessian import drive_expansion
from dynamics.derivatives.inverse_dynamics import drive_derivatives
from dynamics.model.joint_forces import felt_springs, prepared_joint_forces
from dynamics.model.model import RigidBodyModel
from dynamics.simd import by_address, routine
from dynamics.simd.array_loops import take_columns
from dynamics.simd.prepared_calls import PreparedCall


@routine
def write_torques(tau, f, scale, r):
    """r = (tau + f) scale"""
    for t in range(r.shape[0]):
        for i in range(r.shape[1]):
            r[t, i] = (tau[t, i] + f[t, i]) * scale[i]


@routine
def write_jacobians(dq, dv, M, K, D, df, scale, J):
    """J (K, n, ...) by q, v and a, from matrices (K, n n) of inverse dynamics, springs K, D (n, n) and df (K, n)."""
    n = K.shape[0]
    for t in range(J.shape[0]):
        for i in range(n):
            for j in range(n):
                friction = df[t, i] if i == j else 0.0
                J[t, i, j] = scale[i] * (dq[t, i * n + j] + K[i, j])
                J[t, i, n + j] = scale[i] * (dv[t, i * n + j] + D[i, j] + friction)
                J[t, i, 2 * n + j] = scale[i] * M[t, i * n + j]


@routine
def write_hessians(Hqq, Hqv, Hvv, Hqa, w, ddf, H):
    """H by q, v and a, from matrices (K, n n) of inverse dynamics, its multipliers w (K, n), and ddf (K, n)."""
    n = w.shape[1]
    for t in range(H.shape[0]):
        for i in range(n):
            for j in range(n):
                H[t, i, j], H[t, n + i, n + j] = Hqq[t, i * n + j], Hvv[t, i * n + j]
                H[t, i, n + j] = H[t, n + j, i] = Hqv[t, i * n + j]
                H[t, i, 2 * n + j] = H[t, 2 * n + j, i] = Hqa[t, i * n + j]
            H[t, n + i, n + i] += w[t, i] * ddf[t, i]


@by_address
def _scale_columns(mu, scale, w):
    for t in range(mu.shape[0]):
        for i in range(mu.shape[1]):
            w[t, i] = mu[t, i] * scale[i]


class TorqueCalls(NamedTuple):
    """q, v and a at K points, f, f' and f'' of joint forces there, and the calls that write them."""

    points: tuple[np.ndarray, np.ndarray, np.ndarray]
    forces: tuple[np.ndarray, ...]
    calls: tuple[Callable[[], Any], ...]


def prepared_points(model: RigidBodyModel, xs: np.ndarray, us: np.ndarray) -> TorqueCalls:
    """Points of states xs (K, 2 n) and controls us (K, nu)."""
    K, n = len(us), model.nv
    q, v, a, *forces = (np.zeros((K, n)) for _ in range(6))
    take = [PreparedCall(take_columns, *each) for each in ((xs, 0, q), (xs, n, v), (us, 0, a))]
    felt = prepared_joint_forces(model, q, v, *forces)
    return TorqueCalls((q, v, a), tuple(forces), (*take, *([] if felt is None else [felt])))


def prepared_values(model: RigidBodyModel, at: TorqueCalls, scale: np.ndarray, r: np.ndarray) -> list[Any]:
    """Calls that write r (K, n)."""
    (q, v, a), tau = at.points, np.zeros(r.shape)
    return [prepared_inverse_dynamics(model, q, v, a, tau), PreparedCall(write_torques, tau, at.forces[0], scale, r)]


def prepared_jacobians(model: RigidBodyModel, at: TorqueCalls, scale: np.ndarray, J: np.ndarray) -> list[Any]:
    """Calls that write J (K, n, 2 n + nu), which is zero."""
    out, (K, D, _) = empty_matrices(3, len(J), model.nv), felt_springs(model.arrays)
    drive = drive_derivatives.prepared(model, *at.points, None, *out)
    return [drive, PreparedCall(write_jacobians, *out, K, D, at.forces[1], scale, J)]


def prepared_hessians(
    model: RigidBodyModel, at: TorqueCalls, scale: np.ndarray, mu: np.ndarray, H: np.ndarray
) -> list[Any]:
    """Calls that write H (K, 2 n + nu, 2 n + nu) of mu'r, which is zero."""
    w, out = np.zeros(mu.shape), empty_matrices(7, len(H), model.nv)
    drive = drive_expansion.prepared(model, *at.points, w, None, *out)
    weigh = PreparedCall(_scale_columns, mu, scale, w)
    return [weigh, drive, PreparedCall(write_hessians, *out[3:], w, at.forces[2], H)]
