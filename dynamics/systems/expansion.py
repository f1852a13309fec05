"""First- and second-order expansions of one step in the tangent, one knot per lane.

With z = (dq, dv, du), and dh where the duration is free, and a covector lam = (lam_q, lam_v) at the step's output,

    output's tangent displacement = F z + O(z^2)          lam' of it = lam'F z + 1/2 z'H z + O(z^3)

Of Euler steps of fixed duration F and H are known blocks, with A and Jr those of the increment xi, q+ = q (+) xi:

    velocity rows            L = [h a_q, 1 + h a_v, h a_u]
    configuration rows       [A, h Jr, 0], or [A, 0, 0] + h Jr L of the semi-implicit step
    H = Hessian of y'a + geometry,    y = h lam_v, + h^2 Jr'lam_q of the semi-implicit step

A and Jr are the identity on Euclidean joints: there fx and fu are written apart from the start, as whole blocks leave
the lanes faster than parts of rows.  All other steps go through the rows of their table.  F is known on the way to H,
so that both come from one evaluation.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dynamics.derivatives.implicit_function import add_along, store_control_blocks, store_hessian, store_state_blocks
from dynamics.model.kernel_model import kernel_model
from dynamics.model.knot_driver import nv
from dynamics.simd import (
    LANES,
    align_stack,
    driver,
    fma,
    gather,
    helper,
    kernel,
    load,
    scatter,
    scatter_blocks,
    shared_kernel,
    splat,
    store,
)
from dynamics.simd.by_type import by_type
from dynamics.simd.lane_algebra import add_scaled, scale_into
from dynamics.simd.lane_blocks import lanes, part, part_by_type, size_of, slicing
from dynamics.simd.span import by_reference
from dynamics.spatial.tangent import (
    ADJOINT,
    JACOBIAN,
    add_bracket_hessian,
    add_bracket_matrix,
    add_bracket_rows,
    add_bracket_transposed,
    add_geometry,
    add_map,
    add_mapped_rows,
    add_velocity_geometry,
    apply_map_transposed,
    integrate_configuration,
    tangent_maps,
)
from dynamics.systems.controlled_acceleration import (
    Curvature,
    Derivatives,
    Dynamics,
    acceleration,
    acceleration_derivatives,
    acceleration_hessian,
    hessian_at_acceleration,
    nu,
)
from dynamics.systems.steps import (
    EuclideanEuler,
    LieEuler,
    Tableau,
    coefficients,
    duration_of,
    free_durations,
    increment,
    nq,
    stages,
    velocity,
)

nz = 2 * nv + nu
"""Number of columns of F."""


@helper
def _is_semi_implicit(method):
    """True if an Euler step moves the configuration along the new velocity."""
    return coefficients(method, 1, 0)[1] != 0.0


# ------------------------------------------------------------------------------------------------ Euclidean Euler steps
class EulerLanes(NamedTuple):
    """Scratch of fx and fu, or Hxx and Hux."""

    X: np.ndarray = lanes(4 * nv * nv)
    U: np.ndarray = lanes(2 * nv * nu)


@kernel
def _store_euler_blocks(n, nu, semi, h, e, fx, fu):
    """fx (2 nv 2 nv) and fu (2 nv nu), from the derivatives in e."""
    align_stack(fx)
    fx_v, fu_v = fx[2 * n * n :], fu[n * nu :]  # the rows of velocities
    for i in range(n):
        o = i * 2 * n
        for j in range(n):
            store(fx_v, o + j, h * load(e.aq, i * n + j))
            store(fx_v, o + n + j, h * load(e.av, i * n + j))
        store(fx_v, o + n + i, load(fx_v, o + n + i) + 1.0)
    scale_into(n * nu, fu_v, h, e.au)
    upper = 2 * n * n
    if semi:
        scale_into(upper, fx, h, fx_v)
        scale_into(n * nu, fu, h, fu_v)
    else:
        fx[:upper], fu[: n * nu] = 0.0, 0.0
    for i in range(n):
        o = i * 2 * n
        store(fx, o + i, load(fx, o + i) + 1.0)
        if not semi:
            store(fx, o + n + i, splat(fx, h))


@kernel
def _linearize_euler(m, p, kind, q, v, u, d, e, w, t, fx, fu):
    n, nu = p.B.shape
    acceleration_derivatives(m, p, q, v, u, d, e)
    _store_euler_blocks(n, nu, _is_semi_implicit(p.method), p.duration.h, e, w.X, w.U)
    scatter(w.X, t, fx)
    scatter(w.U, t, fu)


@shared_kernel
def _euler_second_order(m, p, q, v, u, lam, d, e, s, Hxx, Hux):
    """Hxx (2 nv 2 nv) and Hux (nu 2 nv); Huu = 0."""
    (n, nu), h = p.B.shape, p.duration.h
    scale_into(n, s.y, h, lam[n:])
    if _is_semi_implicit(p.method):
        add_scaled(n, s.y, h * h, lam)
    acceleration_hessian(m, p, q, v, u, d, e, s)
    store_state_blocks(None, n, 2 * n, s, Hxx)
    store_control_blocks(None, n, nu, 2 * n, s.Hqu, Hux)


@kernel
def _expand_euler(m, p, kind, q, v, u, lam, d, e, s, w, t, out):
    (n, nu), X, U = p.B.shape, w.X, w.U
    _euler_second_order(m, p, q, v, u, lam, d, e, s, X, U)
    scatter(X, t, out.Hxx)
    scatter(U, t, out.Hux)
    out.Huu[t : t + LANES] = 0.0
    if out.fx.shape[0] > 0:
        _store_euler_blocks(n, nu, _is_semi_implicit(p.method), p.duration.h, e, X, U)
        scatter(X, t, out.fx)
        scatter(U, t, out.fu)


# ------------------------------------------------------------------------------------------------ steps of whole rows
@helper
def _scatter_step(n, nu, t, F, fx, fu):
    """F (2 nv nz) to the knots from t on."""
    nz = 2 * n + nu
    scatter_blocks(F, t, 2 * n, nz, 0, fx)
    scatter_blocks(F, t, 2 * n, nz, 2 * n, fu)


@helper
def _scatter_expansion(n, nu, t, F, H, out):
    """H (nz nz), and F (2 nv nz) where it is asked for, to the knots from t on."""
    nz = 2 * n + nu
    scatter_blocks(H, t, 2 * n, nz, 0, out.Hxx)
    scatter_blocks(H[2 * n * nz :], t, nu, nz, 0, out.Hux)
    scatter_blocks(H[2 * n * nz :], t, nu, nz, 2 * n, out.Huu)
    if out.fx.shape[0] > 0:
        _scatter_step(n, nu, t, F, out.fx, out.fu)


# ------------------------------------------------------------------------------------------------ Euler steps on groups
class LieEulerLanes(NamedTuple):
    """Scratch of the first order."""

    F: np.ndarray = lanes(2 * nv * nz)
    xi: np.ndarray = lanes(nv)


class LieEulerExpansionLanes(NamedTuple):
    """Scratch of the second order."""

    F: np.ndarray = lanes(2 * nv * nz)
    H: np.ndarray = lanes(nz * nz)
    xi: np.ndarray = lanes(nv)
    mapped: np.ndarray = lanes(nv)  # Jr'lam_q


@kernel
def _store_velocity_rows(n, nu, h, e, F):
    """The rows L of F (2 nv nz)."""
    align_stack(F)
    nz = 2 * n + nu
    L = F[n * nz :]
    for i in range(n):
        for j in range(n):
            store(L, i * nz + j, h * load(e.aq, i * n + j))
            store(L, i * nz + n + j, h * load(e.av, i * n + j))
        store(L, i * nz + n + i, load(L, i * nz + n + i) + 1.0)
        for j in range(nu):
            store(L, i * nz + 2 * n + j, h * load(e.au, i * nu + j))


@kernel
def _store_configuration_rows(m, nu, semi, h, e, F):
    """The rows above L, with A and Jr in e.maps."""
    n = m.dof_body.size
    nz = 2 * n + nu
    F[: n * nz] = 0.0
    add_map(m, e.maps, ADJOINT, 1.0, F, 0, nz)
    if semi:
        add_mapped_rows(m, e.maps, JACOBIAN, h, F, n * nz, nz, F, 0, nz, nz)
    else:
        add_map(m, e.maps, JACOBIAN, h, F, n, nz)


@shared_kernel
def _lie_euler_first_order(m, p, q, v, u, d, e, xi, F):
    """F; xi (nv) becomes the increment."""
    (n, nu), h, semi = p.B.shape, p.duration.h, _is_semi_implicit(p.method)
    acceleration_derivatives(m, p, q, v, u, d, e)
    increment(m, None, p.method, 1, h, v, d.a, xi)
    tangent_maps(m, xi, e.maps)
    _store_velocity_rows(n, nu, h, e, F)
    _store_configuration_rows(m, nu, semi, h, e, F)


@shared_kernel
def _lie_euler_second_order(m, p, q, v, u, lam, d, e, s, w, both):
    """w.H, and w.F if `both` are asked for; w.xi becomes the increment."""
    (n, nu), h, semi, xi, F, H = p.B.shape, p.duration.h, _is_semi_implicit(p.method), w.xi, w.F, w.H
    nz = 2 * n + nu
    acceleration(m, p, q, v, u, d, d.a)
    increment(m, None, p.method, 1, h, v, d.a, xi)
    tangent_maps(m, xi, e.maps)
    scale_into(n, s.y, h, lam[n:])
    if semi:
        apply_map_transposed(m, e.maps, JACOBIAN, lam[:n], w.mapped)
        add_scaled(n, s.y, h * h, w.mapped)
    hessian_at_acceleration(m, p, q, v, u, d, e, s)
    store_hessian(None, n, nu, nz, s, s.Hqu, H)
    if semi or both:
        _store_velocity_rows(n, nu, h, e, F)
    if semi:
        add_geometry(m, e.maps, xi, lam, h, F, n * nz, nz, nz, H, 0, nz)
    else:
        add_velocity_geometry(m, e.maps, xi, lam, h, n, H, 0, nz)
    if both:
        _store_configuration_rows(m, nu, semi, h, e, F)


@kernel
def _linearize_lie_euler(m, p, kind, q, v, u, d, e, w, t, fx, fu):
    n, nu = p.B.shape
    _lie_euler_first_order(m, p, q, v, u, d, e, w.xi, w.F)
    _scatter_step(n, nu, t, w.F, fx, fu)


@kernel
def _expand_lie_euler(m, p, kind, q, v, u, lam, d, e, s, w, t, out):
    n, nu = p.B.shape
    _lie_euler_second_order(m, p, q, v, u, lam, d, e, s, w, out.fx.shape[0] > 0)
    _scatter_expansion(n, nu, t, w.F, w.H, out)


# --------------------------------------------------------------------------------------------
# Steps of any `Tableau`: first order forward through its rows, second order by one reverse sweep.
#
# Matrices have nv rows and nz columns, the inputs z = (dq, dv, du), and dh where the duration h is free, by which O_i
# and v_i are then differentiated as well.  Row i of the table, of a stage or of the end of the step, has
#
#     eta_i = dO_i = h c_i P_v + h^2 sum_j P_ij da_j + h^3 sum_j D_ij d[v, a_j]
#     dq_i  = A(O_i) P_q + Jr(O_i) eta_i                nu_i = dv_i = P_v + h sum_j V_ij da_j
#     da_i  = a_q dq_i + a_v nu_i + a_u P_u
#
# Backwards, covectors o_i of O_i and b_i of v_i give weights y_j of the accelerations that row i takes:
#
#     y_j += h V_ij b_i + h^2 P_ij o_i + h^3 D_ij ad_v'o_i          o_j = Jr(O_j)'a_q'y_j,  b_j = a_v'y_j
#
# from o = Jr(O)'lam_q and b = lam_v at the end.  Each row adds to the Hessian the geometry of its configuration and its
# brackets, each stage the Hessian of y_j'a along (dq_j; nu_j; P_u), which at the first stage is that of y_1'a itself.


class Stage(NamedTuple):
    """The point of one stage, derivatives of its acceleration, and differentials."""

    O: np.ndarray = lanes(nv)
    v: np.ndarray = lanes(nv)
    q: np.ndarray = lanes(nq)
    aq: np.ndarray = lanes(nv * nv)
    av: np.ndarray = lanes(nv * nv)
    dqv: np.ndarray = lanes(2 * nv * nz)  # dq_i and nu_i
    da: np.ndarray = lanes(nv * nz)
    eta: np.ndarray = lanes(nv * nz)


class Sweep(NamedTuple):
    """All stages one after the other, their accelerations, the increment O of the whole step with its differential, and
    covectors."""

    each: np.ndarray = lanes(stages * size_of(Stage))
    acc: np.ndarray = lanes(stages * nv)
    O: np.ndarray = lanes(nv)
    eta: np.ndarray = lanes(nv * nz)
    y: np.ndarray = lanes(stages * nv)
    o: np.ndarray = lanes(nv)
    b: np.ndarray = lanes(nv)
    x: np.ndarray = lanes(nv)
    R: np.ndarray = lanes(nz)
    Z: np.ndarray = lanes(2 * nv * nz)
    S: np.ndarray = lanes(4 * nv * nv)


class RowLanes(NamedTuple):
    """Scratch of the first order: F, and a `Sweep`."""

    F: np.ndarray = lanes(2 * nv * nz)
    sweep: Sweep = part(Sweep)


class RowExpansionLanes(NamedTuple):
    """Scratch of the second order: F, H, and a `Sweep`."""

    F: np.ndarray = lanes(2 * nv * nz)
    H: np.ndarray = lanes(nz * nz)
    sweep: Sweep = part(Sweep)


_slice_stage = slicing(Stage)[0]


@helper
def _stage(m, nq, nz, stages, work, i):
    """Stage i, from zero, of those in `work`."""
    stage, _ = _slice_stage(m, nq, nz - 2 * m.dof_body.size, work[i * (work.shape[0] // stages) :])
    return stage


# ------------------------------------------------------------------------------------------------ first order
@helper
def _add_selector(n, nz, column, s, X):
    """X += s times the unit matrix in the columns from `column`."""
    for i in range(n):
        o = i * nz + column + i
        store(X, o, load(X, o) + splat(X, s))


@helper
def _add_last_column(n, nz, s, x, X):
    """The last column of X (n nz) += s x."""
    for i in range(n):
        o = i * nz + nz - 1
        store(X, o, fma(splat(X, s), load(x, i), load(X, o)))


@kernel
def _increment_differential(m, table, i, timed, h, nq, nz, v, acc, each, eta):
    """eta = dO_i of row i of the table."""
    n, stages = m.dof_body.size, table.rows.shape[0] - 1
    eta[:] = 0.0
    _add_selector(n, nz, n, h * table.rows[i, 0], eta)
    if timed:
        _add_last_column(n, nz, table.rows[i, 0], v, eta)
    for j in range(i):
        a, da = acc[j * n :], _stage(m, nq, nz, stages, each, j).da
        _, P, D = coefficients(table, i, j)
        if P != 0.0:
            add_scaled(n * nz, eta, h * h * P, da)
            if timed:
                _add_last_column(n, nz, 2.0 * h * P, a, eta)
        if D != 0.0:
            add_bracket_rows(m, v, h * h * h * D, da, 0, nz, eta, 0, nz, nz)
            add_bracket_matrix(m, a, -(h * h * h) * D, eta, n, nz)
            if timed:
                add_bracket_rows(m, v, 3.0 * h * h * D, a, 0, 1, eta, nz - 1, nz, 1)


@kernel
def _velocity_differential(n, table, i, timed, h, m, nq, nz, acc, each, dv):
    """dv = nu_i of row i of the table."""
    stages = table.rows.shape[0] - 1
    dv[:] = 0.0
    _add_selector(n, nz, n, 1.0, dv)
    for j in range(i):
        V, _, _ = coefficients(table, i, j)
        if V != 0.0:
            add_scaled(n * nz, dv, h * V, _stage(m, nq, nz, stages, each, j).da)
            if timed:
                _add_last_column(n, nz, V, acc[j * n :], dv)


@kernel
def _configuration_differential(m, O, maps, eta, nz, dq):
    """dq = A(O) P_q + Jr(O) eta;  maps becomes those of O."""
    tangent_maps(m, O, maps)
    dq[:] = 0.0
    add_map(m, maps, ADJOINT, 1.0, dq, 0, nz)
    add_mapped_rows(m, maps, JACOBIAN, 1.0, eta, 0, nz, dq, 0, nz, nz)


@kernel
def _acceleration_differential(n, nu, nz, i, e, stage):
    """da_i from the derivatives in e, those by q and v kept."""
    align_stack(stage.da)
    dq, dv, da = stage.dqv[: n * nz], stage.dqv[n * nz :], stage.da
    if i == 0:
        for r in range(n):
            for j in range(n):
                store(da, r * nz + j, load(e.aq, r * n + j))
                store(da, r * nz + n + j, load(e.av, r * n + j))
            for j in range(2 * n, nz):
                store(da, r * nz + j, load(e.au, r * nu + j - 2 * n) if j < 2 * n + nu else splat(da, 0.0))
    else:
        scale_into(n * n, stage.aq, 1.0, e.aq)
        scale_into(n * n, stage.av, 1.0, e.av)
        for r in range(n):
            for j in range(nz):
                x = load(e.au, r * nu + j - 2 * n) if 2 * n <= j and j < 2 * n + nu else splat(da, 0.0)
                for k in range(n):
                    x = fma(load(e.aq, r * n + k), load(dq, k * nz + j), x)
                    x = fma(load(e.av, r * n + k), load(dv, k * nz + j), x)
                store(da, r * nz + j, x)


@shared_kernel
def _forward_stages(m, p, q, v, u, d, e, complete, each, acc):
    """All stages and their differentials; unless `complete`, the last one's acceleration without its derivatives."""
    (n, nu), table, timed = p.B.shape, p.method, free_durations(p.duration)
    h, nq, nz, stages = duration_of(p.duration, nu, u), q.shape[0], 2 * n + nu + timed, table.rows.shape[0] - 1
    for i in range(stages):
        s = _stage(m, nq, nz, stages, each, i)
        if i == 0:
            scale_into(n, s.v, 1.0, v)
            scale_into(nq, s.q, 1.0, q)
        else:
            increment(m, True, table, i, h, v, acc, s.O)
            integrate_configuration(m, q, s.O, s.q)
            velocity(n, table, i, h, v, acc, s.v)
            _increment_differential(m, table, i, timed, h, nq, nz, v, acc, each, s.eta)
            _configuration_differential(m, s.O, e.maps, s.eta, nz, s.dqv[: n * nz])
            _velocity_differential(n, table, i, timed, h, m, nq, nz, acc, each, s.dqv[n * nz :])
        if complete or i < stages - 1:
            acceleration_derivatives(m, p, s.q, s.v, u, d, e)
            _acceleration_differential(n, nu, nz, i, e, s)
        else:
            acceleration(m, p, s.q, s.v, u, d, d.a)
        scale_into(n, acc[i * n :], 1.0, d.a)


@kernel
def _store_step(m, p, h, nq, nz, each, w, maps, F):
    """F (2 nv nz) of the step from its stages; maps becomes those of O."""
    n, stages, timed = m.dof_body.size, p.method.rows.shape[0] - 1, free_durations(p.duration)
    _configuration_differential(m, w.O, maps, w.eta, nz, F[: n * nz])
    _velocity_differential(n, p.method, stages, timed, h, m, nq, nz, w.acc, each, F[n * nz : 2 * n * nz])


@shared_kernel
def _runge_kutta_first_order(m, p, q, v, u, d, e, w, F):
    """F (2 nv nz) of one step; w: a `Sweep`."""
    (n, nu), table, timed = p.B.shape, p.method, free_durations(p.duration)
    h, nq, nz, stages = duration_of(p.duration, nu, u), q.shape[0], 2 * n + nu + timed, table.rows.shape[0] - 1
    each = w.each
    _forward_stages(m, p, q, v, u, d, e, True, each, w.acc)
    increment(m, True, table, stages, h, v, w.acc, w.O)
    _increment_differential(m, table, stages, timed, h, nq, nz, v, w.acc, each, w.eta)
    _store_step(m, p, h, nq, nz, each, w, e.maps, F)


# ------------------------------------------------------------------------------------------------ second order
@helper
def _transposed_product(n, A, x, y):
    """y = A'x for A (n n)"""
    for j in range(n):
        s = splat(y, 0.0)
        for i in range(n):
            s = fma(load(A, i * n + j), load(x, i), s)
        store(y, j, s)


@helper
def _contract(n, nz, s, k, X, R):
    """R += s k'X for X (n nz)"""
    for i in range(n):
        x = s * load(k, i)
        for j in range(nz):
            store(R, j, fma(x, load(X, i * nz + j), load(R, j)))


@kernel
def _add_weights(m, table, i, h, v, o, b, y):
    """The weights y_j of the accelerations += what row i of the table gives them of its covectors o and b."""
    n = m.dof_body.size
    for j in range(i):
        y_j = y[j * n : (j + 1) * n]
        V, P, D = coefficients(table, i, j)
        if V != 0.0:
            add_scaled(n, y_j, h * V, b)
        if P != 0.0:
            add_scaled(n, y_j, h * h * P, o)
        if D != 0.0:
            add_bracket_transposed(m, v, h * h * h * D, o, y_j)


@kernel
def _add_row_curvature(m, table, i, timed, h, nq, nz, v, each, w, H):
    """H += the brackets of row i under its covector w.o.

    Where the duration is free w.R += o'd(O_h) + 1/2 o'O_hh dh + b'd(v_h), so that R'dh + dh'R has all second
    derivatives by h."""
    n, stages, last = m.dof_body.size, table.rows.shape[0] - 1, nz - 1
    if timed:
        for r in range(n):
            store(w.R, n + r, fma(splat(w.R, table.rows[i, 0]), load(w.o, r), load(w.R, n + r)))
    for j in range(i):
        V, P, D = coefficients(table, i, j)
        a, da = w.acc[j * n :], _stage(m, nq, nz, stages, each, j).da
        if D != 0.0:
            add_bracket_hessian(m, w.o, h * h * h * D, n, da, 0, nz, nz, H, 0, nz)
        if timed:
            if V != 0.0:
                _contract(n, nz, V, w.b, da, w.R)
            if P != 0.0:
                _contract(n, nz, 2.0 * h * P, w.o, da, w.R)
                for r in range(n):
                    store(w.R, last, fma(P * load(w.o, r), load(a, r), load(w.R, last)))
            if D != 0.0:
                w.x[:] = 0.0
                add_bracket_transposed(m, v, 3.0 * h * D, w.o, w.x)
                _contract(n, nz, h, w.x, da, w.R)
                for r in range(n):
                    store(w.R, last, fma(load(w.x, r), load(a, r), load(w.R, last)))
                w.x[:] = 0.0
                add_bracket_transposed(m, a, -3.0 * h * h * D, w.o, w.x)
                for r in range(n):
                    store(w.R, n + r, load(w.R, n + r) + load(w.x, r))


@kernel
def _add_stage_hessian(n, nu, nz, i, s, X, Z, S, H):
    """H += X'[Hqq Hqv Hqu; . Hvv 0; . . 0]X for X = (dq; dv; P_u), of which the first two come; Z and S are scratch."""
    if i == 0:
        store_hessian(True, n, nu, nz, s, s.Hqu, H)
    else:
        store_state_blocks(None, n, 2 * n, s, S)
        Z[:] = 0.0
        store_control_blocks(None, n, nu, 2 * n, s.Hqu, Z[4 * n * n :])
        add_along(2 * n, nz, X, Z, S, H)


@shared_kernel
def _runge_kutta_second_order(m, p, q, v, u, lam, d, e, s, w, both, F, H):
    """H (nz nz) = Hessian of lam' of one step's output, lam (2 nv), and F (2 nv nz) if `both` are asked for."""
    (n, nu), table, timed = p.B.shape, p.method, free_durations(p.duration)
    h, nq, nz, stages = duration_of(p.duration, nu, u), q.shape[0], 2 * n + nu + timed, table.rows.shape[0] - 1
    each = w.each
    H[:], w.y[:], w.R[:] = 0.0, 0.0, 0.0
    _forward_stages(m, p, q, v, u, d, e, False, each, w.acc)
    increment(m, True, table, stages, h, v, w.acc, w.O)
    tangent_maps(m, w.O, e.maps)
    apply_map_transposed(m, e.maps, JACOBIAN, lam[:n], w.o)
    scale_into(n, w.b, 1.0, lam[n:])
    for i in range(stages - 1, -1, -1):
        t, y = _stage(m, nq, nz, stages, each, i), w.y[i * n : (i + 1) * n]
        if i == stages - 1:
            _add_weights(m, table, stages, h, v, w.o, w.b, w.y)
            scale_into(n, s.y, 1.0, y)
            hessian_at_acceleration(m, p, t.q, t.v, u, d, e, s)
            _acceleration_differential(n, nu, nz, i, e, t)
            _increment_differential(m, table, stages, timed, h, nq, nz, v, w.acc, each, w.eta)
            add_geometry(m, e.maps, w.O, lam, 1.0, w.eta, 0, nz, nz, H, 0, nz)
            _add_row_curvature(m, table, stages, timed, h, nq, nz, v, each, w, H)
            if both:
                _store_step(m, p, h, nq, nz, each, w, e.maps, F)
        else:
            scale_into(n, s.y, 1.0, y)
            acceleration_hessian(m, p, t.q, t.v, u, d, e, s)
        _add_stage_hessian(n, nu, nz, i, s, t.dqv, w.Z, w.S, H)
        if i > 0:
            _transposed_product(n, t.aq, y, w.x)
            _transposed_product(n, t.av, y, w.b)
            tangent_maps(m, t.O, e.maps)
            add_geometry(m, e.maps, t.O, w.x, 1.0, t.eta, 0, nz, nz, H, 0, nz)
            apply_map_transposed(m, e.maps, JACOBIAN, w.x, w.o)
            _add_weights(m, table, i, h, v, w.o, w.b, w.y)
            _add_row_curvature(m, table, i, timed, h, nq, nz, v, each, w, H)
    if timed:
        for j in range(nz):
            at, back = (nz - 1) * nz + j, j * nz + nz - 1
            store(H, at, load(H, at) + load(w.R, j))
            store(H, back, load(H, back) + load(w.R, j))


@kernel
def _linearize_rows(m, p, kind, q, v, u, d, e, w, t, fx, fu):
    _runge_kutta_first_order(m, p, q, v, u, d, e, w.sweep, w.F)
    _scatter_step(p.B.shape[0], u.shape[0], t, w.F, fx, fu)


@kernel
def _expand_rows(m, p, kind, q, v, u, lam, d, e, s, w, t, out):
    _runge_kutta_second_order(m, p, q, v, u, lam, d, e, s, w.sweep, out.fx.shape[0] > 0, w.F, w.H)
    _scatter_expansion(p.B.shape[0], u.shape[0], t, w.F, w.H, out)


# ------------------------------------------------------------------------------------------------ drivers
_linearize = by_type(
    "kind", {EuclideanEuler: _linearize_euler, LieEuler: _linearize_lie_euler, Tableau: _linearize_rows}
)
_expand = by_type("kind", {EuclideanEuler: _expand_euler, LieEuler: _expand_lie_euler, Tableau: _expand_rows})


class FirstOrderLanes(NamedTuple):
    """Scratch of `drive_linearization`."""

    d: Dynamics = part(Dynamics, contacts="p.contacts")
    e: Derivatives = part(Derivatives, nu="p.B.shape[1]", contacts="p.contacts", actuators="p.actuators")
    x: np.ndarray = lanes(nq + nv)
    u: np.ndarray = lanes(nu)
    step: EulerLanes | LieEulerLanes | RowLanes = part_by_type(
        "kind", {EuclideanEuler: EulerLanes, LieEuler: LieEulerLanes, Tableau: RowLanes}
    )


class SecondOrderLanes(NamedTuple):
    """Scratch of `drive_expansion`."""

    d: Dynamics = part(Dynamics, contacts="p.contacts")
    e: Derivatives = part(Derivatives, nu="p.B.shape[1]", contacts="p.contacts", actuators="p.actuators")
    s: Curvature = part(Curvature, nu="p.B.shape[1]", contacts="p.contacts")
    x: np.ndarray = lanes(nq + nv)
    u: np.ndarray = lanes(nu)
    lam: np.ndarray = lanes(2 * nv)
    step: EulerLanes | LieEulerExpansionLanes | RowExpansionLanes = part_by_type(
        "kind", {EuclideanEuler: EulerLanes, LieEuler: LieEulerExpansionLanes, Tableau: RowExpansionLanes}
    )


_slice_first_order, linearization_size = slicing(FirstOrderLanes)
_slice_second_order, expansion_size = slicing(SecondOrderLanes)


@driver
def drive_linearization(first, last, work, block, p, kind, x, u, fx, fu):
    """fx[t], fu[t] of the `Plant` p at (x[t], u[t]), knots in lanes; kind: `expanded_as`."""
    m = kernel_model(block)
    p = by_reference(p)
    knots, nu = u.shape
    nq = x.shape[1] - m.dof_body.size
    w, _ = _slice_first_order(m, nq, nu, p, kind, work)
    for c in range(first, last):
        gather(x[:knots], c * LANES, w.x)
        gather(u, c * LANES, w.u)
        _linearize(m, p, kind, w.x[:nq], w.x[nq:], w.u, w.d, w.e, w.step, c * LANES, fx, fu)


class Expansion(NamedTuple):
    """Arrays that an expansion is written to; fx and fu may be of no knots."""

    fx: np.ndarray
    fu: np.ndarray
    Hxx: np.ndarray
    Hux: np.ndarray
    Huu: np.ndarray


@driver
def drive_expansion(first, last, work, block, p, kind, x, u, lam, out):
    """Hxx[t], Hux[t], Huu[t]: Hessian of lam[t]'f of the `Plant` p at (x[t], u[t]), knots in lanes; fx[t] and fu[t]
    too, unless these are arrays of no knots.  kind: `expanded_as`; out: an `Expansion`."""
    m = kernel_model(block)
    p = by_reference(p)
    knots, nu = u.shape
    nq = x.shape[1] - m.dof_body.size
    w, _ = _slice_second_order(m, nq, nu, p, kind, work)
    for c in range(first, last):
        gather(x[:knots], c * LANES, w.x)
        gather(u, c * LANES, w.u)
        gather(lam, c * LANES, w.lam)
        _expand(m, p, kind, w.x[:nq], w.x[nq:], w.u, w.lam, w.d, w.e, w.s, w.step, c * LANES, out)
