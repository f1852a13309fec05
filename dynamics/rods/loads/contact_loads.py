"""Contact of a point of a link, as a sphere, with what stands still: forces of its position.

With a depth s d(p) + o of the distance d of `distances`, and the law F of it (`load_laws`), along a virtual velocity v

    f = - s F u        F1 = - (F' u u' + s F T / d)
    F2 = - (s F'' (u.v) u u' + (F' - s F / d) ((u.v) T + u t' + t u') / d)
"""

from dynamics.rods.loads.composites import add_at
from dynamics.rods.loads.distances import (
    EXPONENT,
    OFFSET,
    PLACE,
    POINT,
    SIDE,
    SMOOTHING,
    STIFFNESS,
    combination,
    distance,
    symmetric_times,
)
from dynamics.rods.loads.load_laws import contact_law
from dynamics.rods.loads.pose_loads import add_pose_terms, wrench_about_origin
from dynamics.rods.model.arrays import COMPOSITE, FIRST, FORCE
from dynamics.simd import align_stack, kernel, splat
from dynamics.simd.comparison import all_less
from dynamics.spatial import add_cross, add_rotated, angular, dot3, linear, scale3


@kernel
def add_contact(c, level, R, p, mu, seg, A, extra):
    """The contact with the numbers c of a point of the link whose frame is (R, p)."""
    align_stack(A)
    z = splat(A, 0.0)
    p = add_rotated(p, R, (z + c[PLACE], z + c[PLACE + 1], z + c[PLACE + 2]))
    d, inverse, u, T = distance(c, (p[0] - c[POINT], p[1] - c[POINT + 1], p[2] - c[POINT + 2]))
    depth = c[SIDE] * d + c[OFFSET]
    if all_less(depth, z - c[SMOOTHING]):
        return
    force, df, ddf = contact_law(depth, c[STIFFNESS], c[EXPONENT], c[SMOOTHING])
    force, ddf = c[SIDE] * force, c[SIDE] * ddf
    f = scale3(u, -force)
    add_at(seg, COMPOSITE + FORCE, wrench_about_origin(p, (z, z, z), scale3(f, -1.0)))
    if level < FIRST:
        return
    side = force * inverse
    F1 = combination(-side, T, -0.5 * df, u, u)
    v = add_cross(linear(mu), angular(mu), p)
    s, b = dot3(u, v), (side - df) * inverse
    F2 = combination(b, combination(s, T, 1.0, u, symmetric_times(T, v)), -0.5 * ddf * s, u, u)
    add_pose_terms(level, p, (z, z, z), f, F1, F2, mu, seg, A, extra)
