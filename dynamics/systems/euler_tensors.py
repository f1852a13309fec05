"""Full tensors of second derivatives of Euler steps of ordinary joints without contacts, from those of IDSVA-SO."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynamics.algorithms.mass_matrix import inverse_mass_matrix
from dynamics.derivatives.forward_dynamics import forward_dynamics_second_derivatives
from dynamics.joint_friction import joint_forces

if TYPE_CHECKING:
    from dynamics.systems.rigid_body import RigidBodySystem


def euler_tensors(system: RigidBodySystem, xs: np.ndarray, us: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """fxx (N, ndx, ndx, ndx), fux (N, ndx, nu, ndx), fuu (N, ndx, nu, nu) at xs (N, nx), us (N, nu)."""
    N, n, nu, h = len(us), system.nv, system.nu, system.dt
    q, v, B = xs[:, :n], xs[:, n:], system.actuation.B
    force, _, bend = joint_forces(system.plant_model, q, v)
    T = forward_dynamics_second_derivatives(system.plant_model, q, v, us @ B.T - force)
    fxx = np.zeros((N, 2 * n, 2 * n, 2 * n))
    fux = np.zeros((N, 2 * n, nu, 2 * n))
    fxx[:, n:, :n, :n] = 0.5 * h * (T.d2a_dqdq + T.d2a_dqdq.swapaxes(2, 3))
    fxx[:, n:, :n, n:] = h * T.d2a_dqdv
    fxx[:, n:, n:, :n] = h * T.d2a_dqdv.swapaxes(2, 3)
    fxx[:, n:, n:, n:] = h * T.d2a_dvdv
    if bend.any():
        diagonal = np.einsum("tikk->tik", fxx[:, n:, n:, n:])
        diagonal -= h * inverse_mass_matrix(system.plant_model, q) * bend[:, None]
    fux[:, n:, :, :n] = h * (T.d2a_dqdtau @ B).swapaxes(2, 3)
    if system.semi_implicit:
        fxx[:, :n], fux[:, :n] = h * fxx[:, n:], h * fux[:, n:]
    return fxx, fux, np.zeros((N, 2 * n, nu, nu))
