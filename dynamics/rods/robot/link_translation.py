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
from dynamics.residuals.kernel_residual import KernelResidual, residual_kernels
from dynamics.rods.kinematics.forward_pass import forward_pass
from dynamics.rods.kinematics.strains import load_column
from dynamics.rods.loads.external_loads import LoadList
from dynamics.rods.model.arrays import END, FAMILIES, FIRST, MASS_MATRIX, SEGMENT, RodArrays
from dynamics.rods.model.closure_arrays import no_closures
from dynamics.rods.model.load_arrays import WRENCH, LoadArrays
from dynamics.rods.model.rod_model import RodModel
from dynamics.rods.recursion.blocks import BLOCKS, carve_blocks, n
from dynamics.rods.recursion.evaluation import inverse_dynamics_kernel, work_numbers
from dynamics.simd import align_stack, carve, helper, kernel, load, store
from dynamics.simd.sizes import Size
from dynamics.spatial import add_cross, load3, store3
from dynamics.tangent import store_column3
from dynamics.validation import as_array, as_kind


@helper
def _massless(block):
    """The model, of which `LinkTranslation` keeps the arrays themselves."""
    return block


@kernel
def _value(m, segment, target, path, x, state, room, r, J):
    """r (3) and its Jacobian J (3 n) at x = (q, v); the state receives q, its rates are zero."""
    align_stack(state)
    n, level = m.numbers[0], np.int64(MASS_MATRIX)
    state[n:] = 0.0
    for i in range(n):
        store(state, i, load(x, i))
    segments, w = carve(room, m.parent.size * SEGMENT)
    columns, w = carve(w, FAMILIES * n)
    forward_pass(m, level, state, segments, columns, w)
    p = load3(segments, segment * SEGMENT + END + 9)
    store3(r, 0, (p[0] - target[0], p[1] - target[1], p[2] - target[2]))
    J[:] = 0.0
    for i in path:
        S = load_column(columns, n, 0, i)
        store_column3(J, i, n, add_cross((S[3], S[4], S[5]), (S[0], S[1], S[2]), p))


@kernel
def _hessian(m, external, closures, state, mu, room, scratch, H):
    """H (n n), the Hessian of mu'r; scratch: a wrench (6), generalised forces (n) and the blocks of ID."""
    align_stack(state)
    n, level = m.numbers[0], np.int64(FIRST)
    wrench, w = carve(scratch, 6)
    forces, A = carve(w, n)
    wrench[:3] = 0.0
    store3(wrench, 3, load3(mu, 0))
    inverse_dynamics_kernel(m, external, closures, level, state, wrench, room, forces, A, A[:0])
    scale_into(n * n, H, -1.0, carve_blocks(m, A)[0].dq)


class LinkTranslation(KernelResidual):
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
    kernels = residual_kernels(
        _value, None, _hessian, 3, n,
        {"state": 4 * n, "scratch": 6 + n + BLOCKS * n * n, "room": Size("most", "most")}, model=_massless,
    )  # fmt: skip

    def __init__(self, model: RodModel, link: str, target: ArrayLike) -> None:
        as_kind("model", model, RodModel)
        m, segment = model.arrays, model.segment_of(link)
        target = as_array("target", target, (3,)).copy()
        super().__init__(cast(Any, model), f"translation of {link}")
        path = m.path[m.path_start[segment] : m.path_start[segment + 1]].astype(np.int64)
        self._set(link=link, target=target)
        fixed = {"external": load_at(m, segment), "closures": no_closures(), "most": work_numbers(model)}
        self._finish(path, massless(m), segment=segment, target=target.copy(), **fixed)


def massless(m: RodArrays) -> RodArrays:
    """The same tree without mass and gravity."""
    return m._replace(inertia=np.zeros_like(m.inertia), gravity=np.zeros(3))


def load_at(m: RodArrays, segment: int) -> LoadArrays:
    """A wrench of the world's axes at the end of a segment, the only load."""
    loads = LoadList()
    loads.add_wrench(segment, WRENCH, "force", np.zeros(3))
    return loads.arrays([int(parent) for parent in m.parent])
