"""Terms of dead loads in the derivatives of inverse dynamics.

The sweeps treat every force on a body as fixed to it.  A follower load is; a dead load (f, n) at the point p is not:
when its body moves by the twist s = (w, u), the follower load exceeds it by

    D s = (w x n + p x (w x f), w x f) = (T w, w x f),             T = -n~ - p~ f~

so that -W.V, its part of w'tau with V the virtual velocity of the body, has in addition to the follower terms

    d/dq_x           (D s_x).V            hence dtau_i/dq_x += s_i.D s_x, D summed over the subtree of the lower of i, x
    d2/dq_x dq_y     (D s_y).zeta_x + (D s_x).zeta_y - w_x'K w_y,   K = f u_p' - (f.u_p) 1 + n w_V' - (n.w_V) 1

for x at or below y, with u_p the virtual velocity of the point and w_V that of the axes, K summed like D.
"""

from dynamics.algorithms.kinematics import BODY, COLUMN, COMPOSITE, DOF, VIRTUAL, VIRTUAL_BODY
from dynamics.algorithms.loads import dead_load
from dynamics.simd import align_stack, fma, helper, kernel, load, shared_kernel, splat, store
from dynamics.spatial.spatial import (
    accumulate,
    add3,
    add6,
    add_cross,
    add_cross_force,
    add_dot6,
    add_scaled3,
    angular,
    cross,
    cross_force,
    cross_motion,
    dot3,
    join,
    linear,
    load3,
    load6,
    load9,
    rotate,
    rotate_back,
    scale3,
    sub6,
)

# per body, in the slots of the composites, which the sweeps no longer need: f, T and K of the subtree
SUM_F, SUM_T, SUM_K = COMPOSITE, COMPOSITE + 3, COMPOSITE + 12
SUMS = 21


@helper
def add_outer(ws, o, f, p, d):
    """The 3x3 matrix at offset o += f p' + d 1."""
    for r in range(3):
        for c in range(3):
            x = fma(f[r], p[c], load(ws, o + 3 * r + c))
            store(ws, o + 3 * r + c, x + d if r == c else x)


@kernel
def sum_dead_loads(m, loads, body, virtual):
    """Store f, T and, with virtual velocities (None without), K of every body's own loads."""
    zero = splat(body, 0.0)
    for i in range(m.parent.size):
        for k in range(SUMS):
            store(body, i * BODY + COMPOSITE + k, zero)
    for l in range(loads.dead.shape[0] // 6):
        b, p, f, n = dead_load(loads, l, body)
        for k in range(3):
            store(body, b + SUM_F + k, load(body, b + SUM_F + k) + f[k])
        add_outer(body, b + SUM_T, (-f[0], -f[1], -f[2]), p, dot3(p, f))
        for r in range(3):  # -n~
            s, t = (r + 1) % 3, (r + 2) % 3
            o = b + SUM_T + 3 * r
            store(body, o + s, load(body, o + s) + n[t])
            store(body, o + t, load(body, o + t) - n[s])
        if virtual is not None:
            V = load6(virtual, b // BODY * VIRTUAL_BODY + VIRTUAL)
            w, u = angular(V), add_cross(linear(V), angular(V), p)
            add_outer(body, b + SUM_K, f, u, zero - dot3(f, u))
            add_outer(body, b + SUM_K, n, w, zero - dot3(n, w))


@shared_kernel
def add_dead_loads(m, loads, body, dof, virtual, zeta, dq, Hqq):
    """Add their terms to dtau/dq (nv nv) and to the Hessian Hqq (nv nv) of w'tau, after the sweep that fills these.

    virtual, zeta : as `virtual_motion` leaves them; None for first derivatives alone."""
    if loads.dead.shape[0] == 0:
        return
    align_stack(body)
    n = m.dof_body.size
    sum_dead_loads(m, loads, body, virtual)
    for i in range(m.parent.size - 1, -1, -1):
        b = i * BODY
        f, T, K = load3(body, b + SUM_F), load9(body, b + SUM_T), load9(body, b + SUM_K)
        first, last = m.v_index[i], m.v_index[i] + m.dof_count[i]
        for x in range(first, last):
            s = load6(dof, x * DOF + COLUMN)
            w = angular(s)
            lag = join(rotate(T, w), cross(w, f))
            row = add_cross(rotate_back(T, w), f, linear(s))
            y = last - 1
            while y >= 0:
                s = load6(dof, y * DOF + COLUMN)
                store(dq, x * n + y, load(dq, x * n + y) + dot3(row, angular(s)))
                if y < first:
                    store(dq, y * n + x, add_dot6(load(dq, y * n + x), lag, s))
                y = m.dof_parent[y]
            if virtual is not None:
                z = load6(zeta, x * 6)
                row = add_cross(rotate_back(T, angular(z)), f, linear(z))
                bent = rotate_back(K, w)
                row = (row[0] - bent[0], row[1] - bent[1], row[2] - bent[2])
                y = last - 1
                while y >= 0:
                    e = add_dot6(dot3(row, angular(load6(dof, y * DOF + COLUMN))), lag, load6(zeta, y * 6))
                    store(Hqq, x * n + y, load(Hqq, x * n + y) + e)
                    if y < first:
                        store(Hqq, y * n + x, load(Hqq, y * n + x) + e)
                    y = m.dof_parent[y]
        if m.parent[i] >= 0:
            accumulate(body, m.parent[i] * BODY + COMPOSITE, b + COMPOSITE, SUMS)


# --------------------------------------------------------------------------------------------
# Terms of dead loads in the second-derivative tensors, triple by triple.
#
# The Hessian terms of `dead_loads` for a unit multiplier.  For the lowest degree of freedom i, the middle j and the
# highest k, with D s = (T w, w x f), T = -n~ - M + tr M 1 and K[s] = f v' + M w~' + n w' - tr(...) 1 for the twist
# s = (w, v), and with the subtree sums f, n of forces and moments and M = sum of f p', the terms of d2tau/dq dq are
#
#     torque i, pair (j, k)    -w_j'K[s_i] w_k
#     torque j, pair (i, k)    (D s_k).(s_j x s_i) - w_i'K[s_j] w_k
#     torque k, pair (i, j)    (D s_j).(s_k x s_i) + (D s_i).(s_k x s_j) - w_i'K[s_k] w_j
#
# All are linear in s_k, the first two in its angular part alone.

# per body, for its subtree
TENSOR_F, TENSOR_N, TENSOR_M = 0, 3, 6
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
            store(sums, o + TENSOR_F + k, load(sums, o + TENSOR_F + k) + f[k])
            store(sums, o + TENSOR_N + k, load(sums, o + TENSOR_N + k) + n[k])
        add_outer(sums, o + TENSOR_M, f, p, zero)


@helper
def _load(sums, o):
    return load3(sums, o + TENSOR_F), load3(sums, o + TENSOR_N), load9(sums, o + TENSOR_M)


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
