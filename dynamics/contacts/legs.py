"""Robots whose joints all belong to legs, which `elimination` takes one by one: which these are, and their arrays."""

from typing import NamedTuple

import numpy as np

from dynamics.algorithms.kinematics import COLUMN, DOF
from dynamics.contacts.contact_arrays import ContactArrays
from dynamics.contacts.contact_motion import CONTACT, POINT, at_point, constraint
from dynamics.contacts.contact_set import ContactSet
from dynamics.joints import FREE_FLYER
from dynamics.model import RigidBodyModel
from dynamics.simd import helper
from dynamics.spatial import add3, add_scaled6, cross, dot3, dot6, join, load3, load6, scale3, scale6, store3, store6

FOLLOWED, OWN = 0, 18
LEG = 21
"""Numbers kept per leg: the rows of P, and r."""

JOINTS = 3
"""Joints per leg: as many as a point of contact holds."""


class LegArrays(NamedTuple):
    """A robot's L legs and what their feet hold, as kernels take it."""

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
    """P and r of a leg that contact c holds, and det J."""
    p, x = load3(points, c * CONTACT + POINT), constraint(m, contacts, c, points)
    rows, det = inverse_rows((at_point(s[0], p), at_point(s[1], p), at_point(s[2], p)))
    P = seen_from(p, rows[0]), seen_from(p, rows[1]), seen_from(p, rows[2])
    return P, (dot3(rows[0], x), dot3(rows[1], x), dot3(rows[2], x)), det


@helper
def store_leg(e, l, P, r):
    """P and r of leg l into e.legs."""
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
    """a_l = -(P A + r) into a (nv)."""
    x = add3(times_rows(leg_rows(e, l), A), load3(e.legs, l * LEG + OWN))
    store3(a, m.v_index[legs.foot[l]] - 2, scale3(x, -1.0))
