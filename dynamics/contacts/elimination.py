"""Contact dynamics by elimination of legs of three joints, one by one, from the equation of motion."""

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
from dynamics.contacts.contact_set import ContactArrays, ContactSet
from dynamics.contacts.dynamics import contact_dynamics_kernel, factorize_delassus, solve_delassus
from dynamics.model.joints import FREE_FLYER
from dynamics.model.model import RigidBodyModel
from dynamics.simd import LANES, align_stack, fnma, helper, kernel, lane, load, select_less, shared_kernel, splat, store
from dynamics.simd.lane_blocks import carving, lanes
from dynamics.simd.sizes import Size
from dynamics.spatial.spatial import (
    accumulate,
    add3,
    add6,
    add_cross,
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
    rotate,
    rotate_back,
    scale3,
    scale6,
    store3,
    store6,
    sub6,
)

# --------------------------------------------------------------------------------------------
# Robots whose joints all belong to legs: the conditions for `elimination`, and its arrays.

FOLLOWED, OWN = 0, 18
LEG = 21
"""Size of the data per leg: the rows of P, and r."""

JOINTS = 3
"""Joints per leg: as many as a point contact has constraints."""


class LegArrays(NamedTuple):
    """Arrays of a robot's L legs and their contacts for kernels."""

    foot: np.ndarray  # (L,) last body
    contact: np.ndarray  # (L,) its contact, -1 for a leg in the air
    contacts: ContactArrays


def leg_arrays(model: RigidBodyModel, contacts: ContactSet, damping: float = 0.0) -> LegArrays | None:
    """The legs of a robot that walks on point contacts, or None for one of another kind.

    The base is a free flyer without armature, and all other bodies form legs: chains of three joints of one degree of
    freedom each, from the base.  The contacts, one at least, are points of the legs' last bodies, one a leg at most,
    and do not yield.  A robot in flight has no use for legs: the articulated-body algorithm is faster.
    """
    m, held = model.arrays, contacts.arrays
    if not isinstance(held, ContactArrays):
        return None
    hip = np.arange(1, len(m.parent), JOINTS)
    foot = hip + JOINTS - 1
    chains = np.stack([0 * hip, hip, hip + 1], axis=1).ravel()  # parents: bodies are numbered depth-first
    base = m.joint_type[0] == FREE_FLYER and not m.armature[:6].any()
    on_legs = base and np.array_equal(m.parent[1:], chains) and np.all(m.dof_count[1:] == 1)
    on_feet = np.isin(held.body, foot).all() and len(np.unique(held.body)) == len(held.body)
    if len(contacts) == 0 or damping != 0.0 or held.angular.any() or not (on_legs and on_feet):
        return None
    contact = np.full(len(foot), -1)
    contact[(held.body - 1) // JOINTS] = np.arange(len(held.body))
    return LegArrays(foot, contact, held)


# ------------------------------------------------------------------------------------------------ kernels
@helper
def seen_from(p, f):
    """L'f: the wrench of a force f at p about the world's origin."""
    return join(cross(p, f), f)


@helper
def combined(X, x):
    """sum_k x_k X_k for three vectors X_k of six numbers"""
    return add_scaled6(add_scaled6(scale6(X[0], x[0]), x[1], X[1]), x[2], X[2])


@helper
def times_rows(P, x):
    """The three numbers P_k.x"""
    return dot6(P[0], x), dot6(P[1], x), dot6(P[2], x)


@helper
def inverse_rows(X):
    """The rows of the inverse of the matrix with three columns X_k, and its determinant."""
    x = cross(X[1], X[2])
    det = dot3(X[0], x)
    d = 1.0 / det
    return (scale3(x, d), scale3(cross(X[2], X[0]), d), scale3(cross(X[0], X[1]), d)), det


@helper
def leg_columns(m, foot, dof):
    """World columns of the leg's joints, from the base outwards."""
    d = m.v_index[foot] * DOF + COLUMN
    return load6(dof, d - 2 * DOF), load6(dof, d - DOF), load6(dof, d)


@helper
def held_leg(m, contacts, c, s, points):
    """P and r of a leg whose foot has contact c, and det J."""
    p, x = load3(points, c * CONTACT + POINT), constraint(m, contacts, c, points)
    rows, det = inverse_rows((at_point(s[0], p), at_point(s[1], p), at_point(s[2], p)))
    P = seen_from(p, rows[0]), seen_from(p, rows[1]), seen_from(p, rows[2])
    return P, (dot3(rows[0], x), dot3(rows[1], x), dot3(rows[2], x)), det


@helper
def store_leg(e, l, P, r):
    """Store P and r of leg l in e.legs."""
    o = l * LEG
    store6(e.legs, o + FOLLOWED, P[0])
    store6(e.legs, o + FOLLOWED + 6, P[1])
    store6(e.legs, o + FOLLOWED + 12, P[2])
    store3(e.legs, o + OWN, r)


@helper
def leg_rows(e, l):
    """The rows of P of leg l."""
    o = l * LEG + FOLLOWED
    return load6(e.legs, o), load6(e.legs, o + 6), load6(e.legs, o + 12)


@helper
def store_leg_accelerations(m, legs, l, e, A, a):
    """Store a_l = -(P A + r) in a (nv)."""
    x = add3(times_rows(leg_rows(e, l), A), load3(e.legs, l * LEG + OWN))
    store3(a, m.v_index[legs.foot[l]] - 2, scale3(x, -1.0))


# --------------------------------------------------------------------------------------------
# Accelerations of a robot on legs, by eliminating the joints leg by leg.
#
# The accelerations of a leg's three joints are affine in the base's spatial acceleration A, in world axes,
#
#     a_l = -(P A + r)
#
# Where the foot is held at the point p, with L s = u + w x p the linear part there of a motion s = (w, u), J the leg's
# columns there and x = a_c + kd v_c + kp (p - reference) at a = 0, the contact says J a_l + L A + x = 0.  Where it is
# not, the leg's own equation says F'A + M_l a_l = t: F (6, 3) are the joints' columns of composite momentum I^C s, the
# block of the mass matrix between leg and base, M_l is their own 3 x 3 block, and t what bias forces leave of the
# torques.  So
#
#     in contact   P = J^-1 L      r = J^-1 x            in the air      P = M_l^-1 F'         r = -M_l^-1 t
#
# The contact forces do no work along the motions [1; -P] of base and legs, so that they drop out of the equation of
# motion projected on these,
#
#     S A = t_base - sum_l [P't - (F - P'M_l) r]         S = I_total - sum_l (X P + P'X')         X = F - P'M_l / 2
#
# S (6, 6) is the inertia of the base with its legs in contact or free.  Neither M^-1 nor J M^-1 J' is formed.
#
# Near a leg's singular positions, such as a straight knee, J^-1 grows without bound where the motion does not.
# Rounding errors grow with J^-T M_l J^-1, the inertia that the leg shows at its foot: lanes in which this is large
# beside the robot's mass take the accelerations of `contact_dynamics_kernel` instead.

SINGULAR = 300.0
"""A leg is singular if the trace of J^-T M_l J^-1 is more than this times the robot's mass.  Over random postures of
three quadrupeds the two ways differ by 1e-15 of that ratio, by up to 1e-13 of it at worst."""


class Elimination(NamedTuple):
    """Lanes of the elimination."""

    legs: np.ndarray = lanes(Size("feet", "legs.foot.size") * LEG)
    S: np.ndarray = lanes(6 * 6)
    diagonal: np.ndarray = lanes(6)
    report: np.ndarray = lanes(2)
    base: np.ndarray = lanes(6)
    singular: np.ndarray = lanes(1)  # 1 where a leg is singular


carve_elimination, elimination_numbers = carving(Elimination)


# ------------------------------------------------------------------------------------------------ three and six numbers
@helper
def transposed(X):
    """The transpose of a matrix of three vectors: its rows from its columns, or its columns from its rows."""
    return (X[0][0], X[1][0], X[2][0]), (X[0][1], X[1][1], X[2][1]), (X[0][2], X[1][2], X[2][2])


@helper
def angular_parts(X):
    return angular(X[0]), angular(X[1]), angular(X[2])


@helper
def linear_parts(X):
    return linear(X[0]), linear(X[1]), linear(X[2])


@helper
def add_row(S, o, x):
    """Three entries of S from o on += x."""
    store3(S, o, add3(load3(S, o), x))


@helper
def minus_products(X, P, x, p):
    """- sum_k (x_k P_k + p_k X_k) for vectors of three numbers"""
    y = scale3(P[0], -x[0])
    y = (fnma(x[1], P[1][0], y[0]), fnma(x[1], P[1][1], y[1]), fnma(x[1], P[1][2], y[2]))
    y = (fnma(x[2], P[2][0], y[0]), fnma(x[2], P[2][1], y[1]), fnma(x[2], P[2][2], y[2]))
    y = (fnma(p[0], X[0][0], y[0]), fnma(p[0], X[0][1], y[1]), fnma(p[0], X[0][2], y[2]))
    y = (fnma(p[1], X[1][0], y[0]), fnma(p[1], X[1][1], y[1]), fnma(p[1], X[1][2], y[2]))
    return (fnma(p[2], X[2][0], y[0]), fnma(p[2], X[2][1], y[1]), fnma(p[2], X[2][2], y[2]))


@helper
def subtract_triangle(S, o, X, P):
    """`subtract_both_sides` for the diagonal block of S that begins at o."""
    x, p = transposed(X), transposed(P)
    y = minus_products(X, P, x[0], p[0])
    store(S, o, load(S, o) + y[0])
    y = minus_products(X, P, x[1], p[1])
    store(S, o + 6, load(S, o + 6) + y[0])
    store(S, o + 7, load(S, o + 7) + y[1])
    add_row(S, o + 12, minus_products(X, P, x[2], p[2]))


@helper
def subtract_both_sides(S, X, P):
    """S -= X P + P'X', in the lower triangle of S (6 6), for the columns of X and the rows of P."""
    Xw, Pw, x, p = angular_parts(X), angular_parts(P), transposed(linear_parts(X)), transposed(linear_parts(P))
    subtract_triangle(S, 0, Xw, Pw)
    subtract_triangle(S, 21, linear_parts(X), linear_parts(P))
    add_row(S, 18, minus_products(Xw, Pw, x[0], p[0]))
    add_row(S, 24, minus_products(Xw, Pw, x[1], p[1]))
    add_row(S, 30, minus_products(Xw, Pw, x[2], p[2]))


# ------------------------------------------------------------------------------------------------ a leg
@helper
def composite_column(m, i, s, tau, body):
    """I^C s of body i, and the joint's torque less its bias force."""
    b = i * BODY
    F = inertia_times(m.subtree_mass[i], load3(body, b + MOMENT), load6(body, b + INERTIA), s)
    return F, load(tau, m.v_index[i]) - dot6(s, load6(body, b + FORCE))


@helper
def pass_on(body, i, parent):
    """Add the composite of body i to its parent's: first moment, inertia and force."""
    accumulate(body, parent * BODY + MOMENT, i * BODY + MOMENT, 9)
    accumulate(body, parent * BODY + FORCE, i * BODY + FORCE, 6)


@helper
def leg_inertia(m, foot, s, F):
    """Rows of M_l."""
    k = m.v_index[foot]
    x, y, z = dot6(F[1], s[0]), dot6(F[2], s[0]), dot6(F[2], s[1])
    return (
        (dot6(F[0], s[0]) + m.armature[k - 2], x, y),
        (x, dot6(F[1], s[1]) + m.armature[k - 1], z),
        (y, z, dot6(F[2], s[2]) + m.armature[k]),
    )


@helper
def is_singular(m, P, N, det):
    """1 where N P, N = P'M_l, is large in its linear part, or not finite although det J is; else 0."""
    trace = dot3(linear(P[0]), linear(N[0])) + dot3(linear(P[1]), linear(N[1])) + dot3(linear(P[2]), linear(N[2]))
    finite = select_less(det * det, np.inf, 1.0, 0.0)
    return select_less(trace, SINGULAR * m.subtree_mass[0], 0.0, finite)


@helper
def free_leg(M, F, t):
    """P and r of a leg in the air."""
    rows, _ = inverse_rows(M)
    P = combined(F, rows[0]), combined(F, rows[1]), combined(F, rows[2])
    return P, (-dot3(rows[0], t), -dot3(rows[1], t), -dot3(rows[2], t))


@kernel
def eliminate_leg(m, legs, l, tau, w, e):
    """Store P and r of leg l in e.legs, and add its parts of S and of the right side to e.S and e.base."""
    align_stack(e.S)
    foot, c = legs.foot[l], legs.contact[l]
    s = leg_columns(m, foot, w.dof)
    F2, t2 = composite_column(m, foot, s[2], tau, w.body)
    pass_on(w.body, foot, foot - 1)
    F1, t1 = composite_column(m, foot - 1, s[1], tau, w.body)
    pass_on(w.body, foot - 1, foot - 2)
    F0, t0 = composite_column(m, foot - 2, s[0], tau, w.body)
    pass_on(w.body, foot - 2, 0)
    F, t, M = (F0, F1, F2), (t0, t1, t2), leg_inertia(m, foot, s, (F0, F1, F2))
    base = load6(e.base, 0)
    if c >= 0:
        P, r, det = held_leg(m, legs.contacts, c, s, w.points)
        N = combined(P, M[0]), combined(P, M[1]), combined(P, M[2])
        base = add6(base, combined((sub6(F0, N[0]), sub6(F1, N[1]), sub6(F2, N[2])), r))
        X = add_scaled6(F0, -0.5, N[0]), add_scaled6(F1, -0.5, N[1]), add_scaled6(F2, -0.5, N[2])
        store(e.singular, 0, load(e.singular, 0) + is_singular(m, P, N, det))
    else:
        P, r = free_leg(M, F, t)
        X = scale6(F0, 0.5), scale6(F1, 0.5), scale6(F2, 0.5)
    store_leg(e, l, P, r)
    store6(e.base, 0, sub6(base, combined(P, t)))
    subtract_both_sides(e.S, X, P)


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
def any_lane(x):
    """True if the number is not zero in some lane."""
    found = False
    for k in range(LANES):
        found |= lane(x, k) != 0.0
    return found


@shared_kernel
def eliminated_dynamics_kernel(m, legs, q, v, tau, w, e, a):
    """Compute a (nv), with scratch w (`carve_workspace`) and e (`carve_elimination`), for one knot per lane."""
    align_stack(e.S)
    forward_pass(m, q, v, w.zeros, w.body, w.dof, FORCES)
    contact_points(m, legs.contacts, w.body, w.points)
    e.S[:], e.base[:], e.singular[:] = 0.0, 0.0, 0.0
    for l in range(legs.foot.size):
        eliminate_leg(m, legs, l, tau, w, e)
    add_total_inertia(m, w.body, e.S)
    left = sub6(base_wrench(tau, w.body), load6(w.body, FORCE))
    store6(e.base, 0, add6(load6(e.base, 0), left))
    factorize_delassus(e.base.shape[0], e.S, e.diagonal, e.report)
    solve_delassus(e.base.shape[0], e.S, e.base)
    A = load6(e.base, 0)
    store_base_motion(w.body, A, a)
    for l in range(legs.foot.size):
        store_leg_accelerations(m, legs, l, e, A, a)
    if any_lane(load(e.singular, 0)):
        replace_singular(m, legs.contacts, q, v, tau, w, load(e.singular, 0), a)


@kernel
def replace_singular(m, contacts, q, v, tau, w, singular, a):
    """Store the accelerations of `contact_dynamics_kernel` in the lanes of a that are singular."""
    w.Y[:] = 0.0
    contact_dynamics_kernel(m, contacts, q, v, tau, w)
    for k in range(m.dof_body.size):
        store(a, k, select_less(0.0, singular, load(w.a, k), load(a, k)))
