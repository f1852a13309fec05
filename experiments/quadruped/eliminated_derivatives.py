"""First derivatives of accelerations by the elimination of `elimination`, for robots of that kind.

With the residuals g1 = ID - tau - J'f and g2 = a_c + kd v_c + kp (p - reference), and A_l = J^-1 L, all in the base's
own six numbers, every column of dg1 and dg2 gives one of da:

    S da_b = -dg1_b + sum_l (B dg2_l + A_l' dg1_l)               da_l = -A_l da_b - J^-1 dg2_l

Columns of a leg's joints have entries in that leg and in the base alone.  S^-1 is formed, 6 x 6.
"""

from typing import NamedTuple

import numpy as np

from dynamics.algorithms.kinematics import POSITION, ROTATION
from dynamics.contacts.contact_motion import CONTACT, POINT, constraint_derivatives, contact_points, store_rows
from dynamics.contacts.delassus import solve_delassus
from dynamics.contacts.derivatives import contact_loads
from dynamics.derivatives.inverse_dynamics import inverse_dynamics_first_order
from dynamics.kernel_model import kernel_model
from dynamics.simd import LANES, align_stack, carve, driver, gather_state, helper, kernel, scatter, splat, store
from dynamics.spatial import (
    add3,
    add_cross,
    add_scaled6,
    dot6,
    load3,
    load6,
    load9,
    rotate,
    rotate_back,
    scale3,
    scale6,
    store6,
)
from dynamics.tangent import load_column3, load_column6, store_column6
from experiments.quadruped.elimination import (
    BASE_COLUMNS,
    INVERSE,
    LEG,
    carve_elimination,
    eliminated_dynamics,
    leg_bodies,
    seen_from,
    store_base_motion,
)

FOLLOWED, PUSHED = 0, 18
LEG_MAPS = 36
"""Numbers per leg: the rows of A_l, and the columns of B."""


class Derivatives(NamedTuple):
    """Lanes of the derivatives, L legs, n = nv."""

    dead: np.ndarray  # (6 L) contact forces as dead loads
    torque: np.ndarray  # (n)
    M: np.ndarray  # (n n)
    maps: np.ndarray  # (L LEG_MAPS)
    inverse: np.ndarray  # (6 6) S^-1
    Gq: np.ndarray  # ((n + 3 L) n), whose first n rows become da/dq
    Gv: np.ndarray  # ((n + 3 L) n), likewise da/dv
    au: np.ndarray  # (n 3 L) da/dtau of the legs' torques


def derivative_numbers(model, contacts) -> int:
    """Scratch numbers per lane of `carve_derivatives`."""
    n, legs = model.nv, len(contacts)
    return legs * (6 + LEG_MAPS) + n * (1 + n + 3 * legs) + 36 + 2 * n * (n + 3 * legs)


@kernel
def carve_derivatives(m, legs, work):
    """`Derivatives` at the front of `work`, and the rest."""
    n = m.dof_body.size
    dead, w = carve(work, 6 * legs)
    torque, w = carve(w, n)
    M, w = carve(w, n * n)
    maps, w = carve(w, legs * LEG_MAPS)
    inverse, w = carve(w, 36)
    Gq, w = carve(w, (n + 3 * legs) * n)
    Gv, w = carve(w, (n + 3 * legs) * n)
    au, w = carve(w, n * 3 * legs)
    return Derivatives(dead, torque, M, maps, inverse, Gq, Gv, au), w


# ---------------------------------------------------------------------------------------------- the base's own numbers
@helper
def base_components(body, F):
    """Force and moment on the base's six degrees of freedom of a wrench F about the world's origin."""
    R, p = load9(body, ROTATION), load3(body, POSITION)
    f = (F[3], F[4], F[5])
    n = rotate_back(R, add_cross((F[0], F[1], F[2]), f, p))
    f = rotate_back(R, f)
    return (f[0], f[1], f[2], n[0], n[1], n[2])


@kernel
def store_inverse(w, d):
    """S^-1 of the base's own numbers, X S^-1 X' with the map X of `store_base_motion`; scratch d.torque."""
    align_stack(d.inverse)
    for i in range(6):
        for k in range(6):
            store(w.base, k, splat(w.base, 1.0 if i == k else 0.0))
        solve_delassus(6, w.S, w.base)
        store_base_motion(w.body, load6(w.base, 0), d.torque)
        store_column6(d.inverse, i, 6, load6(d.torque, 0))
    for i in range(6):
        store_base_motion(w.body, load6(d.inverse, 6 * i), d.torque)
        store6(d.inverse, 6 * i, load6(d.torque, 0))


@kernel
def store_maps(m, contacts, w, d):
    """A_l and B of every leg."""
    align_stack(d.maps)
    for c in range(contacts.body.size):
        p, o = load3(w.points, c * CONTACT + POINT), c * LEG_MAPS
        for i in range(3):
            row = load3(w.legs, c * LEG + INVERSE + 3 * i)
            store6(d.maps, o + FOLLOWED + 6 * i, base_components(w.body, seen_from(p, row)))
            column = load6(w.legs, c * LEG + BASE_COLUMNS + 6 * i)
            store6(d.maps, o + PUSHED + 6 * i, base_components(w.body, column))


# ------------------------------------------------------------------------------------------------ columns
@helper
def push_of_leg(n, c, i, k, maps, G, x):
    """x + B dg2_l + A_l' dg1_l for column k of leg c, whose first degree of freedom is i."""
    o = c * LEG_MAPS
    g1, g2 = load_column3(G, i * n + k, n), load_column3(G, (n + 3 * c) * n + k, n)
    x = add_scaled6(x, g1[0], load6(maps, o + FOLLOWED))
    x = add_scaled6(x, g1[1], load6(maps, o + FOLLOWED + 6))
    x = add_scaled6(x, g1[2], load6(maps, o + FOLLOWED + 12))
    x = add_scaled6(x, g2[0], load6(maps, o + PUSHED))
    x = add_scaled6(x, g2[1], load6(maps, o + PUSHED + 6))
    return add_scaled6(x, g2[2], load6(maps, o + PUSHED + 12))


@helper
def times_inverse(inverse, x):
    """S^-1 x"""
    y = scale6(load6(inverse, 0), x[0])
    y = add_scaled6(y, x[1], load6(inverse, 6))
    y = add_scaled6(y, x[2], load6(inverse, 12))
    y = add_scaled6(y, x[3], load6(inverse, 18))
    y = add_scaled6(y, x[4], load6(inverse, 24))
    return add_scaled6(y, x[5], load6(inverse, 30))


@helper
def minus_followed(c, maps, x):
    """-A_l x"""
    o = c * LEG_MAPS + FOLLOWED
    y = (dot6(load6(maps, o), x), dot6(load6(maps, o + 6), x), dot6(load6(maps, o + 12), x))
    return scale3(y, -1.0)


@helper
def minus_leg(n, c, k, legs, G, x):
    """x - J^-1 dg2_l for column k."""
    y = rotate(load9(legs, c * LEG + INVERSE), load_column3(G, (n + 3 * c) * n + k, n))
    return add3(x, scale3(y, -1.0))


@kernel
def eliminate_columns(m, contacts, k, first, last, w, d):
    """Columns k of da/dq and da/dv, which have entries in the legs first ... last - 1."""
    align_stack(d.Gq)
    n = m.dof_body.size
    x, y = scale6(load_column6(d.Gq, k, n), -1.0), scale6(load_column6(d.Gv, k, n), -1.0)
    for c in range(first, last):
        i = m.v_index[leg_bodies(m, contacts, c)[0]]
        x, y = push_of_leg(n, c, i, k, d.maps, d.Gq, x), push_of_leg(n, c, i, k, d.maps, d.Gv, y)
    x, y = times_inverse(d.inverse, x), times_inverse(d.inverse, y)
    store_column6(d.Gq, k, n, x)
    store_column6(d.Gv, k, n, y)
    for c in range(contacts.body.size):
        i = m.v_index[leg_bodies(m, contacts, c)[0]]
        a, b = minus_followed(c, d.maps, x), minus_followed(c, d.maps, y)
        if first <= c and c < last:
            a, b = minus_leg(n, c, k, w.legs, d.Gq, a), minus_leg(n, c, k, w.legs, d.Gv, b)
        store_rows(d.Gq, i * n + k, n, a)
        store_rows(d.Gv, i * n + k, n, b)


@kernel
def torque_columns(m, contacts, d):
    """da/dtau of the legs' torques:  da_b = -S^-1 A_l' dg1_l of a torque, dg1_l = -1."""
    align_stack(d.au)
    legs = contacts.body.size
    width = 3 * legs
    for j in range(width):
        c = j // 3
        x = times_inverse(d.inverse, scale6(load6(d.maps, c * LEG_MAPS + FOLLOWED + 6 * (j - 3 * c)), -1.0))
        store_column6(d.au, j, width, x)
        for l in range(legs):
            i = m.v_index[leg_bodies(m, contacts, l)[0]]
            store_rows(d.au, i * width + j, width, minus_followed(l, d.maps, x))


@kernel
def eliminated_first_order(m, contacts, q, v, tau, w, d):
    """a, f, da/dq and da/dv in the first nv rows of d.Gq and d.Gv, da/dtau in d.au, for one knot per lane."""
    n, legs = m.dof_body.size, contacts.body.size
    eliminated_dynamics(m, contacts, q, v, tau, w)
    store_inverse(w, d)
    store_maps(m, contacts, w, d)
    d.Gq[:], d.Gv[:] = 0.0, 0.0
    loads = contact_loads(contacts, w.f, d.dead)
    inverse_dynamics_first_order(m, q, v, w.a, loads, w.body, w.dof, d.torque, d.Gq[: n * n], d.Gv[: n * n], d.M)
    contact_points(m, contacts, w.body, w.points)
    constraint_derivatives(m, contacts, w.dof, w.points, d.Gq[n * n :], d.Gv[n * n :])
    for k in range(6):
        eliminate_columns(m, contacts, k, 0, legs, w, d)
    for c in range(legs):
        i = m.v_index[leg_bodies(m, contacts, c)[0]]
        for k in range(i, i + 3):
            eliminate_columns(m, contacts, k, c, c + 1, w, d)
    torque_columns(m, contacts, d)


@driver
def drive_eliminated_derivatives(first, last, work, block, contacts, q, v, tau, aq, av, au):
    """da/dq, da/dv (K, nv nv) and da/dtau (K, nv 3 L) of the legs' torques, in lanes of knots; arrays for no knots
    receive nothing."""
    m = kernel_model(block)
    w, rest = carve_elimination(m, contacts.body.size, work)
    d, rest = carve_derivatives(m, contacts.body.size, rest)
    for c in range(first, last):
        q_, v_, tau_, _ = gather_state(q, v, tau, c * LANES, rest)
        eliminated_first_order(m, contacts, q_, v_, tau_, w, d)
        scatter(d.Gq, c * LANES, aq)
        scatter(d.Gv, c * LANES, av)
        scatter(d.au, c * LANES, au)
