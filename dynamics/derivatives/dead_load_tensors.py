"""Terms of dead loads in the second-derivative tensors, triple by triple.

The Hessian terms of `dead_loads` for a unit multiplier.  For the lowest degree of freedom i, the middle j and the
highest k, with D s = (T w, w x f), T = -n~ - M + tr M 1 and K[s] = f v' + M w~' + n w' - tr(...) 1 for the twist
s = (w, v), and with the subtree sums f, n of forces and moments and M = sum of f p', the terms of d2tau/dq dq are

    torque i, pair (j, k)    -w_j'K[s_i] w_k
    torque j, pair (i, k)    (D s_k).(s_j x s_i) - w_i'K[s_j] w_k
    torque k, pair (i, j)    (D s_j).(s_k x s_i) + (D s_i).(s_k x s_j) - w_i'K[s_k] w_j

All are linear in s_k, the first two in its angular part alone.
"""

from dynamics.algorithms.kinematics import BODY
from dynamics.algorithms.loads import dead_load
from dynamics.derivatives.dead_loads import add_outer
from dynamics.simd import helper, kernel, load, splat, store
from dynamics.spatial.spatial import (
    add3,
    add6,
    add_cross,
    add_cross_force,
    add_scaled3,
    angular,
    cross,
    cross_force,
    cross_motion,
    dot3,
    join,
    linear,
    load3,
    load9,
    rotate,
    rotate_back,
    scale3,
    sub6,
)

# per body, for its subtree
SUM_F, SUM_N, SUM_M = 0, 3, 6
TENSOR_SUMS = 15


@kernel
def sum_tensor_loads(m, loads, body, sums):
    """Store f, n and M of the dead loads on each body alone in sums (nb TENSOR_SUMS)."""
    sums[:] = 0.0
    zero = splat(sums, 0.0)
    for l in range(loads.dead.shape[0] // 6):
        b, p, f, n = dead_load(loads, l, body)
        o = b // BODY * TENSOR_SUMS
        for k in range(3):
            store(sums, o + SUM_F + k, load(sums, o + SUM_F + k) + f[k])
            store(sums, o + SUM_N + k, load(sums, o + SUM_N + k) + n[k])
        add_outer(sums, o + SUM_M, f, p, zero)


@helper
def _load(sums, o):
    return load3(sums, o + SUM_F), load3(sums, o + SUM_N), load9(sums, o + SUM_M)


@helper
def _total_moment(n, M):
    """n + sum of p x f"""
    return (n[0] + M[7] - M[5], n[1] + M[2] - M[6], n[2] + M[3] - M[1])


@helper
def _bent(f, n, M, w, s):
    """e with e.w_k = w'K[s] w_k"""
    u, v = angular(s), linear(s)
    trace = dot3(u, _total_moment(n, M)) + dot3(f, v)
    e = add_scaled3(scale3(v, dot3(f, w)), dot3(n, w), u)
    return add_scaled3(add_cross(e, u, rotate_back(M, w)), -trace, w)


@helper
def _lag(f, n, M, s):
    """D s"""
    w = angular(s)
    Mw = rotate(M, w)
    x = add_scaled3(cross(w, n), M[0] + M[4] + M[8], w)
    return join((x[0] - Mw[0], x[1] - Mw[1], x[2] - Mw[2]), cross(w, f))


@helper
def lower_lags(sums, i, s_i, s_j):
    """Vectors whose products with w_k are the terms of torques i and j; i the body of s_i."""
    f, n, M = _load(sums, i * TENSOR_SUMS)
    lowest = _bent(f, n, M, angular(s_j), s_i)
    z = cross_motion(s_j, s_i)
    Mz, e = rotate_back(M, angular(z)), _bent(f, n, M, angular(s_i), s_j)
    x = add_scaled3(add_cross(cross(n, angular(z)), f, linear(z)), M[0] + M[4] + M[8], angular(z))
    middle = (x[0] - Mz[0] - e[0], x[1] - Mz[1] - e[1], x[2] - Mz[2] - e[2])
    return (-lowest[0], -lowest[1], -lowest[2]), middle


@helper
def add_highest_lag(q, sums, i, s_i, s_j):
    """q + the vector whose product with s_k is the term of torque k."""
    f, n, M = _load(sums, i * TENSOR_SUMS)
    a, b = angular(s_i), angular(s_j)
    product = dot3(a, b)
    turned = add3(cross(rotate_back(M, a), b), scale3(b, dot3(a, n)))
    g = join(add_scaled3(turned, -product, _total_moment(n, M)), add_scaled3(scale3(b, dot3(a, f)), -product, f))
    x = add_cross_force(cross_force(s_i, _lag(f, n, M, s_j)), s_j, _lag(f, n, M, s_i))
    return add6(q, sub6(x, g))
