"""Rollouts of a quadruped on four feet whose controls are the base's accelerations.

Following the base needs kinematics alone: with P and r of `dynamics.contacts.elimination`,

    a_l = -(P a_b + r)

and no dynamics.  Torques are an output, all knots in parallel: of those that agree with the accelerations, the least,

    g = ID(q, v, a)          sum_l P'(g_l - tau_l) = g_b          tau = P (P'P)^-1 (P'g_l - g_b)

Four feet determine the base's motion only up to internal forces, which the torques are free to choose.
"""

from dynamics.algorithms.inverse_dynamics import torques_of_forces
from dynamics.algorithms.kinematics import (
    FORCE,
    FORCES,
    POSITION,
    ROTATION,
    _move_general,
    _move_revolute,
    forward_pass,
)
from dynamics.contacts.contact_motion import contact_points
from dynamics.contacts.dynamics import carve_workspace, factorize_delassus, solve_delassus, workspace_numbers
from dynamics.contacts.elimination import (
    carve_elimination,
    combined,
    eliminated_dynamics_kernel,
    elimination_numbers,
    held_leg,
    leg_columns,
    leg_rows,
    store_leg,
    store_leg_accelerations,
    subtract_both_sides,
    times_rows,
)
from dynamics.model.kernel_model import kernel_model
from dynamics.simd import (
    LANES,
    align_stack,
    by_reference,
    carve,
    driver,
    gather_state,
    helper,
    kernel,
    load,
    scatter,
    span,
)
from dynamics.simd.lane_algebra import combine, scale_into
from dynamics.spatial.spatial import add6, add_cross, join, load3, load6, load9, rotate, scale6, store3, store6
from dynamics.systems.rollouts import feedback, start_lanes
from dynamics.systems.steps import move


@helper
def base_motion(body, a):
    """The spatial acceleration in the world of the base's six accelerations (linear; angular, its own axes)."""
    R, p = load9(body, ROTATION), load3(body, POSITION)
    turn = rotate(R, load3(a, 3))
    return join(turn, add_cross(rotate(R, load3(a, 0)), p, turn))


@kernel
def place_legs(m, legs, w, e):
    """P and r of all legs into e.legs, after `contact_points`."""
    for l in range(legs.foot.size):
        P, r, _ = held_leg(m, legs.contacts, legs.contact[l], leg_columns(m, legs.foot[l], w.dof), w.points)
        store_leg(e, l, P, r)


@kernel
def followed_accelerations(m, legs, q, v, a_base, w, e, a):
    """a (nv) for given accelerations (6) of the base, by kinematics alone."""
    _move_general(m, 0, q, v, w.zeros, w.body, w.dof, FORCES)
    for i in range(1, m.parent.size):
        _move_revolute(m, i, q, v, w.zeros, w.body, w.dof, FORCES)
    contact_points(m, legs.contacts, w.body, w.points)
    place_legs(m, legs, w, e)
    store6(a, 0, load6(a_base, 0))
    A = base_motion(w.body, a_base)
    for l in range(legs.foot.size):
        store_leg_accelerations(m, legs, l, e, A, a)


@kernel
def carve_legs(m, legs, work):
    """The blocks w and e of `eliminated_dynamics_kernel`, accelerations (nv), and the rest."""
    w, rest = carve_workspace(m, legs.contacts, work)
    e, rest = carve_elimination(m, legs, rest)
    a, rest = carve(rest, m.dof_body.size)
    return w, e, a, rest


@driver
def drive_accelerations(first, last, work, block, legs, q, v, tau):
    """Accelerations by elimination in lanes of knots, left there."""
    m = kernel_model(block)
    w, e, a, rest = carve_legs(m, legs, work)
    for c in range(first, last):
        q_, v_, tau_, _ = gather_state(q, v, tau, c * LANES, rest)
        eliminated_dynamics_kernel(m, legs, q_, v_, tau_, w, e, a)


@driver
def drive_following(first, last, work, block, legs, h, loops, X, U):
    """Closed loops in lanes of step lengths under semi-implicit Euler, as `drive_closed_loops`, with the accelerations
    of the base as controls."""
    m, loops = kernel_model(block), by_reference(loops)
    n = m.dof_body.size
    nq = loops.x0.size - n
    w, e, a, rest = carve_legs(m, legs, work)
    for c in range(first, last):
        start_lanes(m, True, loops, load(loops.alphas, c), rest, span(X[c, 0]))
        for t in range(U.shape[1]):
            x, u, x_next = span(X[c, t]), span(U[c, t]), span(X[c, t + 1])
            feedback(m, True, loops, t, c, rest, x, u, X, U)
            followed_accelerations(m, legs, x[:nq], x[nq:], u, w, e, a)
            combine(n, x_next[nq:], x[nq:], h, a)
            scale_into(n, rest, h, x_next[nq:])
            move(m, True, x[:nq], rest, x_next[:nq])


def following_numbers(model, contacts, legs) -> int:
    """Scratch numbers per lane of the drivers here."""
    blocks = workspace_numbers(model.arrays, contacts.arrays) + elimination_numbers(model.arrays, legs)
    return blocks + model.nq + 4 * model.nv


# ------------------------------------------------------------------------------------------------ torques
@kernel
def least_torques(m, legs, q, v, a, w, e, g):
    """The least torques of the legs into the last entries of g (nv); those of the base are what they leave to do."""
    align_stack(e.S)
    forward_pass(m, q, v, a, w.body, w.dof, FORCES)
    contact_points(m, legs.contacts, w.body, w.points)
    torques_of_forces(m, a, w.body, w.dof, g)
    place_legs(m, legs, w, e)
    e.S[:] = 0.0
    right = scale6(load6(w.body, FORCE), -1.0)
    for l in range(legs.foot.size):
        P = leg_rows(e, l)
        right = add6(right, combined(P, load3(g, m.v_index[legs.foot[l]] - 2)))
        subtract_both_sides(e.S, (scale6(P[0], -0.5), scale6(P[1], -0.5), scale6(P[2], -0.5)), P)
    store6(e.base, 0, right)
    factorize_delassus(e.base.shape[0], e.S, e.diagonal, e.report)
    solve_delassus(e.base.shape[0], e.S, e.base)
    for l in range(legs.foot.size):
        store3(g, m.v_index[legs.foot[l]] - 2, times_rows(leg_rows(e, l), load6(e.base, 0)))


@driver
def drive_torques(first, last, work, block, legs, q, v, a, tau):
    """tau (K, 3 L) of `least_torques` in lanes of knots."""
    m = kernel_model(block)
    w, e, g, rest = carve_legs(m, legs, work)
    for c in range(first, last):
        q_, v_, a_, _ = gather_state(q, v, a, c * LANES, rest)
        least_torques(m, legs, q_, v_, a_, w, e, g)
        scatter(g[6:], c * LANES, tau)
