"""Residuals of contact forces: the forces of a knot with their derivatives, and linear maps of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics.contacts.contact_motion import force_components
from dynamics.contacts.contact_set import ContactArrays, ContactSet, LoopArrays
from dynamics.contacts.derivatives import ContactFirstOrder, contact_first_order_at_solution, to_given_axes
from dynamics.contacts.dynamics import ROWS, ContactWorkspace, contact_dynamics_kernel
from dynamics.contacts.frame_contact import FrameContact
from dynamics.contacts.hessian import ContactSecondOrder, contact_hessian_at_solution
from dynamics.contacts.impulses import (
    contact_impulse_first_order,
    contact_impulse_hessian_kernel,
    contact_impulse_kernel,
)
from dynamics.derivatives.implicit_function import store_control_blocks, store_state_blocks
from dynamics.model.actuation import joint_torques, times_actuation
from dynamics.model.kernel_model import kernel_model
from dynamics.model.knot_driver import nv
from dynamics.model.subject import Subject
from dynamics.residuals.robot_residual import HESSIAN, JACOBIAN, VALUE, VECTOR, RobotResidual
from dynamics.residuals.squares import SQUARES_ROW, sum_lanes, weigh
from dynamics.simd import (
    LANES,
    align_stack,
    chunk_count,
    driver,
    fma,
    gather,
    helper,
    kernel,
    launch,
    load,
    scatter,
    shared_kernel,
    splat,
    sqrt,
    store,
)
from dynamics.simd.lane_algebra import add_product, add_scaled, add_transpose, scale_into
from dynamics.simd.lane_blocks import lanes, part, slicing
from dynamics.simd.prepared_calls import PreparedCall, PreparedCalls, PreparedLaunch
from dynamics.simd.sizes import Size
from dynamics.simd.span import by_reference
from dynamics.simd.squares import sum_of
from dynamics.simd.tiles import add_knots
from dynamics.spatial.spatial import add_scaled3, dot3, load3, scale3
from dynamics.validation import as_array, as_items, as_number

# --------------------------------------------------------------------------------------------
# Numbers made of forces and moments at contacts, and their derivatives in these.
#
# A part F of the map reads blocks of three, forces and moments in any number:
#
#     r_i = A_i F + b_i,      r_0 = A_0 f + b_0 - s,   s = sqrt(|f_t|^2 + delta^2)   for a second-order cone
#
# with f_t = P f the part of the force f = F along the plane of the normal n, P = 1 - n n'.  The root is concave in r_0:
#
#     dr_0/df = A_0 - d,   d = f_t/s              d2r_0/df2 = -(P - d d')/s


class ForceMap(NamedTuple):
    """r of S parts, each of k blocks of a set of contacts, as kernels take it."""

    blocks: np.ndarray  # (S, k) blocks of the set, none twice
    A: np.ndarray  # (S, rows, 3 k)
    b: np.ndarray  # (S, rows)
    normal: np.ndarray  # (3,)
    smoothing: float  # delta, N; zero if no row has a root, as where k > 1


@helper
def _tangent(forces, f):
    """f_t, and s."""
    n = (forces.normal[0], forces.normal[1], forces.normal[2])
    f_t = add_scaled3(f, -dot3(n, f), n)
    return f_t, sqrt(dot3(f_t, f_t) + forces.smoothing * forces.smoothing)


@helper
def force_direction(forces, f, s):
    """d and 1/s of part s; zeros if no row has a root."""
    f = load3(f, 3 * forces.blocks[s, 0])
    zero = 0.0 * f[0]
    d, inverse = (zero, zero, zero), zero
    if forces.smoothing > 0.0:
        f_t, length = _tangent(forces, f)
        inverse = 1.0 / length
        d = scale3(f_t, inverse)
    return d, inverse


@helper
def row_gradient(forces, s, i, j, d):
    """dr_i/df of part s, f its block j."""
    x, y, z = forces.A[s, i, 3 * j], forces.A[s, i, 3 * j + 1], forces.A[s, i, 3 * j + 2]
    share = -1.0 if i == 0 else 0.0
    return (fma(share, d[0], x), fma(share, d[1], y), fma(share, d[2], z))


@kernel
def force_rows(forces, f, r):
    """r (S rows) of the contact forces f, which come before the moments of rigid feet."""
    S, rows, parts = forces.b.shape[0], forces.b.shape[1], forces.blocks.shape[1]
    for s in range(S):
        for i in range(rows):
            x = splat(f, forces.b[s, i])
            for j in range(parts):
                a = (forces.A[s, i, 3 * j], forces.A[s, i, 3 * j + 1], forces.A[s, i, 3 * j + 2])
                x += dot3(a, load3(f, 3 * forces.blocks[s, j]))
            store(r, s * rows + i, x)
        if forces.smoothing > 0.0:
            _, length = _tangent(forces, load3(f, 3 * forces.blocks[s, 0]))
            store(r, s * rows, load(r, s * rows) - length)


@kernel
def force_expansion(forces, f, mu, gauss_newton_weight, g, G, K):
    """Per part the gradient g (3 k) = sum_i mu_i dr_i/dF, and the matrices, (9 k k) each,
    G = sum_i gauss_newton_weight_i (dr_i/dF)'(dr_i/dF) and K = sum_i mu_i d2r_i/dF2."""
    S, rows, parts = forces.b.shape[0], forces.b.shape[1], forces.blocks.shape[1]
    width = 3 * parts
    g[:], G[:], K[:] = 0.0, 0.0, 0.0
    for s in range(S):
        d, inverse = force_direction(forces, f, s)
        o = s * width * width
        for i in range(rows):
            scale, weight = load(mu, s * rows + i), load(gauss_newton_weight, s * rows + i)
            for j in range(parts):
                a = row_gradient(forces, s, i, j, d)
                for e in range(3):
                    at = 3 * j + e
                    store(g, s * width + at, fma(scale, a[e], load(g, s * width + at)))
                    for c in range(parts):
                        _add_row(G, o + at * width + 3 * c, weight * a[e], row_gradient(forces, s, i, c, d))
        _store_root_curvature(forces, d, -load(mu, s * rows) * inverse, K, o)


@helper
def _add_row(G, o, scale, a):
    for e in range(3):
        store(G, o + e, fma(scale, a[e], load(G, o + e)))


@helper
def _store_root_curvature(forces, d, scale, K, o):
    """scale (P - d d'), (9), at o."""
    if forces.smoothing == 0.0:
        return
    n = (forces.normal[0], forces.normal[1], forces.normal[2])
    for i in range(3):
        for j in range(3):
            p = (1.0 if i == j else 0.0) - n[i] * n[j]
            store(K, o + 3 * i + j, scale * fma(-d[i], d[j], splat(K, p)))


@helper
def any_nonzero(ws, start, stop, count):
    """Whether any of the numbers start ... stop of the first `count` lanes is not zero; NaN is not."""
    for i in range(start, stop):
        for k in range(count):
            if ws[i, k] != 0.0:
                return True
    return False


# --------------------------------------------------------------------------------------------
# Residuals of contact forces, or impulses, in the lanes: values, Jacobians, weighted squares to second order.
#
# Of a function phi of the forces with gradient g, and matrix G or K in place of its Hessian in them, per part s, whose
# blocks of forces and moments F_s is,
#
#     gradient  sum F_s,z' g_s          Hessian  sum F_s,z' (G_s or K_s) F_s,z  +  Hessian of g'F          z = (q, v, u)
#
# where the last one is what `dynamics.contacts.hessian` gives, once for all contacts.  Lanes where no part has a
# weight, as where limits are kept, end with the values.
#
# Impulses are asked for by their restitution, which is None for forces: a driver is compiled for each.  They depend on
# no controls, so theirs are a B of no columns, and they are linear in v: Hvv is zero.

TOGETHER = 4
"""A bit on top of JACOBIAN and HESSIAN: both go to the same arrays."""


_nx, _nu = Size("nx", "nx"), Size("nu", "B.shape[1]")
_parts, _nr = Size("parts", "forces.blocks.shape[1]"), Size("nr", "forces.b.size")
_F = 3 * Size("read", "forces.blocks.size")
PRODUCT_ROWS = _F.at_least(_nr)
_nz = 2 * nv


class ForceLanes(NamedTuple):
    """Lanes for F components of forces and moments, and nr numbers r."""

    w: ContactWorkspace = part(ContactWorkspace)
    d: ContactFirstOrder = part(ContactFirstOrder)
    h: ContactSecondOrder = part(ContactSecondOrder)
    x: np.ndarray = lanes(_nx)
    u: np.ndarray = lanes(_nu)
    tau: np.ndarray = lanes(nv)
    jump: np.ndarray = lanes(nv)  # v+ - v, and v+ + restitution v
    mean: np.ndarray = lanes(nv)
    force: np.ndarray = lanes(ROWS)  # and moments, in the axes of the contacts
    r: np.ndarray = lanes(_nr)
    mu: np.ndarray = lanes(_nr)
    gauss_newton_weight: np.ndarray = lanes(_nr)
    row: np.ndarray = lanes(SQUARES_ROW * _nr)
    g: np.ndarray = lanes(_F)
    G: np.ndarray = lanes(3 * _F * _parts)
    K: np.ndarray = lanes(3 * _F * _parts)
    Fx: np.ndarray = lanes(_F * _nz)  # derivatives of forces and moments
    Fu: np.ndarray = lanes(_F * _nu)
    Tx: np.ndarray = lanes(PRODUCT_ROWS * _nz)  # products with Fx
    Tu: np.ndarray = lanes(PRODUCT_ROWS * _nu)
    lx: np.ndarray = lanes(_nz)
    lu: np.ndarray = lanes(_nu)
    Hxx: np.ndarray = lanes(_nz * _nz)
    Hux: np.ndarray = lanes(_nu * _nz)
    Huu: np.ndarray = lanes(_nu * _nu)
    Hqu: np.ndarray = lanes(nv * _nu)


_slice_forces, force_size = slicing(ForceLanes)


# ------------------------------------------------------------------------------------------------ one knot per lane
@shared_kernel
def _solve(m, contacts, forces, B, skip, restitution, w, k):
    """Contact dynamics at (k.x, k.u), or the impact at k.x, the forces and moments in k.force, and k.r."""
    nq = k.x.shape[0] - m.dof_body.size
    w.Y[:] = 0.0
    if restitution is None:
        joint_torques(m, B, skip, k.x[:nq], k.x[nq:], k.u, k.tau)
        contact_dynamics_kernel(m, contacts, k.x[:nq], k.x[nq:], k.tau, w)
    else:
        contact_impulse_kernel(m, contacts, k.x[:nq], k.x[nq:], restitution, w)
    scale_into(k.force.shape[0], k.force, 1.0, w.f)
    force_components(contacts, w.points, k.force)
    force_rows(forces, k.force, k.r)


@shared_kernel
def _first_order(m, contacts, restitution, w, d, k):
    """Derivatives of the forces at what `_solve` found, in the axes asked for."""
    nq = k.x.shape[0] - m.dof_body.size
    if restitution is None:
        contact_first_order_at_solution(m, contacts, k.x[:nq], k.x[nq:], w, d, True)
    else:
        contact_impulse_first_order(m, contacts, k.x[:nq], k.x[nq:], restitution, w, d, k.jump, k.mean)
    to_given_axes(m, contacts, w, d)


@shared_kernel
def _second_order(m, contacts, restitution, w, d, h, k):
    """As `_first_order`, and the Hessian of h.y'z in h."""
    nq = k.x.shape[0] - m.dof_body.size
    if restitution is None:
        contact_hessian_at_solution(m, contacts, k.x[:nq], k.x[nq:], w, d, h)
    else:
        contact_impulse_hessian_kernel(m, contacts, k.x[:nq], k.x[nq:], restitution, w, d, h, k.jump, k.mean)
    to_given_axes(m, contacts, w, d)


@kernel
def _force_columns(m, B, skip, contacts, forces, s, d, k, row):
    """Derivatives of what part s reads into the rows `row` ... of k.Fx and k.Fu, after `to_given_axes`."""
    align_stack(k.Fx)
    n, nu = B.shape
    width = n + 3 * contacts.blocks
    for b in range(forces.blocks.shape[1]):
        first, at = n + 3 * forces.blocks[s, b], row + 3 * b
        for i in range(3):
            o = (at + i) * 2 * n
            for j in range(n):
                store(k.Fx, o + j, load(d.Gq, (first + i) * n + j))
                store(k.Fx, o + n + j, load(d.Gv, (first + i) * n + j))
        times_actuation(B, skip, d.Z[first * width :], width, k.Fu[at * nu : (at + 3) * nu])


@kernel
def _residual_rows(forces, columns, F, force, T):
    """T (nr columns) = dr/dF F, for all parts."""
    align_stack(T)
    S, rows, parts = forces.b.shape[0], forces.b.shape[1], forces.blocks.shape[1]
    for s in range(S):
        d, _ = force_direction(forces, force, s)
        for i in range(rows):
            for j in range(columns):
                y = splat(T, 0.0)
                for b in range(parts):
                    o = 3 * (s * parts + b) * columns + j
                    x = (load(F, o), load(F, o + columns), load(F, o + 2 * columns))
                    y += dot3(row_gradient(forces, s, i, b, d), x)
                store(T, (s * rows + i) * columns + j, y)


@kernel
def _gradient(rows, columns, F, g, out):
    """out (columns) = F'g"""
    for j in range(columns):
        x = splat(F, 0.0)
        for i in range(0, rows, 3):
            o = i * columns + j
            x += dot3(load3(g, i), (load(F, o), load(F, o + columns), load(F, o + 2 * columns)))
        store(out, j, x)


@kernel
def _mirror(n, H):
    """The upper triangle of H (n n) below the diagonal."""
    for i in range(n):
        for j in range(i):
            store(H, i * n + j, load(H, j * n + i))


@kernel
def _add_squares(rows, nz, nu, k):
    """Add F'T to the Hessians, F and T having this many rows."""
    align_stack(k.Hxx)
    add_product(True, rows, nz, nz, 1.0, 1.0, k.Fx, 1, nz, k.Tx, k.Hxx)
    add_product(False, rows, nu, nz, 1.0, 1.0, k.Fu, 1, nu, k.Tx, k.Hux)
    add_product(True, rows, nu, nu, 1.0, 1.0, k.Fu, 1, nu, k.Tu, k.Huu)
    _mirror(nz, k.Hxx)
    _mirror(nu, k.Huu)


@shared_kernel
def _store_force_hessian(B, skip, h, k):
    """The Hessian of g'f into k.Hxx, k.Hux and k.Huu; of qq the symmetric part of the Lie Hessian, and vv
    symmetric to the last bit."""
    n, nu = B.shape
    times_actuation(B, skip, h.Hqtau, n, k.Hqu)
    add_transpose(n, 0.5, h.Hqq)
    add_transpose(n, 0.5, h.Hvv)
    store_state_blocks(None, n, 2 * n, h, k.Hxx)
    store_control_blocks(None, n, nu, 2 * n, k.Hqu, k.Hux)
    k.Huu[:] = 0.0


@shared_kernel
def _differentiate(m, contacts, forces, B, skip, restitution, order, count, w, d, h, k):
    """Derivatives of the contact forces and, by order, h; those of parts with a weight in one of the
    first `count` lanes are gathered in k.Fx and k.Fu, k.g, k.G and k.K moved up with them.  Returns their rows."""
    n = m.dof_body.size
    S, parts = forces.blocks.shape
    width = 3 * parts
    size = width * width
    if order & HESSIAN:
        h.y[:] = 0.0
        for s in range(S):
            for i in range(width):
                store(h.y, n + 3 * forces.blocks[s, i // 3] + i % 3, load(k.g, s * width + i))
        _second_order(m, contacts, restitution, w, d, h, k)
    else:
        _first_order(m, contacts, restitution, w, d, k)
    used = 0
    for s in range(S):
        o, c = s * size, s * width
        second_order = any_nonzero(k.G, o, o + size, count) or any_nonzero(k.K, o, o + size, count)
        if second_order or any_nonzero(k.g, c, c + width, count):
            _force_columns(m, B, skip, contacts, forces, s, d, k, used * width)
            scale_into(width, k.g[used * width :], 1.0, k.g[c:])
            scale_into(size, k.G[used * size :], 1.0, k.G[o:])
            scale_into(size, k.K[used * size :], 1.0, k.K[o:])
            used += 1
    return used * width


@kernel
def _add_bent(rows, width, nz, nu, A, k):
    """Add sum F_s,z' A_s F_s,z to the Hessians, A_s symmetric of this width."""
    k.Tx[:], k.Tu[:] = 0.0, 0.0
    for row in range(0, rows, width):
        a, x, u = row * width, row * nz, row * nu
        add_product(False, width, width, nz, 1.0, 1.0, A[a:], width, 1, k.Fx[x:], k.Tx[x:])
        add_product(False, width, width, nu, 1.0, 1.0, A[a:], width, 1, k.Fu[u:], k.Tu[u:])
    _add_squares(rows, nz, nu, k)


@kernel
def _add_to(t, count, k, Hxx, Hux, Huu):
    """Add the Hessians of the lanes to those of the knots."""
    add_knots(k.Hxx, t, count, Hxx)
    add_knots(k.Hux, t, count, Hux)
    add_knots(k.Huu, t, count, Huu)


# ------------------------------------------------------------------------------------------------ drivers
@kernel
def _scatter_rows(m, contacts, forces, B, skip, t, w, d, k, rows):
    """r, and the Jacobians rx (K, nr, nz) and ru (K, nr, nu), of the knots from t on."""
    n, nu = B.shape
    parts = forces.blocks.shape[1]
    for s in range(forces.blocks.shape[0]):
        _force_columns(m, B, skip, contacts, forces, s, d, k, 3 * parts * s)
    _residual_rows(forces, 2 * n, k.Fx, k.force, k.Tx)
    _residual_rows(forces, nu, k.Fu, k.force, k.Tu)
    scatter(k.Tx, t, rows.rx)
    if nu > 0:
        scatter(k.Tu, t, rows.ru)


@driver
def drive_forces(
    first, last, work, block, contacts, forces, B, skip, restitution, layout, weights, start, stop, order, xs, us,
    values, rows, target, H,
):  # fmt: skip
    """As `RobotResidual._expand` has it; sums of squares of chunks are left in `values`.  H: Hxx, Hux, Huu."""
    m = kernel_model(block)
    contacts, forces = by_reference(contacts), by_reference(forces)
    n, nu = B.shape
    nz, nr = 2 * n, forces.b.size
    parts = forces.blocks.shape[1]
    lx, lu, lxx, lux, luu = target
    k, _ = _slice_forces(m, xs.shape[1], B, contacts, forces, work)
    w, d, h, row = k.w, k.d, k.h, k.row[: weights.shape[1]]
    for c in range(first, last):
        t = start + c * LANES
        count = min(LANES, stop - t)
        gather(xs, t, k.x)
        if restitution is None:
            gather(us, t, k.u)
        _solve(m, contacts, forces, B, skip, restitution, w, k)
        if rows.r.shape[0] > 0:
            scatter(k.r, t, rows.r)
        if rows.rx.shape[0] > 0:
            _first_order(m, contacts, restitution, w, d, k)
            _scatter_rows(m, contacts, forces, B, skip, t, w, d, k, rows)
        if weights.shape[0] == 0:
            continue
        values[c] = sum_lanes(weigh(layout, weights, c * LANES, k.r, row, k.mu, k.gauss_newton_weight), row, count)
        if order == VALUE or not (any_nonzero(k.mu, 0, nr, count) or any_nonzero(k.gauss_newton_weight, 0, nr, count)):
            continue
        force_expansion(forces, k.force, k.mu, k.gauss_newton_weight, k.g, k.G, k.K)
        used = _differentiate(m, contacts, forces, B, skip, restitution, order, count, w, d, h, k)
        if order & JACOBIAN:
            _gradient(used, nz, k.Fx, k.g, k.lx)
            _gradient(used, nu, k.Fu, k.g, k.lu)
            add_knots(k.lx, t, count, lx)
            add_knots(k.lu, t, count, lu)
            if not order & TOGETHER:
                k.Hxx[:], k.Hux[:], k.Huu[:] = 0.0, 0.0, 0.0
                _add_bent(used, 3 * parts, nz, nu, k.G, k)
                _add_to(t, count, k, lxx, lux, luu)
        if order & HESSIAN:
            _store_force_hessian(B, skip, h, k)
            if order & TOGETHER:
                add_scaled(3 * parts * used, k.K, 1.0, k.G)
            if order & TOGETHER or forces.smoothing > 0.0:
                _add_bent(used, 3 * parts, nz, nu, k.K, k)
            _add_to(t, count, k, *H)


class ForceKernels(NamedTuple):
    """What is compiled for residuals of contact forces, and of impulses."""

    drive: Any
    scratch_size: Callable[..., int]


FORCES = ForceKernels(drive_forces, force_size)


# --------------------------------------------------------------------------------------------
# What residuals of contact forces share: the contacts they are about, and the methods of a residual r(x, u).
#
# At an `Impact` they are about the impulses, which depend on the state alone.

if TYPE_CHECKING:
    from dynamics.systems.impact import Impact
    from dynamics.systems.rigid_body import RigidBodySystem

    InContact = RigidBodySystem | Impact

Frames = str | Sequence[str] | None
"""Names of frames in contact, or None for all."""


def contacts_of(system: InContact, frames: Frames) -> np.ndarray:
    """Places (S,) of the frames in the system's set of contacts; None for all of them.

    Raises: TypeError for a system that can have no contacts; ValueError if it has none, or for a frame that the model
    does not know, that is not in contact, or that comes twice, and for no frames.
    """
    if getattr(system, "contact_arrays", None) is None:
        raise TypeError(f"system: got {type(system).__name__}, expected a RigidBodySystem with contacts or an Impact")
    if system.frame_actuators is not None:
        raise ValueError("system: has actuators on frames, which residuals of contact forces do not take")
    contacts = system.contacts
    if len(contacts) == 0:
        raise ValueError("system: has no contacts, expected a RigidBodySystem with at least one")
    held = [contact.frame for contact in contacts.contacts]
    touching = [contact.frame for contact in contacts.contacts if isinstance(contact, FrameContact)]
    names = touching if frames is None else [frames] if isinstance(frames, str) else as_items("frames", frames, "names")
    for i, name in enumerate(names):
        system.model.frame(name)
        if name not in touching:
            raise ValueError(f"frames: {name!r} is not in contact, expected frames among {', '.join(touching)}")
        if name in names[:i]:
            raise ValueError(f"frames: got {name!r} twice")
    if not names:
        raise ValueError("frames: got none, expected the names of frames in contact, or None for all of them")
    return np.array([held.index(name) for name in names], dtype=np.int64)


def feet_of(system: InContact, frames: Frames) -> np.ndarray:
    """Places (S,) of frames held as `RigidContact`s; None for all that are.

    Raises: as `contacts_of`, and ValueError for a frame of which a point is held, or if no contact is rigid.
    """
    contact = contacts_of(system, frames)
    held, rigid = system.contacts.frames, system.contacts.rigid
    points = [held[c] for c in contact if c not in rigid]
    if frames is None and len(points) < len(contact):
        return np.array([c for c in contact if c in rigid], dtype=np.int64)
    if points:
        raise ValueError(f"frames: {points[0]!r} is held at a point, expected RigidContacts, which carry moments")
    return contact


def moment_blocks(contacts: ContactSet, contact: np.ndarray) -> np.ndarray:
    """The blocks (S,) of rows that are the moments of these contacts, all of them rigid."""
    return np.array([len(contacts) + contacts.rigid.index(c) for c in contact], dtype=np.int64)


def in_axes_of_frames(system: InContact, own: bool) -> ContactArrays | LoopArrays:
    """The system's arrays, all forces and moments of its contacts along the axes of their frames, or of the world."""
    contacts, local = system.contacts, np.zeros_like(system.contact_arrays.local)
    local[: sum(isinstance(held, FrameContact) for held in contacts.contacts) + len(contacts.rigid)] = own
    return system.contact_arrays._replace(local=local)


def normal_limits(least: float | None, most: float | None) -> tuple[float, float]:
    """Limits of a normal force: 0 and infinity where they are None; ValueError unless numbers in this order."""
    lower = 0.0 if least is None else as_number("min_normal_force", least)
    upper = np.inf if most is None else as_number("max_normal_force", most)
    if upper <= lower:
        raise ValueError(f"max_normal_force: got {upper}, expected more than the least, {lower}")
    return lower, upper


class ContactResidual(RobotResidual):
    """Base of the residuals r(x, u) made of the contact forces of one system, that is of one set of contacts.

    They have no value without controls, as at a terminal knot.  Each evaluation solves contact dynamics once.  Those of
    an impact are residuals r(x) of the impulses, N s and N m s in place of N and N m.
    """

    kernels: ClassVar[ForceKernels]
    reads_dynamics = True
    nu: int | None
    curved_in_controls: bool
    frames: tuple[str, ...]
    _forces: ForceMap
    _contacts: ContactArrays | LoopArrays
    _block: np.ndarray
    _B: np.ndarray
    _skip: int
    _restitution: float | None
    _scratch_size: int
    _subject: Subject

    def _prepare(
        self, system: InContact, contact: np.ndarray, contacts: ContactArrays | LoopArrays, forces: ForceMap
    ) -> None:
        """Keep what the drivers need: the contacts, whose `local` says in which axes forces count, and r of them."""
        (B, skip, _), nu, restitution = system.full_actuation, system.nu, system.restitution
        if restitution is not None:
            B, skip, nu = np.empty((len(B), 0)), -1, None
        held = system.contacts.contacts
        nr = forces.b.size
        arguments = {"nx": system.full.nq + system.full.nv, "B": B, "contacts": contacts, "forces": forces}
        scratch_size = self.kernels.scratch_size(system.full.arrays, **arguments)
        self._set(nr=nr, nu=nu, frames=tuple(held[c].frame for c in contact), curved_in_controls=nu is not None)
        self._set(_block=system.plant_model.block, _B=B, _skip=skip, _restitution=restitution)
        self._set(_forces=forces, _contacts=contacts, _scratch_size=scratch_size)
        self._set(_subject=system.serves[-1], _joint_map=system.joint_map)

    @property
    def made_for(self) -> Subject:
        """The robot with its actuation and its contacts."""
        return self._subject

    def _points(self, xs: ArrayLike, us: ArrayLike | None) -> tuple[np.ndarray, np.ndarray]:
        if us is None and self.nu is not None:
            given = len(np.atleast_1d(xs))
            raise ValueError(f"us: got None, expected ({given}, {self.nu}): {self.name} depend on the controls")
        return super()._points(xs, us)

    def _expand(self, *arguments):
        values, *launched = self._launched(*arguments)
        launch(*launched)
        return sum_of(values, 1.0)

    def _prepared(self, *arguments: Any) -> PreparedCalls:
        """See `RobotResidual._prepared`."""
        values, *launched = self._launched(*arguments)
        return PreparedCalls(PreparedLaunch(*launched), PreparedCall(sum_of, values, 1.0))

    def _launched(self, weights, start, stop, order, xs, us, rows, target, curvature) -> tuple[Any, ...]:
        """Sums of chunks, and arguments of `launch` that writes them."""
        if self.nu is not None and stop > len(us):
            raise ValueError(f"us: got {len(us)} rows, expected {stop}: {self.name} depend on the controls")
        if order == JACOBIAN | HESSIAN and target is curvature:
            order |= TOGETHER
        plant = self._block, self._contacts, self._forces, self._B, self._skip, self._restitution
        values = np.zeros(chunk_count(stop - start))
        where = values, rows, tuple(target), tuple(curvature[2:])
        span = weights.layout, weights.rows, start, stop, order
        return values, self.kernels.drive, stop - start, self._scratch_size, *plant, *span, xs, us, *where


class ContactForce(ContactResidual):
    """Forces on the robot at its contacts less a target, N, in the axes that each contact asks for.

    Parameters
    ----------
    system : RigidBodySystem with contacts, or Impact, of whose impulses it then is, N s
    frames : None (all contacts, in the system's order), the name of a frame in contact, or a list of them
    target : number, (3,) for each of the S contacts, or (S, 3), N

    Raises
    ------
    ValueError : a system without contacts, a frame unknown (with the nearest matches), not in contact or named twice,
        or a target of wrong shape or with non-finite entries.
    TypeError : a system of another kind.

    Notes
    -----
    nr = 3 S.  Of forces it depends on the controls, so it has no value at the terminal knot.
    """

    target_kind = VECTOR
    kernels = FORCES
    target: np.ndarray

    def __init__(self, system: InContact, frames: Frames = None, target: ArrayLike = 0.0) -> None:
        contact = contacts_of(system, frames)
        S = len(contact)
        target = as_array("target", target)
        if target.shape not in ((), (3,), (S, 3)):
            raise ValueError(f"target: got shape {target.shape}, expected a number, (3,) or ({S}, 3)")
        target = np.array(np.broadcast_to(target, (S, 3)), order="C")
        super().__init__(system.model, "contact forces")
        self._set(target=target, system=system)
        A = np.tile(np.eye(3), (S, 1, 1))
        self._prepare(system, contact, system.contact_arrays, ForceMap(contact[:, None], A, -target, np.zeros(3), 0.0))
