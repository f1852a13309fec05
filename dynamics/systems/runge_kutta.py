"""Expansions of a step of any `Tableau`: first order forward through its rows, second order by one reverse sweep.

Matrices have nv rows and nz columns, the inputs z = (dq, dv, du), and dh where the duration h is free, by which O_i
and v_i are then differentiated as well.  Row i of the table, of a stage or of the end of the step, has

    eta_i = dO_i = h c_i P_v + h^2 sum_j P_ij da_j + h^3 sum_j D_ij d[v, a_j]
    dq_i  = A(O_i) P_q + Jr(O_i) eta_i                nu_i = dv_i = P_v + h sum_j V_ij da_j
    da_i  = a_q dq_i + a_v nu_i + a_u P_u

Backwards, covectors o_i of O_i and b_i of v_i give weights y_j of the accelerations that row i takes:

    y_j += h V_ij b_i + h^2 P_ij o_i + h^3 D_ij ad_v'o_i          o_j = Jr(O_j)'a_q'y_j,  b_j = a_v'y_j

from o = Jr(O)'lam_q and b = lam_v at the end.  Each row adds to the Hessian the geometry of its configuration and its
brackets, each stage the Hessian of y_j'a along (dq_j; nu_j; P_u), which at the first stage is that of y_1'a itself.
"""

from typing import NamedTuple

import numpy as np

from dynamics.derivatives.implicit_function import add_along, store_control_blocks, store_hessian, store_state_blocks
from dynamics.model.knot_driver import nv
from dynamics.model.model import RigidBodyModel
from dynamics.simd import align_stack, fma, helper, kernel, load, shared_kernel, splat, split, store
from dynamics.simd.lane_algebra import add_scaled, scale_into
from dynamics.simd.lane_blocks import lanes, slicing
from dynamics.simd.sizes import Size
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
    apply_map_transposed,
    integrate_configuration,
    tangent_maps,
)
from dynamics.systems.controlled_acceleration import (
    acceleration_derivatives,
    acceleration_hessian,
    hessian_at_acceleration,
)
from dynamics.systems.steps import Plant, acceleration, coefficients, duration_of, free_durations, increment, velocity

# ------------------------------------------------------------------------------------------------ scratch
_nq, _nz, _stages = Size("nq", "nq"), Size("nz", "nz"), Size("stages", "stages")


class Stage(NamedTuple):
    """The point of one stage, derivatives of its acceleration, and differentials."""

    O: np.ndarray = lanes(nv)
    v: np.ndarray = lanes(nv)
    q: np.ndarray = lanes(_nq)
    aq: np.ndarray = lanes(nv * nv)
    av: np.ndarray = lanes(nv * nv)
    dqv: np.ndarray = lanes(2 * nv * _nz)  # dq_i and nu_i
    da: np.ndarray = lanes(nv * _nz)
    eta: np.ndarray = lanes(nv * _nz)


class Sweep(NamedTuple):
    """The accelerations of all stages, the increment O of the whole step with its differential, and covectors."""

    acc: np.ndarray = lanes(_stages * nv)
    O: np.ndarray = lanes(nv)
    eta: np.ndarray = lanes(nv * _nz)
    y: np.ndarray = lanes(_stages * nv)
    o: np.ndarray = lanes(nv)
    b: np.ndarray = lanes(nv)
    x: np.ndarray = lanes(nv)
    R: np.ndarray = lanes(_nz)
    Z: np.ndarray = lanes(2 * nv * _nz)
    S: np.ndarray = lanes(4 * nv * nv)


_slice_stage, _stage_size = slicing(Stage)
_slice_sweep, _sweep_size = slicing(Sweep)


@helper
def _stage(m, nq, nz, stages, work, i):
    """Stage i, from zero, of those in `work`."""
    stage, _ = _slice_stage(m, nq, nz, work[i * (work.shape[0] // stages) :])
    return stage


@helper
def _slice_all(m, nq, nz, stages, work):
    """The scratch of all stages, and a `Sweep`."""
    _, rest = _slice_stage(m, nq, nz, work)
    each, w = split(work, stages * (work.shape[0] - rest.shape[0]))
    sweep, _ = _slice_sweep(m, stages, nz, w)
    return each, sweep


def runge_kutta_size(model: RigidBodyModel, nu: int, plant: Plant) -> int:
    """Size of `work` in either expansion, numbers per lane; nu with the duration where that is free."""
    m, nz, stages = model.arrays, 2 * model.nv + nu, len(plant.method.rows) - 1
    return stages * _stage_size(m, model.nq, nz) + _sweep_size(m, stages, nz)


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
def runge_kutta_first_order(m, p, q, v, u, d, e, work, F):
    """F (2 nv nz) of one step; work: `runge_kutta_size`."""
    (n, nu), table, timed = p.B.shape, p.method, free_durations(p.duration)
    h, nq, nz, stages = duration_of(p.duration, nu, u), q.shape[0], 2 * n + nu + timed, table.rows.shape[0] - 1
    each, w = _slice_all(m, nq, nz, stages, work)
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
def runge_kutta_second_order(m, p, q, v, u, lam, d, e, s, work, F, H):
    """H (nz nz) = Hessian of lam' of one step's output; lam (2 nv); F as `runge_kutta_first_order`, if it has rows."""
    (n, nu), table, timed = p.B.shape, p.method, free_durations(p.duration)
    h, nq, nz, stages = duration_of(p.duration, nu, u), q.shape[0], 2 * n + nu + timed, table.rows.shape[0] - 1
    each, w = _slice_all(m, nq, nz, stages, work)
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
            if F.shape[0] > 0:
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
