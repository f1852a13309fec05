"""Where the motion of a contact goes: rows of its own, or for the halves of loops their part of rows."""

from dynamics.algorithms.frames import last_dof
from dynamics.algorithms.kinematics import COLUMN, DOF
from dynamics.contacts.contact_arrays import ContactArrays
from dynamics.contacts.loop_arrays import LoopArrays
from dynamics.simd import fma, helper, kernel, load, splat, store
from dynamics.simd.by_type import by_type
from dynamics.spatial import add3, load3, load9, rotate, rotate_back, scale3, store3
from dynamics.tangent import store_column3

POINT, POINT_VELOCITY, POINT_ACCELERATION, POINT_AXES = 0, 3, 6, 9
CONTACT = 18
"""Numbers kept per block of a contact or half of a loop: position, velocity, acceleration (with -g) and axes; for a
moment's block the velocity and acceleration are the angular ones."""


# ------------------------------------------------------------------------------------------------ blocks and axes
@helper
def _own_block(contacts, c):
    return c


@helper
def _block_of_half(contacts, c):
    return contacts.row[c]


@helper
def _unchanged(contacts, c, points, x):
    return x


@helper
def axes_of_half(contacts, c, points):
    """T (9) of the block of half c."""
    if contacts.axes[c] >= 0:
        return load9(points, contacts.axes[c] * CONTACT + POINT_AXES)
    T = contacts.fixed_axes[c]
    zero = splat(points, 0.0)
    return (zero + T[0], zero + T[1], zero + T[2], zero + T[3], zero + T[4], zero + T[5], zero + T[6], zero + T[7],
            zero + T[8])  # fmt: skip


@helper
def _part_of_rows(contacts, c, points, x):
    y, s, k = rotate_back(axes_of_half(contacts, c, points), x), contacts.sign[c], contacts.kept[c]
    return (s * k[0] * y[0], s * k[1] * y[1], s * k[2] * y[2])


@helper
def _part_of_force(contacts, c, points, x):
    return scale3(rotate(axes_of_half(contacts, c, points), x), contacts.sign[c])


block_of = by_type("contacts", {ContactArrays: _own_block, LoopArrays: _block_of_half})
"""Block of a contact or half: (contacts, c)."""
in_rows = by_type("contacts", {ContactArrays: _unchanged, LoopArrays: _part_of_rows})
"""What the motion x at contact or half c adds to its rows: (contacts, c, points, x)."""
on_body = by_type("contacts", {ContactArrays: _unchanged, LoopArrays: _part_of_force})
"""The force on the body of contact or half c, world axes, of the rows' x: (contacts, c, points, x)."""


# ------------------------------------------------------------------------------------------------ into matrices
@helper
def _store_across(contacts, c, points, Y, o, x):
    store3(Y, o + 3 * c, x)


@helper
def _add_across(contacts, c, points, Y, o, x):
    o += 3 * contacts.row[c]
    store3(Y, o, add3(load3(Y, o), _part_of_rows(contacts, c, points, x)))


@helper
def _store_down(contacts, c, points, G, o, n, x):
    store_column3(G, o + 3 * c * n, n, x)


@helper
def add_column3(G, o, n, x):
    """G[o], G[o + n], G[o + 2 n] += x"""
    store_column3(G, o, n, add3((load(G, o), load(G, o + n), load(G, o + 2 * n)), x))


@helper
def _add_down(contacts, c, points, G, o, n, x):
    add_column3(G, o + 3 * contacts.row[c] * n, n, _part_of_rows(contacts, c, points, x))


put_across = by_type("contacts", {ContactArrays: _store_across, LoopArrays: _add_across})
"""Motion x at contact or half c into the row of Y that starts at o, along blocks: (contacts, c, points, Y, o, x)."""
put_down = by_type("contacts", {ContactArrays: _store_down, LoopArrays: _add_down})
"""The same into a column, whose rows of blocks start at o, n apart: (contacts, c, points, G, o, n, x)."""


# ------------------------------------------------------------------------------------------------ sums over halves
@kernel
def _leave(contacts, width, Y):
    return


@kernel
def _start_with_couplings(contacts, width, Y):
    Y[:] = 0.0
    for i in range(contacts.coupled_row.size):
        o = contacts.coupled_dof[i] * width + contacts.coupled_row[i]
        store(Y, o, splat(Y, contacts.coupled_ratio[i]))


start_jacobian = by_type("contacts", {ContactArrays: _leave, LoopArrays: _start_with_couplings})
"""J' (nv 3B) before contacts and halves add theirs: the ratios of coupled joints: (contacts, width, Y)."""


# ------------------------------------------------------------------------------------------------ coupled joints
@kernel
def subtract_couplings(m, contacts, q, v, f):
    """f (3B) -= kd sum_j r_j v_j + kp (sum_j r_j q_j - offset) in the rows of coupled joints."""
    for i in range(contacts.coupled_row.size):
        k, r, row = contacts.coupled_dof[i], contacts.coupled_ratio[i], contacts.coupled_row[i]
        kp, kd = contacts.coupled_gains[i, 0], contacts.coupled_gains[i, 1]
        x = fma(kp * r, load(q, m.q_index[m.dof_body[k]]), splat(f, -kp * contacts.coupled_offset[i]))
        store(f, row, load(f, row) - fma(kd * r, load(v, k), x))


@kernel
def _no_derivatives(contacts, n, Gq, Gv):
    return


@kernel
def _derivatives_of_couplings(contacts, n, Gq, Gv):
    for i in range(contacts.coupled_row.size):
        o, r = contacts.coupled_row[i] * n + contacts.coupled_dof[i], contacts.coupled_ratio[i]
        store(Gq, o, splat(Gq, contacts.coupled_gains[i, 0] * r))
        store(Gv, o, splat(Gv, contacts.coupled_gains[i, 1] * r))


@kernel
def _no_velocities(contacts, s, v, f):
    return


@kernel
def _velocities_of_couplings(contacts, s, v, f):
    for i in range(contacts.coupled_row.size):
        row = contacts.coupled_row[i]
        store(f, row, fma(s * contacts.coupled_ratio[i], load(v, contacts.coupled_dof[i]), load(f, row)))


@kernel
def _no_velocity_derivatives(contacts, s, n, Gv):
    return


@kernel
def _velocity_derivatives_of_couplings(contacts, s, n, Gv):
    for i in range(contacts.coupled_row.size):
        o = contacts.coupled_row[i] * n + contacts.coupled_dof[i]
        store(Gv, o, splat(Gv, s * contacts.coupled_ratio[i]))


start_derivatives = by_type("contacts", {ContactArrays: _no_derivatives, LoopArrays: _derivatives_of_couplings})
"""Derivatives of constraints in q and v (3B nv), zero before, of coupled joints: (contacts, n, Gq, Gv)."""
add_coupled_velocities = by_type("contacts", {ContactArrays: _no_velocities, LoopArrays: _velocities_of_couplings})
"""f (3B) += s J v in the rows of coupled joints: (contacts, s, v, f)."""
coupled_velocity_derivatives = by_type(
    "contacts", {ContactArrays: _no_velocity_derivatives, LoopArrays: _velocity_derivatives_of_couplings}
)
"""s J in the rows (3B nv) of coupled joints: (contacts, s, n, Gv)."""


@helper
def turn_of(dof, k):
    """Angular part of the column of degree of freedom k."""
    return load3(dof, k * DOF + COLUMN)


@helper
def carries(m, k, body):
    """Whether degree of freedom k moves a body; none moves the world, -1."""
    return body >= 0 and k <= last_dof(m, body) < m.subtree_end[k]
