"""Contributions of one degree of freedom to the derivatives: force vectors of the composite body it moves.

For the composite body at and below a joint, with mass m, first moment h, inertia I, momentum p, net force f, and with
J the rotational part of the inertia's rate (its moment part is the linear momentum), the body-level Coriolis matrix is

    2B x  = (rate) x + x x* p             2B' x = (rate) x - x x* p                    [Singh 2022, eq. 28]

and the vectors of a column s, with its psi, psi2 and rate = psi + Sdot, are

    i_s = I s                                                  row of M
    b_s = 2B' s                                                row multiplying psi in dtau/dq
    f_q = 2B psi + I psi2 + s x* f                             column of dtau/dq above the joint      [eq. 30]
    f_v = 2B s + I rate                                        column of dtau/dv above the joint      [eq. 32]
"""

from dynamics.algorithms.kinematics import COMPOSITE, FORCE, INERTIA, INERTIA_RATE, MOMENT, MOMENTUM
from dynamics.simd import helper
from dynamics.spatial.spatial import (
    accumulate,
    add6,
    add_cross_force,
    add_inertia_times,
    cross_force,
    inertia_times,
    linear,
    load3,
    load6,
    rate_times,
    sub6,
)


@helper
def load_composite(body, b):
    """Moment, inertia, inertia rate, momentum, force of the composite body stored at offset b."""
    return (
        load3(body, b + MOMENT), load6(body, b + INERTIA), load6(body, b + INERTIA_RATE), load6(body, b + MOMENTUM),
        load6(body, b + FORCE),
    )  # fmt: skip


@helper
def add_to_parent(body, parent, child):
    """Add the composite at offset `child` to the one at offset `parent`."""
    accumulate(body, parent + COMPOSITE, child + COMPOSITE, 27)


@helper
def first_order_vectors(mass, h, I, J, p, f, s, psi, psi2, rate):
    """i_s, b_s, f_q, f_v of one column."""
    k = linear(p)
    sp = cross_force(s, p)
    js = rate_times(k, J, s)
    i_s = inertia_times(mass, h, I, s)
    b_s = sub6(js, sp)
    f_v = add_inertia_times(add6(js, sp), mass, h, I, rate)
    f_q = add_cross_force(add_inertia_times(add_cross_force(rate_times(k, J, psi), psi, p), mass, h, I, psi2), s, f)
    return i_s, b_s, f_q, f_v
