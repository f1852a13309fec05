"""ABACR: derivatives of forward dynamics by the chain rule through the articulated-body algorithm.

All directions at once: three sweeps over the bodies, and in each body a loop over the directions in which something
varies there.                                                                  [Kim 2012, table 6; Singh 2022, table II]
"""

from dynamics.derivatives.forward_dynamics import ForwardDynamicsDerivatives
from dynamics.model.kernel_model import kernel_model
from dynamics.simd import LANES, driver, gather_state, scatter, split
from experiments.derivatives.aba_chain_rule_sweeps import (
    ACCELERATIONS,
    BELOW,
    BODY_ABA,
    VELOCITIES,
    acceleration_sweep,
    eliminate,
    vary_above,
    vary_below,
    velocity_sweep,
)
from experiments.derivatives.algorithm import Algorithm


@driver
def _drive(first, last, work, block, t, q, v, tau, aq, av, Minv):
    m = kernel_model(block)
    n = m.parent.size
    for c in range(first, last):
        body, w = split(work, n * BODY_ABA)
        q_, v_, tau_, w = gather_state(q, v, tau, c * LANES, w)
        aq_, w = split(w, n * n)
        av_, w = split(w, n * n)
        X, w = split(w, n * n)
        pairs, w = split(w, t.pairs * VELOCITIES)
        rates, w = split(w, t.pairs * 6)
        passed, w = split(w, t.buffers * t.width * VELOCITIES)
        below, moving = split(w, n * BELOW)
        aq_[:], av_[:], X[:] = 0.0, 0.0, 0.0
        for i in range(n):
            velocity_sweep(m, t, i, q_, v_, body, pairs)
        for i in range(n - 1, -1, -1):
            eliminate(m, i, v_, tau_, body, below)
            vary_above(m, t, i, v_, body, pairs, passed, below, aq_, av_, X)
            vary_below(m, t, i, v_, body, below, rates, aq_, av_, X)
        for i in range(n):
            acceleration_sweep(m, t, i, v_, body, pairs, rates, moving, aq_, av_, X)
        scatter(aq_, c * LANES, aq)
        scatter(av_, c * LANES, av)
        scatter(X, c * LANES, Minv)


def _numbers(model, t) -> int:
    n = model.nv
    buffers = t.buffers * (t.width * VELOCITIES + n * ACCELERATIONS)
    return n * (BODY_ABA + BELOW + 3 + 3 * n) + t.pairs * (VELOCITIES + 6) + buffers


aba_chain_rule = Algorithm(_drive, _numbers, ForwardDynamicsDerivatives)
"""Derivatives of forward dynamics with respect to configuration, velocity and torque.      [Singh 2022, ABACR]"""
