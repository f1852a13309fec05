"""Robots whose joints all belong to legs, which `elimination` takes one by one: which these are, and their arrays."""

from typing import NamedTuple

import numpy as np

from dynamics.contacts.contact_set import ContactArrays, ContactSet
from dynamics.joints import FREE_FLYER

JOINTS = 3
"""Joints per leg: as many as a point of contact holds."""


class LegArrays(NamedTuple):
    """A robot's L legs and what their feet hold, as kernels take it."""

    foot: np.ndarray  # (L,) last body
    contact: np.ndarray  # (L,) its contact, -1 for a leg in the air
    contacts: ContactArrays


FIELDS = len(LegArrays._fields)
"""By this length kernels tell `LegArrays` from other contacts, at compile time."""


def leg_arrays(contacts: ContactSet, damping: float = 0.0) -> LegArrays | None:
    """The legs of a robot that walks on point contacts, or None for one of another kind.

    The base is a free flyer without armature, and all other bodies form legs: chains of three joints of one degree of
    freedom each, from the base.  The contacts, one at least, are points of the legs' last bodies, one a leg at most,
    and do not yield.  A robot in flight has no use for legs: the articulated-body algorithm is faster.
    """
    m, held = contacts.model.arrays, contacts.arrays
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
