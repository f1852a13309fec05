"""Position of a link's frame, of a rod its tip:  r = p(q) - target, world axes.

Columns of J are those of the link's twist, moved to its origin.  The generalised forces of a constant force f at that
point are J'f, so that the Hessian of f'r is d(J'f)/dq: that of -ID at rest, of the robot without mass and gravity, with
a load f at the link.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from dynamics.lane_algebra import scale_into
from dynamics.residuals.robot_residual import HESSIAN, JACOBIAN, RobotResidual, run, scatter_block
from dynamics.residuals.squares import SQUARES_ROW, add_curvature, add_gauss_newton, sum_lanes, weigh
from dynamics.rods.kinematics.forward_pass import forward_pass
from dynamics.rods.kinematics.strains import load_column
from dynamics.rods.loads.external_loads import LoadList
from dynamics.rods.model.arrays import END, FAMILIES, FIRST, MASS_MATRIX, SEGMENT, RodArrays
from dynamics.rods.model.closure_arrays import no_closures
from dynamics.rods.model.load_arrays import WRENCH, LoadArrays
from dynamics.rods.model.rod_model import RodModel
from dynamics.rods.recursion.blocks import BLOCKS, block_numbers, carve_blocks
from dynamics.rods.recursion.evaluation import inverse_dynamics_kernel, work_numbers
from dynamics.simd import LANES, align_stack, carve, driver, gather, helper, kernel, load, scatter, store
from dynamics.spatial import add_cross, load3, store3
from dynamics.tangent import store_column3
from dynamics.validation import as_array, as_kind


@kernel
def _evaluate(m, segment, target, x, state, work, r, J, path):
    """r (3) and its Jacobian J (3 n) at x = (q, v); the state receives q, its rates are zero."""
    align_stack(state)
    n, level = m.numbers[0], np.int64(MASS_MATRIX)
    for i in range(n):
        store(state, i, load(x, i))
    segments, w = carve(work, m.parent.size * SEGMENT)
    columns, w = carve(w, FAMILIES * n)
    forward_pass(m, level, state, segments, columns, w)
    p = load3(segments, segment * SEGMENT + END + 9)
    store3(r, 0, (p[0] - target[0], p[1] - target[1], p[2] - target[2]))
    J[:] = 0.0
    for i in path:
        S = load_column(columns, n, 0, i)
        store_column3(J, i, n, add_cross((S[3], S[4], S[5]), (S[0], S[1], S[2]), p))


@kernel
def _differentiate_twice(m, external, closures, state, force, work, scratch, H):
    """H (n n), the Hessian of force'r; scratch: a wrench (6), generalised forces (n) and the blocks of ID."""
    align_stack(state)
    n, level = m.numbers[0], np.int64(FIRST)
    wrench, w = carve(scratch, 6)
    forces, A = carve(w, n)
    wrench[:3] = 0.0
    store3(wrench, 3, load3(force, 0))
    inverse_dynamics_kernel(m, external, closures, level, state, wrench, work, forces, A, A[:0])
    scale_into(n * n, H, -1.0, carve_blocks(m, A)[0].dq)


@helper
def _workspace(n, work):
    """State (4 n, zero), x (2 n), r, mu (3), J (3 n), H (n n), scratch of `_differentiate_twice`, and the rest."""
    state, w = carve(work, 4 * n)
    x, w = carve(w, 2 * n)
    r, w = carve(w, 3)
    mu, w = carve(w, 3)
    J, w = carve(w, 3 * n)
    H, w = carve(w, n * n)
    scratch, w = carve(w, 6 + n + BLOCKS * n * n)
    state[:] = 0.0
    return state, x, r, mu, J, H, scratch, w


@driver
def _drive(first, last, work, m, external, closures, segment, target, path, order, xs, mu, r, derivative):
    n = m.numbers[0]
    state, x, r_, mu_, J, H, scratch, w = _workspace(n, work)
    for c in range(first, last):
        gather(xs, c * LANES, x)
        _evaluate(m, segment, target, x, state, w, r_, J, path)
        if r.shape[0] > 0:
            scatter(r_, c * LANES, r)
        if order == JACOBIAN:
            scatter_block(J, 3, n, c * LANES, derivative, 0, 0)
        elif order == HESSIAN:
            gather(mu, c * LANES, mu_)
            _differentiate_twice(m, external, closures, state, mu_, w, scratch, H)
            scatter_block(H, n, n, c * LANES, derivative, 0, 0)


@driver
def _drive_squares(
    first, last, work, m, external, closures, segment, target, path, weights, start, stop, order, xs, lx, lxx, Hxx
):
    n, total = m.numbers[0], 0.0
    state, x, r, mu, J, H, scratch, w = _workspace(n, work)
    gauss_newton_weight, w = carve(w, 3)
    row, w = carve(w, weights.shape[1])
    for c in range(first, last):
        t = start + c * LANES
        count = min(LANES, stop - t)
        gather(xs, t, x)
        _evaluate(m, segment, target, x, state, w, r, J, path)
        total += sum_lanes(weigh(weights, c * LANES, r, row, mu, gauss_newton_weight), row, count)
        if order & JACOBIAN:
            add_gauss_newton(path, J, mu, gauss_newton_weight, t, count, row, lx, lxx)
        if order & HESSIAN:
            _differentiate_twice(m, external, closures, state, mu, w, scratch, H)
            add_curvature(path, H, t, count, Hxx)
    return total


class LinkTranslation(RobotResidual):
    """Position of a link's frame less a target, world axes, m; for a rod that of its tip.

    Parameters
    ----------
    model : RodModel
    link : one of `model.link_names`
    target : (3,), m

    Raises
    ------
    TypeError : no RodModel.
    ValueError : unknown link (with the nearest matches), or a target of wrong shape or with non-finite entries.
    """

    nr = 3

    def __init__(self, model: RodModel, link: str, target: ArrayLike) -> None:
        as_kind("model", model, RodModel)
        m, segment, n = model.arrays, model.segment_of(link), model.nq
        target = as_array("target", target, (3,)).copy()
        super().__init__(cast(Any, model), f"translation of {link}")
        path = m.path[m.path_start[segment] : m.path_start[segment + 1]].astype(np.int64)
        self._set(link=link, target=target, _path=path, _segment=segment, _target=target.copy())
        self._set(_massless=massless(m), _load=load_at(m, segment), _chains=no_closures())
        self._set(_numbers=work_numbers(model) + 15 + 4 * SQUARES_ROW + n * (10 + n) + block_numbers(m))

    def _frame(self):
        return self._massless, self._load, self._chains, self._segment, self._target, self._path

    def _drive(self, order, xs, mu, r, derivative):
        run(_drive, len(xs), self._numbers, *self._frame(), order, xs, mu, r, derivative)

    def _drive_squares(self, weights, start, stop, order, xs, us, target, curvature):
        blocks = target[0], target[2], curvature[2]
        count = stop - start
        return run(_drive_squares, count, self._numbers, *self._frame(), weights, start, stop, order, xs, *blocks)


def massless(m: RodArrays) -> RodArrays:
    """The same tree without mass and gravity."""
    return m._replace(inertia=np.zeros_like(m.inertia), gravity=np.zeros(3))


def load_at(m: RodArrays, segment: int) -> LoadArrays:
    """A wrench of the world's axes at the end of a segment, the only load."""
    loads = LoadList()
    loads.add_wrench(segment, WRENCH, "force", np.zeros(3))
    return loads.arrays([int(parent) for parent in m.parent])
