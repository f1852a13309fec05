"""External loads at the ends of segments, added to the composites of the backward pass.

What loads add to derivatives and Hessians are 6x6 matrices in the world frame, summed towards the base beside the
composites of rigid bodies: P and C of those that depend on the pose, N and B of those that depend on the twist, M, N
and B of added mass (`pose_loads`, `fluid_loads`).  The wrench e = P'mu is one of the composites.
"""

from dynamics.rods.loads.composites import add_at
from dynamics.rods.loads.contact_loads import add_contact
from dynamics.rods.loads.fluid_loads import add_added_mass, add_drag
from dynamics.rods.loads.law_loads import add_law
from dynamics.rods.loads.pose_loads import add_pose_terms, wrench_about_origin
from dynamics.rods.model.arrays import COMPOSITE, END, FIRST, FORCE, VIRTUAL
from dynamics.rods.model.law_arrays import REGISTERS
from dynamics.rods.model.load_arrays import CARRIED, CONTACT, DEAD, DRAG, FOLLOWER, LAW, LOADS, WRENCH, LoadArrays
from dynamics.simd import align_stack, kernel, splat
from dynamics.spatial import accumulate, add_rotated, load3, load6, load9, rotate, scale3


@kernel
def add_loads(m, external, controls, wrenches, s, level, seg, columns, extra, work, b, of_controls):
    """Add the loads at the end of segment s, up to which the columns are.

    controls: of laws; wrenches: (6 each) in the order of those given; work: `load_work`; b: `Blocks`; of_controls: B
    and Hqu of laws, or nothing where they are not wanted."""
    align_stack(seg)
    R, p, mu = load9(seg, END), load3(seg, END + 9), load6(seg, END + VIRTUAL)
    M, A = work[:36], work[36:72]
    z = splat(seg, 0.0)
    none = (z, z, z, z, z, z)
    for k in range(external.start[s], external.start[s + 1]):
        kind, parameters = external.kind[k], external.parameters[k]
        if kind == CONTACT:
            add_contact(parameters, level, R, p, mu, seg, A, extra)
        elif kind == DRAG:
            add_drag(parameters, level, R, p, mu, seg, M, A, extra)
        elif kind == LAW:
            law, share, registers = int(parameters[0]), parameters[1], work[72:]
            add_law(
                m, external.laws, law, share, level, s, R, p, mu, controls, seg, columns, extra, A, M, registers, b,
                of_controls,
            )  # fmt: skip
        elif kind <= DEAD or kind == CARRIED:
            force, point = (z + parameters[0], z + parameters[1], z + parameters[2]), p
            moment = (z + parameters[3], z + parameters[4], z + parameters[5])
            if kind == WRENCH or kind == FOLLOWER:
                i = 6 * int(parameters[0])
                point = add_rotated(p, R, (z + parameters[1], z + parameters[2], z + parameters[3]))
                share = z + parameters[4]
                moment, force = scale3(load3(wrenches, i), share), scale3(load3(wrenches, i + 3), share)
            if kind == FOLLOWER or kind == CARRIED:
                moment, force = rotate(R, moment), rotate(R, force)
            add_at(seg, COMPOSITE + FORCE, wrench_about_origin(point, scale3(moment, -1.0), scale3(force, -1.0)))
            if kind != FOLLOWER and kind != CARRIED and level >= FIRST:
                add_pose_terms(level, point, moment, force, none, none, mu, seg, A, extra)
        else:
            add_added_mass(parameters, m.gravity, level, R, p, mu, seg, M, A, extra)


def load_work(external: LoadArrays) -> int:
    """Scratch numbers of `add_loads`."""
    return 72 + int(external.laws.integers[REGISTERS])


@kernel
def add_loads_to_parent(m, external, s, loads):
    """Add what the loads of a subtree come to, to its parent's."""
    if m.parent[s] >= 0 and external.loaded[s] == 1:
        accumulate(loads, m.parent[s] * LOADS, s * LOADS, LOADS)
