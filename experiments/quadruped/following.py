"""Rollouts of a quadruped on four feet by elimination: torques as controls, or the base's accelerations.

Following the base needs kinematics alone: with A_l = J^-1 L of `elimination`,

    a_l = -A_l a_b - J^-1 x

and no dynamics.  Torques are an output, all knots in parallel: of those that agree with the accelerations, the least,

    g = ID(q, v, a)          sum_l A_l'(g_l - tau_l) = g_b          tau = A (A'A)^-1 (A'g_l - g_b)

Four feet determine the base's motion only up to internal forces, which the torques are free to choose.
"""

from dynamics.algorithms.inverse_dynamics import torques_of_forces
from dynamics.algorithms.kinematics import FORCE, FORCES, _move_general, _move_revolute, forward_pass
from dynamics.contacts.contact_motion import CONTACT, POINT, at_point, contact_points
from dynamics.contacts.delassus import factorize_delassus, solve_delassus
from dynamics.kernel_model import kernel_model
from dynamics.simd import LANES, align_stack, carve, driver, gather_state, kernel, load, scatter, splat, store
from dynamics.spatial import add6, load3, load6, load9, rotate, rotate_back, scale6, store3, store6
from dynamics.systems.rollouts import feedback
from dynamics.systems.steps import combine, move, scale_into
from experiments.quadruped.elimination import (
    INVERSE,
    LEG,
    add_both_sides,
    base_motion,
    carve_elimination,
    eliminated_dynamics,
    elimination_numbers,
    leg_bodies,
    seen_from,
    store_kinematics,
    store_leg_accelerations,
)


@kernel
def followed_accelerations(m, contacts, q, v, a_base, w):
    """w.a (nv) for given accelerations (6) of the base, by kinematics alone."""
    _move_general(m, 0, q, v, w.zeros, w.body, w.dof, FORCES)
    for i in range(1, m.parent.size):
        _move_revolute(m, i, q, v, w.zeros, w.body, w.dof, FORCES)
    contact_points(m, contacts, w.body, w.points)
    store6(w.a, 0, load6(a_base, 0))
    A = base_motion(w.body, a_base)
    for c in range(contacts.body.size):
        store_kinematics(m, contacts, c, w.dof, w.points, w.legs)
        store_leg_accelerations(m, contacts, c, w.points, w.legs, A, w.a)


@driver
def drive_rollouts(first, last, work, block, contacts, follow, h, x0, xs, us, k, K, alphas, X, U):
    """Closed loops in lanes of step lengths under semi-implicit Euler, as `drive_closed_loops`: torques of the legs as
    controls, or with `follow` the accelerations of the base."""
    m = kernel_model(block)
    n = m.dof_body.size
    nq = x0.size - n
    w, rest = carve_elimination(m, contacts.body.size, work)
    tau, rest = carve(rest, n)
    tau[:] = 0.0
    for c in range(first, last):
        for i in range(x0.size):
            store(X[c, 0], i, splat(rest, x0[i]))
        for t in range(us.shape[0]):
            x, u, x_next = X[c, t], U[c, t], X[c, t + 1]
            feedback(m, True, xs[t], us[t], k[t], K[t], load(alphas, c), None, t, rest, x, u)
            if follow:
                followed_accelerations(m, contacts, x[:nq], x[nq:], u, w)
            else:
                scale_into(n - 6, tau[6:], 1.0, u)
                eliminated_dynamics(m, contacts, x[:nq], x[nq:], tau, w)
            combine(n, x_next[nq:], x[nq:], h, w.a)
            scale_into(n, rest, h, x_next[nq:])
            move(m, True, x[:nq], rest, x_next[:nq])


def rollout_numbers(model, contacts) -> int:
    """Scratch numbers per lane of `drive_rollouts`."""
    return elimination_numbers(model, contacts) + model.nq + 4 * model.nv


# ------------------------------------------------------------------------------------------------ torques
@kernel
def least_torques(m, contacts, q, v, a, w):
    """The least torques of the legs (3 L) into w.f, and what they leave, ID(q, v, a), in w.a."""
    align_stack(w.S)
    forward_pass(m, q, v, a, w.body, w.dof, FORCES)
    contact_points(m, contacts, w.body, w.points)
    torques_of_forces(m, a, w.body, w.dof, w.a)
    w.S[:] = 0.0
    right = scale6(load6(w.body, FORCE), -1.0)
    for c in range(contacts.body.size):
        store_kinematics(m, contacts, c, w.dof, w.points, w.legs)
        J, p = load9(w.legs, c * LEG + INVERSE), load3(w.points, c * CONTACT + POINT)
        g = load3(w.a, m.v_index[leg_bodies(m, contacts, c)[0]])
        right = add6(right, seen_from(p, rotate_back(J, g)))
        add_both_sides(
            w.S, p,
            scale6(seen_from(p, rotate_back(J, (J[0], J[3], J[6]))), 0.5),
            scale6(seen_from(p, rotate_back(J, (J[1], J[4], J[7]))), 0.5),
            scale6(seen_from(p, rotate_back(J, (J[2], J[5], J[8]))), 0.5),
        )  # fmt: skip
    store6(w.base, 0, right)
    factorize_delassus(6, w.S, w.diagonal, w.report)
    solve_delassus(6, w.S, w.base)
    for c in range(contacts.body.size):
        J, p = load9(w.legs, c * LEG + INVERSE), load3(w.points, c * CONTACT + POINT)
        store3(w.f, 3 * c, rotate(J, at_point(load6(w.base, 0), p)))


@driver
def drive_torques(first, last, work, block, contacts, q, v, a, tau):
    """tau (K, 3 L) of `least_torques` in lanes of knots."""
    m = kernel_model(block)
    w, rest = carve_elimination(m, contacts.body.size, work)
    for c in range(first, last):
        q_, v_, a_, _ = gather_state(q, v, a, c * LANES, rest)
        least_torques(m, contacts, q_, v_, a_, w)
        scatter(w.f, c * LANES, tau)
