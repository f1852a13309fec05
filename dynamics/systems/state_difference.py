"""Expansion of the state difference: the Jacobian of a logarithm, and the Hessian of its products."""

import numpy as np

from dynamics.simd import LANES, carve, driver, gather, launch, scatter_blocks
from dynamics.tangent import (
    JACOBIAN_INVERSE,
    TANGENT_SLOTS,
    add_map,
    difference_configuration,
    tangent_maps_inverse,
)
from dynamics.tangent_geometry import add_log_hessian


@driver
def _drive(first, last, work, m, q_ref, q, mu, J, H):
    nb, n, nq = m.parent.size, m.dof_body.size, q.shape[1]
    for c in range(first, last):
        a, w = carve(work, nq)
        b, w = carve(w, nq)
        k, w = carve(w, n)
        r, w = carve(w, n)
        maps, w = carve(w, nb * TANGENT_SLOTS)
        J_, w = carve(w, n * n)
        H_, w = carve(w, n * n)
        gather(q_ref, c * LANES, a)
        gather(q, c * LANES, b)
        gather(mu, c * LANES, k)
        difference_configuration(m, a, b, r)
        tangent_maps_inverse(m, r, maps)
        J_[:], H_[:] = 0.0, 0.0
        add_map(m, maps, JACOBIAN_INVERSE, 1.0, J_, 0, n)
        add_log_hessian(m, maps, r, k, 1.0, H_, 0, n)
        scatter_blocks(J_, c * LANES, n, n, 0, J)
        scatter_blocks(H_, c * LANES, n, n, 0, H)


def difference_expansion(model, x_ref: np.ndarray, xs: np.ndarray, mu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Expansion of r = difference(x_ref, x) in the tangent of x at every point of xs.

    r(x (+) d) = r + J d + ...,  mu'r = ... + 1/2 d'H d;  J = Jr(r)^-1, H = -J'Gam(r, J'mu)J on the configuration.

    Parameters: x_ref (nx,) or (K, nx), xs (K, nx), mu (K, 2 nv).  Returns: J, H (K, 2 nv, 2 nv).
    """
    K, n, nq = len(xs), model.nv, model.nq
    q_ref = np.ascontiguousarray(np.broadcast_to(x_ref, (K, nq + n))[:, :nq])
    J, H = np.zeros((K, 2 * n, 2 * n)), np.zeros((K, 2 * n, 2 * n))
    numbers = 2 * nq + 2 * n + len(model.arrays.parent) * TANGENT_SLOTS + 2 * n * n
    q, mu_q = np.ascontiguousarray(xs[:, :nq]), np.ascontiguousarray(mu[:, :n])
    Jq, Hq = np.empty((K, n, n)), np.empty((K, n, n))
    launch(_drive, K, numbers, model.arrays, q_ref, q, mu_q, Jq, Hq)
    J[:, :n, :n], H[:, :n, :n] = Jq, Hq
    J[:, n:, n:] = np.eye(n)
    return J, H
