"""The virtual velocity V = sum of w_k s_k down the path to each body, and zeta = V_p x s of each degree of freedom."""

from dynamics.algorithms.kinematics import COLUMN, DOF
from dynamics.simd import helper, kernel, load, splat, store
from dynamics.spatial.spatial import add_scaled6, cross_motion, load6, store6

VIRTUAL, SUM_G0, SUM_G4, SUM_MOMENT, SUM_ROTATION = 0, 6, 12, 18, 21
VIRTUAL_BODY = 27


@helper
def load_virtual(m, i, virtual):
    """V of the parent of body i."""
    zero = splat(virtual, 0.0)
    if m.parent[i] >= 0:
        return load6(virtual, m.parent[i] * VIRTUAL_BODY + VIRTUAL)
    return (zero, zero, zero, zero, zero, zero)


@kernel
def virtual_motion(m, w, dof, virtual, zeta):
    """Store V of every body and zeta of every degree of freedom, and zero the subtree sums."""
    zero = splat(virtual, 0.0)
    for i in range(m.parent.size):
        parent = load_virtual(m, i, virtual)
        V = parent
        for k in range(m.v_index[i], m.v_index[i] + m.dof_count[i]):
            s = load6(dof, k * DOF + COLUMN)
            store6(zeta, k * 6, cross_motion(parent, s))
            V = add_scaled6(V, load(w, k), s)
        store6(virtual, i * VIRTUAL_BODY + VIRTUAL, V)
        for k in range(6, VIRTUAL_BODY):
            store(virtual, i * VIRTUAL_BODY + k, zero)
