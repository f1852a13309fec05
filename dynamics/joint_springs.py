"""Springs and dampers between joints of one degree of freedom: K q + D v - c in the equation of motion.

Kernels read the entries of K, D and c that are not zero from `ModelArrays.spring`; a model as it is loaded has none, so
that whatever takes a model alone knows no springs.
"""

import numpy as np

from dynamics.attachments import Springs
from dynamics.model_arrays import ModelArrays
from dynamics.simd import fma, kernel, load, splat, store


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
    """zq, zv (rows nv) -= Z K, Z D: what springs add to dz/dq and dz/dv, with dz/dtau the first nv columns of Z (rows
    width).

    It comes after products with what ID has, because springs may join degrees of freedom that share no path."""
    n = m.dof_body.size
    for s in range(m.spring.shape[0]):
        i, j = m.spring_dof[s, 0], m.spring_dof[s, 1]
        for r in range(rows):
            z, o = load(Z, r * width + i), r * n + j
            store(zq, o, fma(-m.spring[s, 0], z, load(zq, o)))
            store(zv, o, fma(-m.spring[s, 1], z, load(zv, o)))


def with_springs(arrays: ModelArrays, springs: Springs) -> ModelArrays:
    """The arrays of a robot that feels its springs."""
    K, D, c = springs
    rows = np.argwhere((K != 0.0) | (D != 0.0) | (np.diag(c) != 0.0))
    i, j = rows.T
    return arrays._replace(
        spring_dof=rows.astype(np.int64), spring=np.column_stack([K[i, j], D[i, j], np.where(i == j, c[i], 0.0)])
    )


def felt_springs(arrays: ModelArrays) -> Springs:
    """What `with_springs` was given."""
    n = len(arrays.dof_body)
    K, D, c = np.zeros((n, n)), np.zeros((n, n)), np.zeros(n)
    i, j = arrays.spring_dof.T
    K[i, j], D[i, j] = arrays.spring[:, 0], arrays.spring[:, 1]
    np.add.at(c, i, arrays.spring[:, 2])
    return Springs(K, D, c)
