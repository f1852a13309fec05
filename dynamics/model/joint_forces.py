"""Forces of joints: springs and dampers between them, and friction."""

import numpy as np

from dynamics.model.attachments import Springs
from dynamics.model.knot_driver import knot_driver, nv
from dynamics.model.model import RigidBodyModel
from dynamics.model.model_arrays import ModelArrays
from dynamics.simd import fma, helper, kernel, load, splat, sqrt, store
from dynamics.simd.prepared_calls import PreparedLaunch

# --------------------------------------------------------------------------------------------
# Springs and dampers between joints of one degree of freedom: K q + D v - c in the equation of motion.
#
# Kernels read the nonzero entries of K, D and c from `ModelArrays.spring`; a model as it is loaded has none, so that
# functions of a model alone do not include springs.


@kernel
def subtract_springs(m, sign, q, v, tau):
    """tau -= sign (K q + D v - c)"""
    for s in range(m.spring.shape[0]):
        i, j = m.spring_dof[s, 0], m.spring_dof[s, 1]
        x = fma(m.spring[s, 0], load(q, m.q_index[m.dof_body[j]]), splat(q, -m.spring[s, 2]))
        store(tau, i, fma(-sign, fma(m.spring[s, 1], load(v, j), x), load(tau, i)))


@kernel
def add_spring_derivatives(m, Aq, Av):
    """Aq += K and Av += D, the derivatives (nv nv) of ID in q and v."""
    n = m.dof_body.size
    for s in range(m.spring.shape[0]):
        o = m.spring_dof[s, 0] * n + m.spring_dof[s, 1]
        store(Aq, o, load(Aq, o) + m.spring[s, 0])
        store(Av, o, load(Av, o) + m.spring[s, 1])


@kernel
def add_spring_responses(m, rows, width, Z, zq, zv):
    """zq, zv (rows nv) -= Z K, Z D, the contribution of springs to dz/dq and dz/dv, with dz/dtau the first nv columns
    of Z (rows width).

    It comes after products with what ID has, because springs may join degrees of freedom that share no path."""
    n = m.dof_body.size
    for s in range(m.spring.shape[0]):
        i, j = m.spring_dof[s, 0], m.spring_dof[s, 1]
        for r in range(rows):
            z, o = load(Z, r * width + i), r * n + j
            store(zq, o, fma(-m.spring[s, 0], z, load(zq, o)))
            store(zv, o, fma(-m.spring[s, 1], z, load(zv, o)))


def with_springs(arrays: ModelArrays, springs: Springs) -> ModelArrays:
    """The arrays of a robot with its springs included."""
    K, D, c = springs
    rows = np.argwhere((K != 0.0) | (D != 0.0) | (np.diag(c) != 0.0))
    i, j = rows.T
    return arrays._replace(
        spring_dof=rows.astype(np.int64), spring=np.column_stack([K[i, j], D[i, j], np.where(i == j, c[i], 0.0)])
    )


def felt_springs(arrays: ModelArrays) -> Springs:
    """The springs that were given to `with_springs`."""
    n = len(arrays.dof_body)
    K, D, c = np.zeros((n, n)), np.zeros((n, n)), np.zeros(n)
    i, j = arrays.spring_dof.T
    K[i, j], D[i, j] = arrays.spring[:, 0], arrays.spring[:, 1]
    np.add.at(c, i, arrays.spring[:, 2])
    return Springs(K, D, c)


# --------------------------------------------------------------------------------------------
# Resistance of joints to motion: viscous damping d and Coulomb friction c, smoothed over a speed e.
#
#     f(v) = d v + c v/s          f'(v) = d + c e^2/s^3          f''(v) = -3 c e^2 v/s^5          s^2 = v^2 + e^2
#
# per degree of freedom, in the equation of motion ID(q, v, a) + f(v) = tau + J'(contact forces), beside the springs.
# Kernels read the rows (d, c, e^2) of `ModelArrays.joint_friction`; a model as it is loaded has none, so that functions
# of a model alone do not include friction.


@helper
def friction(m, k, v):
    """f, f' and f'' of degree of freedom k, whose velocity is v[k]; the only implementation of the law."""
    d, c, square, x = m.joint_friction[k, 0], m.joint_friction[k, 1], m.joint_friction[k, 2], load(v, k)
    r = splat(v, 1.0) / sqrt(fma(x, x, splat(v, square)))
    secant = fma(c, r, splat(v, d))
    return x * secant, fma(c * square * r, r * r, splat(v, d)), (-3.0 * c * square * x * r) * (r * r) * (r * r)


@kernel
def subtract_joint_forces(m, sign, q, v, tau):
    """tau -= sign f(v), and the same for the springs."""
    subtract_springs(m, sign, q, v, tau)
    for k in range(m.joint_friction.shape[0]):
        store(tau, k, fma(-sign, friction(m, k, v)[0], load(tau, k)))


@kernel
def add_friction_derivative(m, v, A):
    """A += diag(f'(v)), A (nv nv) the derivative of ID in v."""
    n = m.joint_friction.shape[0]
    for k in range(n):
        store(A, k * n + k, load(A, k * n + k) + friction(m, k, v)[1])


@kernel
def add_friction_curvature(m, v, w, Hvv):
    """Hvv += diag(w f''(v)), Hvv (nv nv) the Hessian of w'ID in v."""
    n = m.joint_friction.shape[0]
    for k in range(n):
        store(Hvv, k * n + k, fma(load(w, k), friction(m, k, v)[2], load(Hvv, k * n + k)))


@kernel
def _joint_forces_kernel(m, q, v, f, df, ddf):
    f[:], df[:], ddf[:] = 0.0, 0.0, 0.0
    subtract_joint_forces(m, -1.0, q, v, f)
    for k in range(m.joint_friction.shape[0]):
        _, gradient, curvature = friction(m, k, v)
        store(df, k, gradient)
        store(ddf, k, curvature)


_drive_joint_forces = knot_driver(
    _joint_forces_kernel, inputs="q v", scratch={}, outputs={"f": nv, "df": nv, "ddf": nv}
)


def joint_forces(model: RigidBodyModel, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """f of friction and springs, f' and f'' of friction alone, (K, nv) at q (K, nq) and v (K, nv); zeros for a model
    without rows of either."""
    f, df, ddf = (np.zeros(v.shape) for _ in range(3))
    if len(model.arrays.joint_friction) or len(model.arrays.spring):
        _drive_joint_forces(model, *map(np.ascontiguousarray, (q, v)), f, df, ddf)
    return f, df, ddf


def prepared_joint_forces(
    model: RigidBodyModel, q: np.ndarray, v: np.ndarray, *forces: np.ndarray
) -> PreparedLaunch | None:
    """The call that writes `joint_forces` of a model without mimic joints into three arrays; None if they are zeros."""
    if not (len(model.arrays.joint_friction) or len(model.arrays.spring)):
        return None
    return _drive_joint_forces.prepared(model, q, v, *forces)
