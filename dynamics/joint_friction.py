"""What joints resist motion with: viscous damping d and Coulomb friction c, smoothed over a speed e.

    f(v) = d v + c v/s          f'(v) = d + c e^2/s^3          f''(v) = -3 c e^2 v/s^5          s^2 = v^2 + e^2

per degree of freedom, in the equation of motion ID(q, v, a) + f(v) = tau + J'(contact forces).  Kernels read the rows
(d, c, e^2) of `ModelArrays.joint_friction`; a model as it is loaded has none, so that whatever takes a model alone
knows no friction.
"""

import numpy as np

from dynamics.model import RigidBodyModel
from dynamics.simd import fma, kernel, load, splat, sqrt, store


@kernel
def _smoothing(m, k, v):
    """1/s and e^2 of degree of freedom k, whose velocity is v."""
    square = m.joint_friction[k, 2]
    return splat(v, 1.0) / sqrt(fma(load(v, k), load(v, k), splat(v, square))), square


@kernel
def subtract_friction(m, sign, v, tau):
    """tau -= sign f(v)"""
    for k in range(m.joint_friction.shape[0]):
        r, _ = _smoothing(m, k, v)
        factor = fma(m.joint_friction[k, 1], r, splat(v, m.joint_friction[k, 0]))
        store(tau, k, fma(-sign * load(v, k), factor, load(tau, k)))


@kernel
def add_friction_derivative(m, v, A):
    """A += diag(f'(v)), A (nv nv) the derivative of ID in v."""
    n = m.joint_friction.shape[0]
    for k in range(n):
        r, square = _smoothing(m, k, v)
        derivative = fma(m.joint_friction[k, 1] * square * r, r * r, splat(v, m.joint_friction[k, 0]))
        store(A, k * n + k, load(A, k * n + k) + derivative)


@kernel
def add_friction_curvature(m, v, w, Hvv):
    """Hvv += diag(w f''(v)), Hvv (nv nv) the Hessian of w'ID in v."""
    n = m.joint_friction.shape[0]
    for k in range(n):
        r, square = _smoothing(m, k, v)
        second = (-3.0 * m.joint_friction[k, 1] * square) * (load(w, k) * load(v, k) * r)
        store(Hvv, k * n + k, fma(second * (r * r), r * r, load(Hvv, k * n + k)))


def friction_forces(model: RigidBodyModel, v: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """f, f' and f'' (K, nv) at v (K, nv); zeros for a model without rows of friction."""
    rows = model.arrays.joint_friction
    if not len(rows):
        return np.zeros_like(v), np.zeros_like(v), np.zeros_like(v)
    d, c, square = rows.T
    s = np.sqrt(v**2 + square)
    return d * v + c * v / s, d + c * square / s**3, -3.0 * c * square * v / s**5
