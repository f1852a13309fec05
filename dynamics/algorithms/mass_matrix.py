"""The mass matrix by the composite-rigid-body algorithm.                          [Featherstone 2008, table 6.2]"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.batch import empty_matrices, points, square_matrices
from dynamics.algorithms.branch_factor import factorize, invert_factored
from dynamics.algorithms.kinematics import BODY, COLUMN, DOF, INERTIA, MOMENT, place_inertias, place_near_origin
from dynamics.model.knot_driver import knot_driver, nb, nv
from dynamics.model.model import RigidBodyModel, check_model
from dynamics.simd import align_stack, kernel, load, shared_kernel, splat, store
from dynamics.spatial.spatial import accumulate, dot6, inertia_times, load3, load6


@kernel
def mass_matrix_kernel(m, q, body, dof, M):
    """Compute M (nv nv), full and symmetric, for one knot per lane; body (nb BODY), dof (nv DOF)."""
    place_near_origin(m, q, body, dof)
    place_inertias(m, body)
    composite_mass_matrix(m, body, dof, M)


@shared_kernel
def composite_mass_matrix(m, body, dof, M):
    """`mass_matrix_kernel` after `place_bodies` and `place_inertias`; MOMENT and INERTIA become composite ones."""
    align_stack(body)
    n = m.dof_body.size
    M[:] = 0.0
    for i in range(m.parent.size - 1, -1, -1):
        h, I = load3(body, i * BODY + MOMENT), load6(body, i * BODY + INERTIA)
        for x in range(m.v_index[i], m.v_index[i] + m.dof_count[i]):
            f = inertia_times(m.subtree_mass[i], h, I, load6(dof, x * DOF + COLUMN))
            y = x
            while y >= 0:
                e = dot6(f, load6(dof, y * DOF + COLUMN))
                store(M, x * n + y, e)
                store(M, y * n + x, e)
                y = m.dof_parent[y]
            store(M, x * n + x, load(M, x * n + x) + splat(M, m.armature[x]))
        if m.parent[i] >= 0:
            accumulate(body, m.parent[i] * BODY + MOMENT, i * BODY + MOMENT, 9)


@kernel
def _inverse_mass_matrix_kernel(m, q, body, dof, M, inverse):
    """Compute M^-1 (nv nv), full and symmetric; M becomes its factor."""
    mass_matrix_kernel(m, q, body, dof, M)
    factorize(m, M)
    invert_factored(m, M, inverse)


_BODIES = {"body": nb * BODY, "dof": nv * DOF}
_drive = knot_driver(mass_matrix_kernel, inputs="q", scratch=_BODIES, outputs={"M": nv * nv})
_drive_inverse = knot_driver(
    _inverse_mass_matrix_kernel, inputs="q", scratch={**_BODIES, "M": nv * nv}, outputs={"inverse": nv * nv}
)


def _evaluate(model, q, drive) -> np.ndarray:
    single, (q,) = points(model, q)
    out = empty_matrices(1, len(q), model.nv)
    drive(model, q, *out)
    return square_matrices(single, out)[0]


def mass_matrix(model: RigidBodyModel, q: ArrayLike) -> np.ndarray:
    """Mass matrix M(q), symmetric positive definite, with armature.               [Featherstone 2008, table 6.2]

    Parameters: q (nq,) or (K, nq).  Returns: (nv, nv) or (K, nv, nv).
    Raises ValueError for a wrong shape, a non-finite entry, or a quaternion that is not of unit length.
    """
    return _evaluate(model, q, _drive)


def inverse_mass_matrix(model: RigidBodyModel, q: ArrayLike) -> np.ndarray:
    """Inverse mass matrix M(q)^-1, by the sparse factor.  Shapes and errors as `mass_matrix`."""
    if check_model(model).mimics:
        return np.linalg.inv(mass_matrix(model, q))
    return _evaluate(model, q, _drive_inverse)
