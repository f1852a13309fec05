"""RNEACR and FDCR: derivatives of inverse dynamics by the chain rule through the recursive Newton-Euler algorithm,
of forward dynamics by the chain rule through these.

The competitor of IDSVA in the papers, with the same lanes, the same ground frame and the same use of the tree, so that
what is left of the difference is the algorithm's.  After the algorithm's own sweep outwards one sweep outwards and one
inwards, all directions p = q_j and qd_j at once.  Everything at and below joint j moves with S_j as q_j changes; there
d is what remains beside this motion.  With V, A of the parent of body i and V_j, A_j of the parent of joint j,

    p = q_j    dV_i = V_j x S_j             dA_i = dA + dV_i x S qd_i,      and  A x S + dV_i x S qd_i  for j = i
    p = qd_j   dV_i = S_j                   dA_i = dA + S_j x S qd_i,       and  V x S                  for j = i

    dF_i = I dA_i + d(V_i x* I V_i) + sum over children k of dF_k, with S_k x* F_k besides for q_k
    dtau_i = S . dF_i

and with dtau/dq, dtau/dv at (q, v, a), a = FD(q, v, tau), by products with M^-1, which are the library's,

    da/dq = -M^-1 dtau/dq,    da/dv = -M^-1 dtau/dv,    da/dtau = M^-1                       [Singh 2022, eq. 5]

V and A vary only for joints at or above the body; F for those below it too.  [Kim 2012, table 5; Singh 2022, table II]
"""

from dynamics.algorithms.articulated_body import ARTICULATED, ELIMINATION, forward_dynamics_kernel
from dynamics.algorithms.branch_factor import factorize, invert_factored
from dynamics.algorithms.inverse_mass import products_direct
from dynamics.algorithms.kinematics import ACCELERATION, BODY, COLUMN, DOF, FORCE, FORCES, PSI, VELOCITY, forward_pass
from dynamics.algorithms.mass_matrix import mass_matrix_kernel
from dynamics.model.knot_driver import knot_driver, nb, nv
from dynamics.simd import align_stack, kernel, load, store
from dynamics.spatial.spatial import (
    accumulate,
    add6,
    add_cross_force,
    add_cross_motion,
    cross_motion,
    dot6,
    load6,
    scale6,
    store6,
)
from experiments.derivatives.chain_rule import buffers, force_variation, gyroscopic_body, pairs, pass_up, width, zero6

# variations with q_j and with qd_j: of the acceleration, per pair (body, joint on its path), and of forces
A_Q, A_V, F_Q, F_V = 0, 6, 0, 6
MOTION = VARIATION = 12


@kernel
def _outwards(m, t, i, v, body, dof, motion):
    """Variations of the acceleration of body i with the joints at and above; psi = V x S of its own."""
    align_stack(body)
    parent, g = m.parent[i], m.gravity
    S = load6(dof, i * DOF + COLUMN)
    rate, V = scale6(S, load(v, i)), zero6(body)
    A = (V[0], V[1], V[2], V[3] - g[0], V[4] - g[1], V[5] - g[2])
    above = 0
    if parent >= 0:
        V, A = load6(body, parent * BODY + VELOCITY), load6(body, parent * BODY + ACCELERATION)
        above = t.first_pair[parent]
    psi = cross_motion(V, S)
    store6(dof, i * DOF + PSI, psi)
    level = t.depth[i] - 1
    o = (t.first_pair[i] + level) * MOTION
    store6(motion, o + A_Q, add_cross_motion(cross_motion(A, S), psi, rate))
    store6(motion, o + A_V, psi)
    j = parent
    while j >= 0:
        level -= 1
        o, e = (t.first_pair[i] + level) * MOTION, (above + level) * MOTION
        store6(motion, o + A_Q, add_cross_motion(load6(motion, e + A_Q), load6(dof, j * DOF + PSI), rate))
        store6(motion, o + A_V, add_cross_motion(load6(motion, e + A_V), load6(dof, j * DOF + COLUMN), rate))
        j = m.parent[j]


@kernel
def _inwards(m, t, i, body, dof, motion, passed, below, dq, dv):
    """Row i of both matrices, and the force variations that go on to the parent.

    passed: per level, what the children of a body have left for it; below (n VARIATION): of the directions below."""
    align_stack(body)
    n, parent = m.parent.size, m.parent[i]
    S, force, single = load6(dof, i * DOF + COLUMN), load6(body, i * BODY + FORCE), gyroscopic_body(m, i, body)
    inner, last = m.subtree_end[i] > i + 1, m.last_child[i] != 0
    own = t.slot[i] * t.width * VARIATION
    up = (t.slot[parent] if parent >= 0 else 0) * t.width * VARIATION
    level = t.depth[i] - 1
    j = i
    while j >= 0:
        e, o = (t.first_pair[i] + level) * MOTION, level * VARIATION
        f_q = force_variation(single, load6(dof, j * DOF + PSI), load6(motion, e + A_Q))
        f_v = force_variation(single, load6(dof, j * DOF + COLUMN), load6(motion, e + A_V))
        if inner:
            f_q, f_v = add6(f_q, load6(passed, own + o + F_Q)), add6(f_v, load6(passed, own + o + F_V))
        store(dq, i * n + j, dot6(S, f_q))
        store(dv, i * n + j, dot6(S, f_v))
        if j == i:
            store6(below, j * VARIATION + F_Q, add_cross_force(f_q, S, force))
            store6(below, j * VARIATION + F_V, f_v)
        else:
            pass_up(passed, up + o + F_Q, f_q, last)
            pass_up(passed, up + o + F_V, f_v, last)
        level -= 1
        j = m.parent[j]
    for j in range(i + 1, m.subtree_end[i]):
        store(dq, i * n + j, dot6(S, load6(below, j * VARIATION + F_Q)))
        store(dv, i * n + j, dot6(S, load6(below, j * VARIATION + F_V)))
    if parent >= 0:
        accumulate(body, parent * BODY + FORCE, i * BODY + FORCE, 6)


@kernel
def rnea_chain_rule(m, q, v, a, t, body, dof, motion, passed, below, dq, dv):
    """dtau/dq, dtau/dv (n n) for one knot per lane; entries between branches are not written."""
    forward_pass(m, q, v, a, body, dof, FORCES)
    for i in range(m.parent.size):
        _outwards(m, t, i, v, body, dof, motion)
    for i in range(m.parent.size - 1, -1, -1):
        _inwards(m, t, i, body, dof, motion, passed, below, dq, dv)


SCRATCH = {
    "body": nb * BODY, "dof": nv * DOF, "motion": pairs * MOTION, "passed": buffers * width * VARIATION,
    "below": nv * VARIATION,
}  # fmt: skip
drive = knot_driver(rnea_chain_rule, "q v a", SCRATCH, outputs={"dq": nv * nv, "dv": nv * nv}, zeroed="dq dv")


# ------------------------------------------------------------------------------------------------ forward dynamics
@kernel
def forward_chain_rule(m, q, v, tau, t, zeros, a, L, art, elim, body, dof, motion, passed, below, aq, av, Minv):
    """da/dq, da/dv, da/dtau (n n) for one knot per lane."""
    aq[:], av[:] = 0.0, 0.0
    forward_dynamics_kernel(m, q, v, tau, zeros, None, body, dof, art, elim, a)
    mass_matrix_kernel(m, q, body, dof, L)
    factorize(m, L)
    invert_factored(m, L, Minv)
    rnea_chain_rule(m, q, v, a, t, body, dof, motion, passed, below, aq, av)
    products_direct(m, Minv, aq, av, art)


drive_forward = knot_driver(
    forward_chain_rule,
    "q v tau",
    scratch={"zeros": nv, "a": nv, "L": nv * nv, "art": nv * ARTICULATED, "elim": nv * ELIMINATION, **SCRATCH},
    outputs={"aq": nv * nv, "av": nv * nv, "Minv": nv * nv},
    zeroed="zeros",
)
