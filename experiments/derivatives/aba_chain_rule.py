"""ABACR: derivatives of forward dynamics by the chain rule through the articulated-body algorithm.

All directions at once: three sweeps over the bodies, and in each body a loop over the directions in which something
varies there.                                                                  [Kim 2012, table 6; Singh 2022, table II]
"""

from dynamics.algorithms.batch import empty_matrices, launch, points, square_matrices
from dynamics.derivatives.forward_dynamics import ForwardDynamicsDerivatives
from dynamics.kernel_model import kernel_model
from dynamics.simd import LANES, carve, driver, gather_state, scatter
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
from experiments.derivatives.competitors_common import paths, require_one_axis


@driver
def _drive(first, last, work, block, t, q, v, tau, aq, av, Minv):
    m = kernel_model(block)
    n = m.parent.size
    for c in range(first, last):
        body, w = carve(work, n * BODY_ABA)
        q_, v_, tau_, w = gather_state(q, v, tau, c * LANES, w)
        aq_, w = carve(w, n * n)
        av_, w = carve(w, n * n)
        X, w = carve(w, n * n)
        pairs, w = carve(w, t.pairs * VELOCITIES)
        rates, w = carve(w, t.pairs * 6)
        passed, w = carve(w, t.buffers * t.width * VELOCITIES)
        below, moving = carve(w, n * BELOW)
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


def _numbers(t) -> int:
    n = len(t.depth)
    buffers = t.buffers * (t.width * VELOCITIES + n * ACCELERATIONS)
    return n * (BODY_ABA + BELOW + 3 + 3 * n) + t.pairs * (VELOCITIES + 6) + buffers


def aba_chain_rule(model, q, v, tau) -> ForwardDynamicsDerivatives:
    """Derivatives of forward dynamics with respect to configuration, velocity and torque.      [Singh 2022, ABACR]

    Parameters
    ----------
    model : RigidBodyModel of revolute and prismatic joints
    q : (nq,) or (K, nq);  v, tau : (nv,) or (K, nv)

    Returns
    -------
    ForwardDynamicsDerivatives(da_dq, da_dv, da_dtau), each (nv, nv) or (K, nv, nv)

    Raises
    ------
    ValueError : a joint of another kind, a wrong shape or a non-finite entry; names the joint or the argument.
    """
    require_one_axis(model)
    single, (q, v, tau) = points(model, q, v=v, tau=tau)
    t, (K, n) = paths(model), v.shape
    out = empty_matrices(3, K, n)
    launch(_drive, K, _numbers(t), model.block, t, q, v, tau, *out)
    return ForwardDynamicsDerivatives(*square_matrices(single, out))
