"""FDCR: derivatives of forward dynamics by the chain rule through inverse dynamics and products with M^-1.

    a = FD(q, v, tau),    da/dq = -M^-1 dtau/dq,    da/dv = -M^-1 dtau/dv,    da/dtau = M^-1       [Singh 2022, eq. 5]

with dtau/dq, dtau/dv at (q, v, a) by RNEACR in body coordinates.  Column j of both is zero except on the path to j and
in its subtree, which the products make use of.
"""

from dynamics.algorithms.articulated_body import ARTICULATED, ELIMINATION, forward_dynamics_kernel
from dynamics.algorithms.branch_factor import factorize, invert_factored
from dynamics.algorithms.kinematics import BODY, DOF
from dynamics.algorithms.mass_matrix import mass_matrix_kernel
from dynamics.derivatives.forward_dynamics import ForwardDynamicsDerivatives
from dynamics.kernel_model import kernel_model
from dynamics.simd import LANES, align_stack, carve, driver, gather_state, helper, kernel, load, scatter, store
from dynamics.spatial import add_scaled6
from experiments.derivatives.algorithm import Algorithm
from experiments.derivatives.competitors_common import zero6
from experiments.derivatives.rnea_chain_rule_body import body_numbers, rnea_chain_rule_body


@helper
def _gather6(X, o, r):
    """X[o + r] for six offsets r."""
    return (
        load(X, o + r[0]), load(X, o + r[1]), load(X, o + r[2]), load(X, o + r[3]), load(X, o + r[4]),
        load(X, o + r[5]),
    )  # fmt: skip


@helper
def _scatter6(X, n, r, j, x):
    """X_rj = x for six rows r."""
    store(X, r[0] * n + j, x[0])
    store(X, r[1] * n + j, x[1])
    store(X, r[2] * n + j, x[2])
    store(X, r[3] * n + j, x[3])
    store(X, r[4] * n + j, x[4])
    store(X, r[5] * n + j, x[5])


@kernel
def _products(m, t, X, B, C, XB, XC):
    """XB = -X B, XC = -X C for symmetric X, six rows at a time; B and C are zero between branches.

    Rows past the end are the last one again."""
    align_stack(X)
    n = m.parent.size
    for i in range(0, n, 6):
        r = (i, min(i + 1, n - 1), min(i + 2, n - 1), min(i + 3, n - 1), min(i + 4, n - 1), min(i + 5, n - 1))
        for j in range(n):
            x, y = zero6(X), zero6(X)
            k = m.parent[j]
            while k >= 0:
                row = _gather6(X, k * n, r)
                x, y = add_scaled6(x, -load(B, k * n + j), row), add_scaled6(y, -load(C, k * n + j), row)
                k = m.parent[k]
            for k in range(j, t.last_dof[j]):
                row = _gather6(X, k * n, r)
                x, y = add_scaled6(x, -load(B, k * n + j), row), add_scaled6(y, -load(C, k * n + j), row)
            _scatter6(XB, n, r, j, x)
            _scatter6(XC, n, r, j, y)


@driver
def _drive(first, last, work, block, t, q, v, tau, aq, av, Minv):
    m = kernel_model(block)
    n = m.parent.size
    for c in range(first, last):
        q_, v_, tau_, w = gather_state(q, v, tau, c * LANES, work)
        a, w = carve(w, n)
        zeros, w = carve(w, n)
        dq, w = carve(w, n * n)
        dv, w = carve(w, n * n)
        L, w = carve(w, n * n)
        X, w = carve(w, n * n)
        av_, w = carve(w, n * n)
        body, r = carve(w, n * BODY)  # from here on the three steps share their scratch
        dof, r = carve(r, n * DOF)
        art, elim = carve(r, n * ARTICULATED)
        zeros[:] = 0.0
        forward_dynamics_kernel(m, q_, v_, tau_, zeros, None, body, dof, art, elim, a)
        mass_matrix_kernel(m, q_, body, dof, L)
        factorize(m, L)
        invert_factored(m, L, X)
        rnea_chain_rule_body(m, t, q_, v_, a, w, dq, dv)
        aq_ = L
        _products(m, t, X, dq, dv, aq_, av_)
        scatter(aq_, c * LANES, aq)
        scatter(av_, c * LANES, av)
        scatter(X, c * LANES, Minv)


def _numbers(model, t) -> int:
    n = model.nv
    return n * (5 + 5 * n) + max(n * (BODY + DOF + ARTICULATED + ELIMINATION), body_numbers(t))


forward_chain_rule = Algorithm(_drive, _numbers, ForwardDynamicsDerivatives)
"""Derivatives of forward dynamics with respect to configuration, velocity and torque.       [Singh 2022, FDCR]"""
