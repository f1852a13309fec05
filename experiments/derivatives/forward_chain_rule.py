"""FDCR: derivatives of forward dynamics by the chain rule through inverse dynamics and products with M^-1.

    a = FD(q, v, tau),    da/dq = -M^-1 dtau/dq,    da/dv = -M^-1 dtau/dv,    da/dtau = M^-1       [Singh 2022, eq. 5]

with dtau/dq, dtau/dv at (q, v, a) by RNEACR in body coordinates.  Column j of both is zero except on the path to j and
in its subtree, which the products, the library's by M^-1, make use of.
"""

from dynamics.algorithms.articulated_body import ARTICULATED, ELIMINATION, forward_dynamics_kernel
from dynamics.algorithms.branch_factor import factorize, invert_factored
from dynamics.algorithms.inverse_mass import products_direct
from dynamics.algorithms.kinematics import BODY, DOF
from dynamics.algorithms.mass_matrix import mass_matrix_kernel
from dynamics.derivatives.forward_dynamics import ForwardDynamicsDerivatives
from dynamics.model.kernel_model import kernel_model
from dynamics.simd import LANES, driver, gather_state, scatter, split
from experiments.derivatives.algorithm import Algorithm
from experiments.derivatives.rnea_chain_rule_body import body_size, rnea_chain_rule_body


@driver
def _drive(first, last, work, block, t, q, v, tau, aq, av, Minv):
    m = kernel_model(block)
    n = m.parent.size
    for c in range(first, last):
        q_, v_, tau_, w = gather_state(q, v, tau, c * LANES, work)
        a, w = split(w, n)
        zeros, w = split(w, n)
        aq_, w = split(w, n * n)
        av_, w = split(w, n * n)
        L, w = split(w, n * n)
        X, w = split(w, n * n)
        body, r = split(w, n * BODY)  # from here on the steps share their scratch
        dof, r = split(r, n * DOF)
        art, elim = split(r, n * ARTICULATED)
        zeros[:] = 0.0
        aq_[:], av_[:] = 0.0, 0.0
        forward_dynamics_kernel(m, q_, v_, tau_, zeros, None, body, dof, art, elim, a)
        mass_matrix_kernel(m, q_, body, dof, L)
        factorize(m, L)
        invert_factored(m, L, X)
        rnea_chain_rule_body(m, t, q_, v_, a, w, aq_, av_)
        products_direct(m, X, aq_, av_, w)
        scatter(aq_, c * LANES, aq)
        scatter(av_, c * LANES, av)
        scatter(X, c * LANES, Minv)


def _numbers(model, t) -> int:
    n = model.nv
    return n * (5 + 4 * n) + max(n * (BODY + DOF + ARTICULATED + ELIMINATION), body_size(t))


forward_chain_rule = Algorithm(_drive, _numbers, ForwardDynamicsDerivatives)
"""Derivatives of forward dynamics with respect to configuration, velocity and torque.       [Singh 2022, FDCR]"""
