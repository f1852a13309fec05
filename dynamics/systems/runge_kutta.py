"""Expansions of the RK4 step of `steps`: first order forward through the stages, second order by one reverse sweep.

Matrices have nv rows and nz columns, the inputs z = (dq, dv, du), and dh where the duration h is free; O_i(v, a_1, ...,
h) is then differentiated by h as well.  Per stage i, at increment O_i,

    eta_i = dO_i        dq_i = A(O_i) P_q + Jr(O_i) eta_i        nu_i = P_v + factor da_(i-1)
    da_i  = a_q dq_i + a_v nu_i + a_u P_u
"""

from typing import NamedTuple

import numpy as np

from dynamics.derivatives.implicit_function import add_along, store_control_blocks, store_state_blocks
from dynamics.model.knot_driver import nv
from dynamics.model.model import RigidBodyModel
from dynamics.simd import align_stack, carve, fma, helper, kernel, load, shared_kernel, splat, store
from dynamics.simd.lane_algebra import add_scaled, combine, scale_into
from dynamics.simd.lane_blocks import carving, lanes
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
from dynamics.systems.controlled_acceleration import acceleration_derivatives, acceleration_hessian
from dynamics.systems.steps import duration, durations_behind, stage_factor, stage_increment

# ------------------------------------------------------------------------------------------------ what a stage keeps
_nq, _nz = Size("nq", "nq"), Size("nz", "nz")


class Stage(NamedTuple):
    """Of one stage."""

    O: np.ndarray = lanes(nv)
    v: np.ndarray = lanes(nv)
    q: np.ndarray = lanes(_nq)
    aq: np.ndarray = lanes(nv * nv)
    av: np.ndarray = lanes(nv * nv)
    dqv: np.ndarray = lanes(2 * nv * _nz)  # dq_i and nu_i
    da: np.ndarray = lanes(nv * _nz)
    eta: np.ndarray = lanes(nv * _nz)


class Increment(NamedTuple):
    """Of the whole step: all stages' accelerations, O and its differential."""

    acc: np.ndarray = lanes(4 * nv)
    O: np.ndarray = lanes(nv)
    eta: np.ndarray = lanes(nv * _nz)


class StageCovectors(NamedTuple):
    """Of the reverse sweep."""

    Z: np.ndarray = lanes(2 * nv * _nz)
    S: np.ndarray = lanes(4 * nv * nv)
    lO: np.ndarray = lanes(nv)
    o: np.ndarray = lanes(nv)
    b: np.ndarray = lanes(nv)
    k: np.ndarray = lanes(nv)
    o4: np.ndarray = lanes(nv)
    R: np.ndarray = lanes(_nz)
    y: np.ndarray = lanes(nv)


_carve_stage, _stage_numbers = carving(Stage)
_carve_increment, _increment_numbers = carving(Increment)
_carve_covectors, _covector_numbers = carving(StageCovectors)


@helper
def _stage(m, nq, nz, stages, i):
    """Stage i = 0 ... 3 of the four in `stages`."""
    stage, _ = _carve_stage(m, nq, nz, stages[i * (stages.shape[0] // 4) :])
    return stage


@helper
def _carve_all(m, nq, nz, work):
    """The scratch of all stages, an `Increment`, and the rest."""
    _, rest = _carve_stage(m, nq, nz, work)
    stages, w = carve(work, 4 * (work.shape[0] - rest.shape[0]))
    step, w = _carve_increment(m, nz, w)
    return stages, step, w


def runge_kutta_numbers(model: RigidBodyModel, nu: int) -> int:
    """Scratch numbers per lane of either expansion; nu with the duration where that is free."""
    m, nz = model.arrays, 2 * model.nv + nu
    return 4 * _stage_numbers(m, model.nq, nz) + _increment_numbers(m, nz) + _covector_numbers(m, nz)


# ------------------------------------------------------------------------------------------------ first order
@helper
def _add_selector(n, nz, column, s, X):
    """X += s times the unit matrix in the columns from `column`."""
    for i in range(n):
        o = i * nz + column + i
        store(X, o, load(X, o) + splat(X, s))


@kernel
def _add_increment_rate(m, stage, h, n, v, acc, X, nz):
    """The last column of X += dO_(stage+1)/dh, see `stage_increment`."""
    at = nz - 1
    for i in range(n):
        x = (0.5 if stage <= 2 else 1.0) * load(v, i)
        if stage == 2:
            x = fma(0.5 * h, load(acc, i), x)
        elif stage == 3:
            x = fma(h, load(acc, n + i), x)
        elif stage == 4:
            x = fma(h / 3, load(acc, i) + load(acc, n + i) + load(acc, 2 * n + i), x)
        store(X, i * nz + at, load(X, i * nz + at) + x)
    if stage == 2:
        add_bracket_rows(m, v, h * h * (3 / 16), acc, 0, 1, X, at, nz, 1)
    elif stage == 4:
        add_bracket_rows(m, v, h * h / 4, acc, 2 * n, 1, X, at, nz, 1)


@helper
def _add_last_column(n, nz, s, x, X):
    """The last column of X (n nz) += s x."""
    for i in range(n):
        o = i * nz + nz - 1
        store(X, o, fma(s, load(x, i), load(X, o)))


@kernel
def _increment_differential(m, stage, timed, h, nq, nz, v, acc, stages, eta):
    """eta = dO_(stage+1), or that of the whole increment O for stage 4; see `stage_increment`."""
    n = m.dof_body.size
    eta[:] = 0.0
    _add_selector(n, nz, n, 0.5 * h if stage <= 2 else h, eta)
    if stage == 2:
        da = _stage(m, nq, nz, stages, 0).da
        add_scaled(n * nz, eta, h * h / 4, da)
        add_bracket_rows(m, v, h * h * h / 16, da, 0, nz, eta, 0, nz, nz)
        add_bracket_matrix(m, acc[:n], -(h * h * h) / 16, eta, n, nz)
    elif stage == 3:
        add_scaled(n * nz, eta, h * h / 2, _stage(m, nq, nz, stages, 1).da)
    elif stage == 4:
        for i in range(3):
            add_scaled(n * nz, eta, h * h / 6, _stage(m, nq, nz, stages, i).da)
        add_bracket_rows(m, v, h * h * h / 12, _stage(m, nq, nz, stages, 2).da, 0, nz, eta, 0, nz, nz)
        add_bracket_matrix(m, acc[2 * n : 3 * n], -(h * h * h) / 12, eta, n, nz)
    if timed:
        _add_increment_rate(m, stage, h, n, v, acc, eta, nz)


@kernel
def _configuration_rows(m, O, maps, eta, nz, dq):
    """dq = A(O) P_q + Jr(O) eta;  maps becomes those of O."""
    tangent_maps(m, O, maps)
    dq[:] = 0.0
    add_map(m, maps, ADJOINT, 1.0, dq, 0, nz)
    add_mapped_rows(m, maps, JACOBIAN, 1.0, eta, 0, nz, dq, 0, nz, nz)


@kernel
def _acceleration_rows(n, nu, nz, aq, av, au, dq, dv, da):
    """da = a_q dq + a_v dv + a_u P_u"""
    align_stack(da)
    for i in range(n):
        for j in range(nz):
            x = load(au, i * nu + j - 2 * n) if 2 * n <= j and j < 2 * n + nu else splat(da, 0.0)
            for k in range(n):
                x = fma(load(aq, i * n + k), load(dq, k * nz + j), x)
                x = fma(load(av, i * n + k), load(dv, k * nz + j), x)
            store(da, i * nz + j, x)


@shared_kernel
def _forward_stages(m, p, q, v, u, d, e, stages, acc, O, eta):
    """All stages and their differentials; O and eta of the whole step, e.maps at O."""
    (n, nu), timed = p.B.shape, durations_behind(p.integrator)
    h, nz, nq = duration(p.integrator, nu, u), 2 * n + nu + timed, q.shape[0]
    for i in range(4):
        Oi, vi, qi, aq, av, dqv, da, etai = _stage(m, nq, nz, stages, i)
        dq, dv = dqv[: n * nz], dqv[n * nz :]
        dv[:] = 0.0
        _add_selector(n, nz, n, 1.0, dv)
        if i == 0:
            scale_into(n, vi, 1.0, v)
            scale_into(nq, qi, 1.0, q)
            dq[:] = 0.0
            _add_selector(n, nz, 0, 1.0, dq)
        else:
            stage_increment(m, i, h, v, acc, Oi)
            integrate_configuration(m, q, Oi, qi)
            combine(n, vi, v, stage_factor(i, h), acc[(i - 1) * n : i * n])
            _increment_differential(m, i, timed, h, nq, nz, v, acc, stages, etai)
            _configuration_rows(m, Oi, e.maps, etai, nz, dq)
            add_scaled(n * nz, dv, stage_factor(i, h), _stage(m, nq, nz, stages, i - 1).da)
            if timed:
                _add_last_column(n, nz, stage_factor(i, 1.0), acc[(i - 1) * n :], dv)
        acceleration_derivatives(m, p, qi, vi, u, d, e)
        scale_into(n, acc[i * n :], 1.0, d.a)
        scale_into(n * n, aq, 1.0, e.aq)
        scale_into(n * n, av, 1.0, e.av)
        _acceleration_rows(n, nu, nz, aq, av, e.au, dq, dv, da)
    stage_increment(m, 4, h, v, acc, O)
    _increment_differential(m, 4, timed, h, nq, nz, v, acc, stages, eta)


@kernel
def _step_rows(m, timed, nq, nz, h, O, maps, acc, eta, stages, F):
    """F (2 nv nz) of the step from its stages, O and eta; maps becomes those of O."""
    n = m.dof_body.size
    _configuration_rows(m, O, maps, eta, nz, F[: n * nz])
    V = F[n * nz : 2 * n * nz]
    V[:] = 0.0
    _add_selector(n, nz, n, 1.0, V)
    for i in range(4):
        add_scaled(n * nz, V, h / 3 if 1 <= i <= 2 else h / 6, _stage(m, nq, nz, stages, i).da)
        if timed:
            _add_last_column(n, nz, 1 / 3 if 1 <= i <= 2 else 1 / 6, acc[i * n :], V)


@shared_kernel
def runge_kutta_first_order(m, p, q, v, u, d, e, work, F):
    """F (2 nv, nz) of one step; work: `runge_kutta_numbers`."""
    (n, nu), timed = p.B.shape, durations_behind(p.integrator)
    nz, nq, h = 2 * n + nu + timed, q.shape[0], duration(p.integrator, nu, u)
    stages, (acc, O, eta), _ = _carve_all(m, nq, nz, work)
    _forward_stages(m, p, q, v, u, d, e, stages, acc, O, eta)
    _step_rows(m, timed, nq, nz, h, O, e.maps, acc, eta, stages, F)


# ------------------------------------------------------------------------------------------------ second order
@helper
def _transposed(n, A, x, y):
    """y = A'x for A (n n)"""
    for j in range(n):
        s = splat(y, 0.0)
        for i in range(n):
            s = fma(load(A, i * n + j), load(x, i), s)
        store(y, j, s)


@kernel
def _add_acceleration_hessian(n, nu, nz, s, X, Z, S, H):
    """H += X'[Hqq Hqv Hqu; . Hvv 0; . . 0]X for X = (dq; dv; P_u), of which the first two come; Z and S are scratch."""
    store_state_blocks(None, n, 2 * n, s, S)
    Z[:] = 0.0
    store_control_blocks(None, n, nu, 2 * n, s.Hqu, Z[4 * n * n :])
    add_along(2 * n, nz, X, Z, S, H)


@helper
def _contract(n, nz, s, k, X, R):
    """R += s k'X for X (n nz)"""
    for i in range(n):
        x = s * load(k, i)
        for j in range(nz):
            store(R, j, fma(x, load(X, i * nz + j), load(R, j)))


@kernel
def _contract_rate(m, stage, h, nq, nz, v, acc, k, stages, y, R):
    """R += k'd(O_h) + 1/2 k'O_hh e_h for O_(stage+1), so that R'e_h' + e_h R has all second derivatives by h; y (nv) is
    scratch."""
    n, last = m.dof_body.size, nz - 1
    hh = splat(R, 0.0)
    for i in range(n):
        store(R, n + i, fma(0.5 if stage <= 2 else 1.0, load(k, i), load(R, n + i)))
    if stage == 2:
        _contract(n, nz, 0.5 * h, k, _stage(m, nq, nz, stages, 0).da, R)
        for i in range(n):
            hh = fma(0.25 * load(k, i), load(acc, i), hh)
    elif stage == 3:
        _contract(n, nz, h, k, _stage(m, nq, nz, stages, 1).da, R)
        for i in range(n):
            hh = fma(0.5 * load(k, i), load(acc, n + i), hh)
    elif stage == 4:
        for j in range(3):
            _contract(n, nz, h / 3, k, _stage(m, nq, nz, stages, j).da, R)
            for i in range(n):
                hh = fma((1 / 6) * load(k, i), load(acc, j * n + i), hh)
    if stage == 2 or stage == 4:  # brackets of v with a_1, a_3
        other, s = (0, 3 / 16) if stage == 2 else (2, 1 / 4)
        a = acc[other * n : (other + 1) * n]
        y[:] = 0.0
        add_bracket_transposed(m, v, s * h, k, y)
        _contract(n, nz, h, y, _stage(m, nq, nz, stages, other).da, R)
        for i in range(n):
            hh = fma(load(y, i), load(a, i), hh)
        y[:] = 0.0
        add_bracket_transposed(m, a, -s * h * h, k, y)
        for i in range(n):
            store(R, n + i, load(R, n + i) + load(y, i))
    store(R, last, load(R, last) + hh)


@shared_kernel
def runge_kutta_second_order(m, p, q, v, u, lam, d, e, s, work, F, H):
    """H (nz nz) += Hessian of lam' of one step's output; lam (2 nv); F as `runge_kutta_first_order`, if it has
    rows.  Weights of the stages' accelerations, last first:

    w4 = h/6 lam_v                         w3 = h/3 lam_v + h^2/6 lO + h^3/12 ad_v'lO + h b4
    w2 = h/3 lam_v + h^2/6 lO + h^2/2 o4 + h/2 b3
    w1 = h/6 lam_v + h^2/6 lO + h^2/4 o3 + h^3/16 ad_v'o3 + h/2 b2

    with lO = Jr(O)'lam_q,  k_i = a_q'w_i,  o_i = Jr(O_i)'k_i,  b_i = a_v'w_i."""
    (n, nu), timed = p.B.shape, durations_behind(p.integrator)
    h, nz, nq = duration(p.integrator, nu, u), 2 * n + nu + timed, q.shape[0]
    stages, (acc, O, eta), w = _carve_all(m, nq, nz, work)
    _forward_stages(m, p, q, v, u, d, e, stages, acc, O, eta)
    (Z, S, lO, o, b, k, o4, R, y), _ = _carve_covectors(m, nz, w)
    lam_q, lam_v = lam[:n], lam[n:]
    if F.shape[0] > 0:
        _step_rows(m, timed, nq, nz, h, O, e.maps, acc, eta, stages, F)
    else:
        tangent_maps(m, O, e.maps)
    add_geometry(m, e.maps, O, lam_q, 1.0, eta, 0, nz, nz, H, 0, nz)
    apply_map_transposed(m, e.maps, JACOBIAN, lam_q, lO)
    R[:] = 0.0
    if timed:
        _contract_rate(m, 4, h, nq, nz, v, acc, lO, stages, y, R)
        for i in range(4):
            _contract(n, nz, 1 / 3 if 1 <= i <= 2 else 1 / 6, lam_v, _stage(m, nq, nz, stages, i).da, R)
    add_bracket_hessian(m, lO, h * h * h / 12, n, _stage(m, nq, nz, stages, 2).da, 0, nz, nz, H, 0, nz)
    for i in range(3, -1, -1):
        Oi, vi, qi, aq, av, dqv, _, etai = _stage(m, nq, nz, stages, i)
        scale_into(n, s.y, h / 3 if 1 <= i <= 2 else h / 6, lam_v)
        if i < 3:
            add_scaled(n, s.y, h * h / 6, lO)
            add_scaled(n, s.y, stage_factor(i + 1, h), b)
        if i == 2:
            add_bracket_transposed(m, v, h * h * h / 12, lO, s.y)
        elif i == 1:
            add_scaled(n, s.y, h * h / 2, o4)
        elif i == 0:
            add_scaled(n, s.y, h * h / 4, o)
            add_bracket_transposed(m, v, h * h * h / 16, o, s.y)
        _transposed(n, av, s.y, b)
        if i > 0:
            _transposed(n, aq, s.y, k)
            tangent_maps(m, Oi, e.maps)
            add_geometry(m, e.maps, Oi, k, 1.0, etai, 0, nz, nz, H, 0, nz)
            if i >= 2 or timed:
                apply_map_transposed(m, e.maps, JACOBIAN, k, o4 if i == 3 else o if i == 2 else y)
            if timed:
                _contract_rate(m, i, h, nq, nz, v, acc, o4 if i == 3 else o if i == 2 else y, stages, y, R)
                _contract(n, nz, stage_factor(i, 1.0), b, _stage(m, nq, nz, stages, i - 1).da, R)
        if i == 2:
            add_bracket_hessian(m, o, h * h * h / 16, n, _stage(m, nq, nz, stages, 0).da, 0, nz, nz, H, 0, nz)
        acceleration_hessian(m, p, qi, vi, u, d, e, s)
        _add_acceleration_hessian(n, nu, nz, s, dqv, Z, S, H)
    if timed:
        for j in range(nz):
            at, back = (nz - 1) * nz + j, j * nz + nz - 1
            store(H, at, load(H, at) + load(R, j))
            store(H, back, load(H, back) + load(R, j))
