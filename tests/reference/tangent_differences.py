"""Sixth-order central differences along the tangent of a robot's configuration or state: slow, for tests."""

import numpy as np

from dynamics.algorithms.configuration import integrate

OFFSETS = np.array([-3, -2, -1, 1, 2, 3])
WEIGHTS = np.array([-1, 9, -45, 45, -9, 1]) / 60.0


def state_step(model, x, dx):
    """x (+) dx for states (K, nq + nv) and tangents (K, 2 nv)."""
    q, v = np.split(np.broadcast_to(x, (len(dx), x.shape[-1])), [model.nq], axis=1)
    dq, dv = np.split(dx, 2, axis=1)
    return np.hstack([integrate(model, q, dq), v + dv])


def along_state(model, function, x, h=1e-2):
    """Derivatives of function(xs (K, nx)) -> (K, ...) at x along every entry of dx, which becomes the last axis."""
    n = 2 * model.nv
    steps = h * np.einsum("s,ij->sij", OFFSETS, np.eye(n)).reshape(-1, n)
    values = function(state_step(model, x, steps))
    values = values.reshape(len(OFFSETS), n, *values.shape[1:])
    return np.moveaxis(np.tensordot(WEIGHTS, values, 1) / h, 0, -1)


def along_configuration(model, function, q, h=1e-2):
    """Derivatives of function(qs (K, nq)) -> (K, ...) at q along every entry of dq, which becomes the last axis."""
    x = np.concatenate([q, np.zeros(model.nv)])
    return along_state(model, lambda xs: function(np.ascontiguousarray(xs[:, : model.nq])), x, h)[..., : model.nv]


def in_time(function, h=1e-2):
    """Derivative at zero of function(t (6,)) -> (6, ...)."""
    return np.tensordot(WEIGHTS, function(h * OFFSETS), 1) / h
