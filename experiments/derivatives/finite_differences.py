"""Derivatives by central differences, the fast way here: all perturbed points of all knots are lanes of one call.

    (f(x + h) - f(x - h)) / 2h      h = 2^-17, about cbrt(eps), times the size of what is perturbed

h is a power of two, so that x + h is exact up to rounding: times 1 for a tangent of configurations, times that of v for
velocities.  A function is linear in a or tau, where h = 1 has no truncation error.
"""

from collections.abc import Callable

import numpy as np

import dynamics

STEP = 2.0**-17


def central_differences(model, function: Callable, wanted: str, q, v, u) -> list[dict[str, np.ndarray]]:
    """Per result of function(model, q, v, u) its derivatives (K, ..., nv) by each argument in `wanted`, letters of q, v
    and u.

    Parameters: q (K, nq), v, u (K, nv), or single points, which count as K = 1.
    """
    q, v, u = (np.atleast_2d(np.asarray(x, dtype=float)) for x in (q, v, u))
    K, n = v.shape
    speed = 2.0 ** np.ceil(np.log2(max(1.0, np.abs(v).max(initial=0.0))))
    steps = {"q": STEP, "v": STEP * speed, "u": 1.0}
    moves = np.zeros((3, len(wanted), 2, n, n))
    for i, x in enumerate(wanted):
        moves["qvu".index(x), i] = steps[x] * np.stack([np.eye(n), -np.eye(n)])
    dq, dv, du = (np.tile(x.reshape(-1, n), (K, 1)) for x in moves)
    q, v, u = (np.repeat(x, len(dq) // K, axis=0) for x in (q, v, u))
    q = q + dq if model.is_euclidean else dynamics.integrate(model, q, dq)
    values = [x.reshape(K, len(wanted), 2, n, *x.shape[1:]) for x in function(model, q, v + dv, u + du)]
    return [
        {name: np.moveaxis((x[:, i, 0] - x[:, i, 1]) / (2.0 * steps[name]), 1, -1) for i, name in enumerate(wanted)}
        for x in values
    ]


def inverse_dynamics_derivatives(model, q, v, a) -> tuple[np.ndarray, ...]:
    """dtau_dq, dtau_dv, M (K, nv, nv) from 6 nv evaluations of inverse dynamics."""
    (tau,) = central_differences(model, lambda *x: (dynamics.inverse_dynamics(*x),), "qvu", q, v, a)
    return tau["q"], tau["v"], tau["u"]


def forward_dynamics_derivatives(model, q, v, tau) -> tuple[np.ndarray, ...]:
    """da_dq, da_dv, da_dtau (K, nv, nv) from as many evaluations of forward dynamics."""
    (a,) = central_differences(model, lambda *x: (dynamics.forward_dynamics(*x),), "qvu", q, v, tau)
    return a["q"], a["v"], a["u"]


def inverse_dynamics_second_derivatives(model, q, v, a) -> tuple[np.ndarray, ...]:
    """The four tensors (K, nv, nv, nv) from 4 nv evaluations of the analytical first derivatives."""
    dq, dv, M = central_differences(model, dynamics.inverse_dynamics_derivatives, "qv", q, v, a)
    return dq["q"], dq["v"], dv["v"], M["q"]
