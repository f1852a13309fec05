"""Derivatives of steps by the inertial parameters pi of the bodies, contracted with multipliers, for all bodies at
once.

With Y the regressor, M a + b = Y(q, v, a) pi + ..., so that a change of pi at a given acceleration is a change of the
torques, also with contacts and closed loops, whose forces follow the torques in the same way:

    da/dpi = - (da/dtau) Y(q, v, a)           d(lam'f)/dpi = - (f_tau'lam)' Y                          (Euler steps)

f_tau is the result of `linearize` for the same robot with a torque on every degree of freedom; it also contains the
effect of a floating base and of implicit damping.  Through the stages of RK4 the multipliers go backwards,

    c_i = w_i h lam + h_i F_(i+1)'c_(i+1),  w = 1/6, 1/3, 1/3, 1/6       d(lam'f)/dpi = - sum_i (a_tau'c_i)' Y_i

and at an impact M (v+ - v) = J'L with J v+ = - e J v, so Y is that of M (v+ - v), and da/dtau is P M^-1 with the
projection P = 1 - (1 - dv+/dv)/(1 + e).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dynamics.algorithms.mass_matrix import inverse_mass_matrix
from dynamics.derivatives.regressor import INERTIAL, regressor_product
from dynamics.simd import launch
from dynamics.systems.expansion import drive_linearization, linearization_size
from dynamics.systems.frame_forces import force_map
from dynamics.systems.rollouts import drive_steps, rollout_size
from dynamics.systems.steps import TABLEAUS, FixedDuration, Plant, Tableau, expanded_as

UNIT_STEP = {"method": Tableau(TABLEAUS["explicit_euler"]), "duration": FixedDuration(1.0)}
"""The fields of a plant that takes explicit Euler steps of one second."""
STAGES = (1 / 6, 0.0), (1 / 3, 1.0), (1 / 3, 0.5), (1 / 6, 0.5)
"""Stages of RK4, the last first: its weight, and h_i/h."""


def of_steps(system: Any, xs: np.ndarray, us: np.ndarray, lam: np.ndarray) -> np.ndarray:
    """Gradient (nb, 10) of the steps at xs (N, nx) under us (N, nu), lam (N, ndx), by the parameters of all bodies."""
    (n, m), nq, h = system.full_actuation.B.shape, system.full.nq, us[:, -1:] if system.free_duration else system.dt
    given, xs, lam = xs, system.joint_map.full_x(xs), system.joint_map.full_multipliers(lam)
    if system.integrator == "rk4":
        return _of_stages(system, xs, us, lam)
    if system.euclidean and not (system.in_contact or system.free_duration):
        q, push = np.ascontiguousarray(xs[:, :nq]), lam[:, n:] + (h * lam[:, :n] if system.semi_implicit else 0.0)
        w = h * np.einsum("tij,tj->ti", inverse_mass_matrix(system.plant_model, q), push)
    else:
        driven = np.concatenate([_torques(system, xs, us), us[:, m:]], axis=1)
        _, f_tau = _linearized(system, _driven(system), xs, driven)
        w = np.einsum("tij,ti->tj", f_tau[:, :, :n], lam)
    rate = (system.step(given, us)[:, system.nq :] - given[:, system.nq :]) / h
    return _contracted(system, xs, system.joint_map.full_v(rate), w)


def _torques(system: Any, xs: np.ndarray, us: np.ndarray) -> np.ndarray:
    """Torques (N, nv) of all actuators on the full model, with those on frames at their configuration."""
    B = system.full_actuation.B
    tau = us[:, : B.shape[1]] @ B.T
    if system.frame_actuators is not None:
        tau += (force_map(system.full, xs[:, : system.full.nq]) @ us[:, : B.shape[1], None])[..., 0]
    return tau


def _of_stages(system: Any, xs: np.ndarray, us: np.ndarray, lam: np.ndarray) -> np.ndarray:
    """Gradient (nb, 10) of RK4 steps."""
    if not system.euclidean or system.free_duration:
        raise ValueError(
            'parameter_gradient: got integrator="rk4" with joints of several degrees of freedom or free durations, '
            "expected an Euler integrator"
        )
    n, h, x, stages = system.full.nv, system.dt, xs, []
    for reach in (0.5, 0.5, 1.0, 0.0):
        tau = _torques(system, x, us)
        fx, fu = _linearized(system, _driven(system, **UNIT_STEP), x, tau)
        if system.frame_actuators is not None:  # whose torques change with the configuration
            fx = _linearized(system, system.plant[1]._replace(**UNIT_STEP), x, us)[0]
        rate = _unit_steps(system, x, tau) - x
        stages.append((x, rate[:, n:], fx - np.eye(2 * n), fu[:, n:]))
        x = xs + reach * h * rate
    total, behind = np.zeros((system.model.nb, INERTIAL)), np.zeros_like(lam)
    for (x, a, F, a_tau), (weight, reach) in zip(reversed(stages), STAGES, strict=True):
        c = weight * h * lam + reach * h * behind
        behind = np.einsum("tij,ti->tj", F, c)
        total += _contracted(system, x, a, np.einsum("tij,ti->tj", a_tau, c[:, n:]))
    return total


def _driven(system: Any, **fields: Any) -> Plant:
    """The plant with a torque on every degree of freedom, and these fields in place of its own."""
    return system.plant[1]._replace(B=np.eye(system.full.nv), skip=0, actuators=None, **fields)


def _linearized(system: Any, plant: Plant, xs: np.ndarray, us: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """fx, fu (N, 2 nv, .) of a plant under us, behind which durations are where these are free; of an Euler step."""
    (N, nu), n = us.shape, system.full.nv
    fx, fu = np.empty((N, 2 * n, 2 * n)), np.empty((N, 2 * n, nu))
    kind = expanded_as(plant, system.euclidean)
    size = linearization_size(system.full.arrays, nq=system.full.nq, nu=nu, p=plant, kind=kind)
    launch(drive_linearization, N, size, system.plant[0], plant, kind, xs, us, fx, fu)
    return fx, fu


def _unit_steps(system: Any, xs: np.ndarray, tau: np.ndarray) -> np.ndarray:
    """States (N, nx) after explicit Euler steps of one second."""
    plant, moved = _driven(system, **UNIT_STEP), np.empty_like(xs)
    size = rollout_size(system.full.arrays, nq=system.full.nq, nu=tau.shape[1], p=plant)
    launch(drive_steps, len(xs), size, system.plant[0], plant, xs, tau, moved)
    return moved


def _contracted(system: Any, xs: np.ndarray, a: np.ndarray, w: np.ndarray) -> np.ndarray:
    """- sum_t Y(q_t, v_t, a_t)'w_t (nb, 10)."""
    q, v, a, w = (np.ascontiguousarray(part) for part in (xs[:, : system.full.nq], xs[:, system.full.nq :], a, w))
    return -regressor_product(system.full, q, v, a, w).sum(axis=0)


def of_impacts(impact: Any, xs: np.ndarray, us: np.ndarray, lam: np.ndarray) -> np.ndarray:
    """Gradient (nb, 10) of the velocity jumps at xs (N, nx), lam (N, ndx)."""
    n, nq, enter = impact.nv, impact.nq, impact.joint_map
    jump = np.ascontiguousarray(impact.step(xs, us)[:, nq:] - xs[:, nq:])
    back = impact.linearize(xs, us)[0][:, n:, n:].swapaxes(1, 2)
    y = lam[:, n:, None]
    y = y - (y - back @ y) / (1.0 + impact.restitution)
    q = np.ascontiguousarray(xs[:, :nq])
    w = enter.full_v((inverse_mass_matrix(impact.model, q) @ y)[..., 0])
    q, jump = enter.full_q(q), enter.full_v(jump)
    moved, weight = (regressor_product(impact.full, q, 0.0 * jump, a, w) for a in (jump, 0.0 * jump))
    return (weight - moved).sum(axis=0)
