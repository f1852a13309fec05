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
from dynamics.model.knot_driver import knot_driver, nv
from dynamics.simd import kernel, split
from experiments.derivatives.rnea_chain_rule import SIZE, rnea_chain_rule


@kernel
def forward_chain_rule(m, q, v, tau, t, zeros, a, L, scratch, aq, av, Minv):
    """da/dq, da/dv, da/dtau (n n) for one knot per lane."""
    n = m.parent.size
    body, r = split(scratch, n * BODY)  # the steps share their scratch
    dof, r = split(r, n * DOF)
    art, elim = split(r, n * ARTICULATED)
    aq[:], av[:] = 0.0, 0.0
    forward_dynamics_kernel(m, q, v, tau, zeros, None, body, dof, art, elim, a)
    mass_matrix_kernel(m, q, body, dof, L)
    factorize(m, L)
    invert_factored(m, L, Minv)
    rnea_chain_rule(m, q, v, a, t, scratch, aq, av)
    products_direct(m, Minv, aq, av, scratch)


drive = knot_driver(
    forward_chain_rule,
    "q v tau",
    scratch={
        "zeros": nv, "a": nv, "L": nv * nv, "scratch": (nv * (BODY + DOF + ARTICULATED + ELIMINATION)).at_least(SIZE)
    },
    outputs={"aq": nv * nv, "av": nv * nv, "Minv": nv * nv},
    zeroed="zeros",
)  # fmt: skip
