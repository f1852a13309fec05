"""Accelerations of a robot whose legs all stand, by eliminating their joints leg by leg.

A leg of three joints that holds its foot moves as the base says.  In world axes, with A_b the base's spatial
acceleration, L s = u + w x p the linear part at the foot p of a motion s = (w, u), J the leg's three columns there and
x = a_c + kd v_c + kp (p - reference) at a = 0,

    J a_l + L A_b + x = 0           a_l = -J^-1 (L A_b + x)

With F (6, 3) the joints' columns of composite momentum I^C s, so that F is their block of the mass matrix against the
base, M_l their own 3 x 3 block, and what bias forces leave of the torques, tau - bias,

    K = F J^-1      Lambda = J^-T M_l J^-1      B = K - L' Lambda      w = J^-T (tau - bias) + Lambda x
    (I_total - sum_l (K L + L' B')) A_b = (tau - bias)_base + sum_l (K x - L' w)               f_l = B' A_b - w

The 6 x 6 matrix S is symmetric, the inertia of the base with its legs' joints held by the ground:  K L + L' B' =
G L + L' G' with G = K - L' Lambda / 2.  Neither M^-1 nor J M^-1 J' is formed.

Kernels are for robots of a free-flying base without armature and of legs of three joints of one degree of freedom each,
all of them in `contacts`, points of no damping.
"""

from typing import NamedTuple

import numpy as np

from dynamics.algorithms.kinematics import (
    BODY,
    COLUMN,
    DOF,
    FORCE,
    FORCES,
    INERTIA,
    MOMENT,
    POSITION,
    ROTATION,
    forward_pass,
)
from dynamics.contacts.contact_motion import CONTACT, POINT, at_point, constraint, contact_points
from dynamics.contacts.delassus import factorize_delassus, solve_delassus
from dynamics.kernel_model import kernel_model
from dynamics.simd import LANES, align_stack, carve, driver, gather_state, helper, kernel, load, scatter, splat, store
from dynamics.spatial import (
    accumulate,
    add3,
    add6,
    add_cross,
    add_rotated,
    add_scaled3,
    add_scaled6,
    angular,
    cross,
    dot3,
    dot6,
    inertia_times,
    join,
    linear,
    load3,
    load6,
    load9,
    multiply,
    rotate,
    rotate_back,
    scale3,
    scale6,
    store3,
    store6,
    store9,
    sub6,
)

INVERSE, DRIFT, BASE_COLUMNS, LOAD = 0, 9, 12, 30
LEG = 33
"""Numbers kept per leg: J^-1, x, the columns of B, and w."""


class Elimination(NamedTuple):
    """Lanes of the elimination, L legs."""

    body: np.ndarray  # (nb BODY)
    dof: np.ndarray  # (nv DOF)
    points: np.ndarray  # (L CONTACT)
    legs: np.ndarray  # (L LEG)
    zeros: np.ndarray  # (nv)
    S: np.ndarray  # (6 6)
    diagonal: np.ndarray  # (6)
    report: np.ndarray  # (2)
    base: np.ndarray  # (6)
    a: np.ndarray  # (nv)
    f: np.ndarray  # (3 L)


def elimination_numbers(model, contacts) -> int:
    """Scratch numbers per lane of `carve_elimination`."""
    return model.nb * BODY + model.nv * (DOF + 2) + len(contacts) * (CONTACT + LEG + 3) + 50


@kernel
def carve_elimination(m, legs, work):
    """An `Elimination` at the front of `work`, and the rest."""
    nb, n = m.parent.size, m.dof_body.size
    body, w = carve(work, nb * BODY)
    dof, w = carve(w, n * DOF)
    points, w = carve(w, legs * CONTACT)
    numbers, w = carve(w, legs * LEG)
    zeros, w = carve(w, n)
    S, w = carve(w, 36)
    diagonal, w = carve(w, 6)
    report, w = carve(w, 2)
    base, w = carve(w, 6)
    a, w = carve(w, n)
    f, w = carve(w, 3 * legs)
    zeros[:] = 0.0
    return Elimination(body, dof, points, numbers, zeros, S, diagonal, report, base, a, f), w


# ------------------------------------------------------------------------------------------------ three and six numbers
@helper
def seen_from(p, f):
    """L'f: the wrench of a force f at p about the world's origin."""
    return join(cross(p, f), f)


@helper
def inverse(a, b, c):
    """Inverse, row-major, of the matrix with columns a, b, c."""
    x = cross(b, c)
    s = 1.0 / dot3(a, x)
    x, y, z = scale3(x, s), scale3(cross(c, a), s), scale3(cross(a, b), s)
    return (x[0], x[1], x[2], y[0], y[1], y[2], z[0], z[1], z[2])


@helper
def combined(columns, x, y, z):
    """x, y, z times three columns of six numbers."""
    return add_scaled6(add_scaled6(scale6(columns[0], x), y, columns[1]), z, columns[2])


@helper
def transposed(R):
    return (R[0], R[3], R[6], R[1], R[4], R[7], R[2], R[5], R[8])


@helper
def add_row(S, o, x):
    """Three entries of S from o on += x."""
    store3(S, o, add3(load3(S, o), x))


@helper
def add_symmetrized(S, o, X):
    """S += X + X' for the rows of X (3 3), in the lower triangle of a diagonal block of S (6 6) that begins at o."""
    store(S, o, load(S, o) + (X[0][0] + X[0][0]))
    store(S, o + 6, load(S, o + 6) + (X[1][0] + X[0][1]))
    store(S, o + 7, load(S, o + 7) + (X[1][1] + X[1][1]))
    add_row(S, o + 12, (X[2][0] + X[0][2], X[2][1] + X[1][2], X[2][2] + X[2][2]))


@kernel
def add_both_sides(S, p, g0, g1, g2):
    """S += G L + L'G' for the columns of G, in the lower triangle of S (6 6)."""
    align_stack(S)
    upper = ((g0[0], g1[0], g2[0]), (g0[1], g1[1], g2[1]), (g0[2], g1[2], g2[2]))
    lower = ((g0[3], g1[3], g2[3]), (g0[4], g1[4], g2[4]), (g0[5], g1[5], g2[5]))
    add_symmetrized(S, 0, (cross(p, upper[0]), cross(p, upper[1]), cross(p, upper[2])))
    add_symmetrized(S, 21, lower)
    add_row(S, 18, add_cross(angular(g0), p, lower[0]))
    add_row(S, 24, add_cross(angular(g1), p, lower[1]))
    add_row(S, 30, add_cross(angular(g2), p, lower[2]))


# ------------------------------------------------------------------------------------------------ a leg
@helper
def leg_bodies(m, contacts, c):
    """Bodies of leg c from the base outwards."""
    i = contacts.body[c]
    return m.parent[m.parent[i]], m.parent[i], i


@helper
def leg_columns(m, bodies, dof):
    """World columns of the leg's joints."""
    i, j, k = bodies
    return (
        load6(dof, m.v_index[i] * DOF + COLUMN),
        load6(dof, m.v_index[j] * DOF + COLUMN),
        load6(dof, m.v_index[k] * DOF + COLUMN),
    )


@helper
def store_kinematics(m, contacts, c, dof, points, legs):
    """J^-1 and x of leg c."""
    s, p = leg_columns(m, leg_bodies(m, contacts, c), dof), load3(points, c * CONTACT + POINT)
    store9(legs, c * LEG + INVERSE, inverse(at_point(s[0], p), at_point(s[1], p), at_point(s[2], p)))
    store3(legs, c * LEG + DRIFT, constraint(m, contacts, c, points))


@helper
def composite_column(m, i, s, tau, body):
    """I^C s of body i, with the joint's torque less its bias force, and the composite passed on to the parent."""
    b = i * BODY
    F = inertia_times(m.subtree_mass[i], load3(body, b + MOMENT), load6(body, b + INERTIA), s)
    left = load(tau, m.v_index[i]) - dot6(s, load6(body, b + FORCE))
    accumulate(body, m.parent[i] * BODY + MOMENT, b + MOMENT, 9)
    accumulate(body, m.parent[i] * BODY + FORCE, b + FORCE, 6)
    return F, left


@helper
def leg_inertia(m, bodies, s, F):
    """M_l, row-major."""
    i, j, k = bodies
    a, b, c = m.armature[m.v_index[i]], m.armature[m.v_index[j]], m.armature[m.v_index[k]]
    x, y, z = dot6(F[1], s[0]), dot6(F[2], s[0]), dot6(F[2], s[1])
    return (dot6(F[0], s[0]) + a, x, y, x, dot6(F[1], s[1]) + b, z, y, z, dot6(F[2], s[2]) + c)


@kernel
def eliminate_leg(m, contacts, c, tau, w):
    """What leg c leaves in w.legs, and its parts of S and of the right side in w.S and w.base."""
    align_stack(w.S)
    bodies, p, o = leg_bodies(m, contacts, c), load3(w.points, c * CONTACT + POINT), c * LEG
    store_kinematics(m, contacts, c, w.dof, w.points, w.legs)
    s = leg_columns(m, bodies, w.dof)
    F2, t2 = composite_column(m, bodies[2], s[2], tau, w.body)
    F1, t1 = composite_column(m, bodies[1], s[1], tau, w.body)
    F0, t0 = composite_column(m, bodies[0], s[0], tau, w.body)
    F = (F0, F1, F2)
    J, x = load9(w.legs, o + INVERSE), load3(w.legs, o + DRIFT)
    Y = multiply(transposed(J), multiply(leg_inertia(m, bodies, s, F), J))
    K0, K1, K2 = combined(F, J[0], J[3], J[6]), combined(F, J[1], J[4], J[7]), combined(F, J[2], J[5], J[8])
    Y0, Y1, Y2 = seen_from(p, (Y[0], Y[3], Y[6])), seen_from(p, (Y[1], Y[4], Y[7])), seen_from(p, (Y[2], Y[5], Y[8]))
    force = add_rotated(rotate_back(J, (t0, t1, t2)), Y, x)
    store6(w.legs, o + BASE_COLUMNS, sub6(K0, Y0))
    store6(w.legs, o + BASE_COLUMNS + 6, sub6(K1, Y1))
    store6(w.legs, o + BASE_COLUMNS + 12, sub6(K2, Y2))
    store3(w.legs, o + LOAD, force)
    right = sub6(combined((K0, K1, K2), x[0], x[1], x[2]), seen_from(p, force))
    store6(w.base, 0, add6(load6(w.base, 0), right))
    add_both_sides(w.S, p, sub6(scale6(Y0, 0.5), K0), sub6(scale6(Y1, 0.5), K1), sub6(scale6(Y2, 0.5), K2))


# ------------------------------------------------------------------------------------------------ the base
@kernel
def add_total_inertia(m, body, S):
    """S += I_total, in the lower triangle of S (6 6), after all legs have passed on their composites."""
    h, I, mass = load3(body, MOMENT), load6(body, INERTIA), m.subtree_mass[0]
    store(S, 0, load(S, 0) + I[0])
    store(S, 6, load(S, 6) + I[1])
    store(S, 7, load(S, 7) + I[3])
    zero = splat(S, 0.0)
    add_row(S, 12, (I[2], I[4], I[5]))
    add_row(S, 18, (zero, h[2], -h[1]))
    add_row(S, 24, (-h[2], zero, h[0]))
    add_row(S, 30, (h[1], -h[0], zero))
    for k in range(21, 36, 7):
        store(S, k, load(S, k) + mass)


@helper
def base_wrench(tau, body):
    """Force and moment of the base's torques tau (nv) about the world's origin."""
    R, p = load9(body, ROTATION), load3(body, POSITION)
    f = rotate(R, load3(tau, 0))
    return join(add_cross(rotate(R, load3(tau, 3)), p, f), f)


@helper
def store_base_motion(body, A, a):
    """The base's six accelerations (linear; angular, its own axes) of its spatial acceleration A in the world."""
    R, p = load9(body, ROTATION), load3(body, POSITION)
    store3(a, 0, rotate_back(R, add_cross(linear(A), angular(A), p)))
    store3(a, 3, rotate_back(R, angular(A)))


@helper
def base_motion(body, a):
    """The spatial acceleration in the world of the base's six accelerations: the inverse of `store_base_motion`."""
    R, p = load9(body, ROTATION), load3(body, POSITION)
    turn = rotate(R, load3(a, 3))
    return join(turn, add_cross(rotate(R, load3(a, 0)), p, turn))


@helper
def store_leg_accelerations(m, contacts, c, points, legs, A, a):
    """a_l = -J^-1 (L A_b + x) into a (nv)."""
    i, o = m.v_index[leg_bodies(m, contacts, c)[0]], c * LEG
    y = add3(at_point(A, load3(points, c * CONTACT + POINT)), load3(legs, o + DRIFT))
    store3(a, i, rotate(load9(legs, o + INVERSE), scale3(y, -1.0)))


@kernel
def eliminated_dynamics(m, contacts, q, v, tau, w):
    """a and f, world axes, as `contact_dynamics_kernel` gives them, for one knot per lane."""
    align_stack(w.S)
    forward_pass(m, q, v, w.zeros, w.body, w.dof, FORCES)
    contact_points(m, contacts, w.body, w.points)
    w.S[:], w.base[:] = 0.0, 0.0
    legs = contacts.body.size
    for c in range(legs):
        eliminate_leg(m, contacts, c, tau, w)
    add_total_inertia(m, w.body, w.S)
    left = sub6(base_wrench(tau, w.body), load6(w.body, FORCE))
    store6(w.base, 0, add6(load6(w.base, 0), left))
    factorize_delassus(6, w.S, w.diagonal, w.report)
    solve_delassus(6, w.S, w.base)
    A = load6(w.base, 0)
    store_base_motion(w.body, A, w.a)
    for c in range(legs):
        store_leg_accelerations(m, contacts, c, w.points, w.legs, A, w.a)
        o = c * LEG + BASE_COLUMNS
        f = (dot6(load6(w.legs, o), A), dot6(load6(w.legs, o + 6), A), dot6(load6(w.legs, o + 12), A))
        store3(w.f, 3 * c, add_scaled3(f, -1.0, load3(w.legs, c * LEG + LOAD)))


@driver
def drive_eliminated(first, last, work, block, contacts, q, v, tau, a, f):
    """a (K, nv) and f (K, 3 L) of `eliminated_dynamics` in lanes of knots; arrays for no knots receive nothing."""
    m = kernel_model(block)
    w, rest = carve_elimination(m, contacts.body.size, work)
    for c in range(first, last):
        q_, v_, tau_, _ = gather_state(q, v, tau, c * LANES, rest)
        eliminated_dynamics(m, contacts, q_, v_, tau_, w)
        scatter(w.a, c * LANES, a)
        scatter(w.f, c * LANES, f)
