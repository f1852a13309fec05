"""Residuals of contact forces, or impulses, in the lanes: values, Jacobians, weighted squares to second order.

Of a function phi of the forces with gradient g, and matrix G or K in place of its Hessian in them, per part s, whose
blocks of forces and moments F_s is,

    gradient  sum F_s,z' g_s          Hessian  sum F_s,z' (G_s or K_s) F_s,z  +  Hessian of g'F          z = (q, v, u)

where the last one is what `dynamics.contacts.hessian` gives, once for all contacts.  Lanes where no part has a
weight, as where limits are kept, end with the values.

Impulses are asked for by their restitution, which is None for forces: a driver is compiled for each.  They depend on
no controls, so theirs are a B of no columns, and they are linear in v: Hvv is zero.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dynamics.actuation import joint_torques, times_actuation
from dynamics.contacts.contact_motion import force_components
from dynamics.contacts.contact_set import ContactSet
from dynamics.contacts.curvature import carve_second_order, second_order_numbers
from dynamics.contacts.derivatives import (
    carve_first_order,
    contact_first_order_at_solution,
    first_order_numbers,
    to_given_axes,
)
from dynamics.contacts.dynamics import ROWS, carve_workspace, contact_dynamics_kernel, workspace_numbers
from dynamics.contacts.hessian import contact_hessian_at_solution
from dynamics.contacts.impulse_hessian import contact_impulse_hessian_kernel
from dynamics.contacts.impulses import contact_impulse_first_order, contact_impulse_kernel
from dynamics.implicit_function import store_control_blocks, store_state_blocks
from dynamics.kernel_model import kernel_model
from dynamics.knot_driver import nv
from dynamics.lane_algebra import add_product, add_scaled, add_transpose, scale_into
from dynamics.model import RigidBodyModel
from dynamics.residuals.force_map import any_nonzero, force_direction, force_expansion, force_rows, row_gradient
from dynamics.residuals.robot_residual import HESSIAN, JACOBIAN, PRODUCTS, VALUE
from dynamics.residuals.squares import SQUARES_ROW, sum_lanes, weigh
from dynamics.simd import LANES, align_stack, driver, gather, kernel, load, scatter, shared_kernel, splat, store
from dynamics.simd.lane_blocks import carving, lanes
from dynamics.simd.references import by_reference
from dynamics.simd.sizes import Size
from dynamics.simd.tile_sums import add_knots
from dynamics.spatial import dot3, load3

TOGETHER = 8
"""A bit on top of JACOBIAN and HESSIAN: both go to the same arrays."""


_nx, _nu = Size("nx", "nx"), Size("nu", "nu")
_parts, _nr = Size("parts", "parts"), Size("nr", "nr")
_F = Size("F", "F")
PRODUCT_ROWS = _F.at_least(_nr)
_nz = 2 * nv


class ForceLanes(NamedTuple):
    """Lanes on top of those of contact dynamics: F components of forces and moments, nr numbers."""

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


_carve_force_lanes, _force_lane_numbers = carving(ForceLanes)


def force_numbers(model: RigidBodyModel, contacts: ContactSet, nu: int, blocks: np.ndarray, nr: int) -> int:
    """Scratch numbers per lane of the drivers, for the blocks of a `ForceMap` and nr numbers."""
    sizes = model.arrays, contacts.arrays
    shared = workspace_numbers(*sizes) + first_order_numbers(*sizes) + second_order_numbers(*sizes)
    F, parts = 3 * blocks.size, blocks.shape[1]
    return shared + _force_lane_numbers(model.arrays, model.nq + model.nv, nu, contacts.arrays, nr, F, parts)


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
    first, last, work, block, contacts, forces, B, skip, restitution, weights, start, stop, order, xs, us, values, rows,
    target, H,
):  # fmt: skip
    """As `RobotResidual._expand` has it; sums of squares of chunks are left in `values`.  H: Hxx, Hux, Huu."""
    m = kernel_model(block)
    contacts, forces = by_reference(contacts), by_reference(forces)
    n, nu = B.shape
    nz, nr = 2 * n, forces.b.size
    parts = forces.blocks.shape[1]
    F = 3 * forces.blocks.size
    lx, lu, lxx, lux, luu = target
    w, rest = carve_workspace(m, contacts, work)
    d, rest = carve_first_order(m, contacts, rest)
    h, rest = carve_second_order(m, contacts, rest)
    k, _ = _carve_force_lanes(m, xs.shape[1], nu, contacts, nr, F, parts, rest)
    row = k.row[: weights.shape[1]]
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
        if order & PRODUCTS:
            gather(weights, t, k.mu)
            k.gauss_newton_weight[:] = 0.0
        else:
            values[c] = sum_lanes(weigh(weights, c * LANES, k.r, row, k.mu, k.gauss_newton_weight), row, count)
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
    numbers: Callable[..., int]


FORCES = ForceKernels(drive_forces, force_numbers)
