"""Packed second-order tensors of inverse dynamics: every number once, one record per path of three dofs.

Dofs i, j, k on a path to the root, joint(i) at or below joint(j) at or below joint(k), have a record of the numbers
that `second_order` computes for them, in the order of computation.  Numbers that follow from others by a sign or a sum
are left out, and so are zeros, except those that are zero or equal only for special directions (moving a floating base
changes no force); records therefore differ in length.  With T[torque, first index, second index] as in
`InverseDynamicsSecondDerivatives`, vv symmetric in its last two indices and M = dM_dq in its first two, an "upper"
record, joint(k) strictly above joint(j), holds in this order

    qq_i   qq[i,j,k] = qq[i,k,j]      qv_i   qv[i,j,k]
    qq_k   qq[k,i,j] = qq[k,j,i]      vq_k   qv[k,j,i]
    is     M[i,k,j]                   js     M[j,k,i]                   is + js = vv[k,i,j]
    qq_j   qq[j,i,k] = qq[j,k,i]      qv_j   qv[j,i,k]                  is - js = vv[i,j,k] = -vv[j,i,k]
    qv_k   qv[k,i,j]                  vq     qv[i,k,j] = -qv[j,k,i]

If i and j belong to one joint, qq_k is qq[k,i,j] alone; the record with i > j has is, js and, instead of qq_j, qv_j,
qv_k, eta = vv[i,j,k] = -vv[j,i,k], which is not is - js then; the one with i = j has is alone, i < j none of them.
An "own" record, k in the joint of j, holds

    qq_i   qq[i,j,k]
    qq_j   qq[j,i,k] = qq[j,k,i]      qv_j   qv[j,i,k]
    js     M[j,k,i] = -vv[i,j,k]                                        j >= k: symmetric in j, k
    is     js - is = vv[j,i,k],  js + is = vv[k,i,j]                    j > k: antisymmetric
    vq     qv[i,k,j] = -qv[j,k,i]

If all three belong to one joint, there are only qq_i, js (for vv alone, M being constant) and vq.  In both records, vq
changes sign with i and j in one joint (kept: i > j) and is zero where the parent of joint(k) is the world, at rest.
"""

from dynamics.simd import align_stack, fma, helper, kernel, load, splat, store

# at the start of every upper record
QQ_I, QV_I, QQ_K, VQ_K = 0, 1, 2, 3
RECORD = 10  # numbers in the longest record


# ------------------------------------------------------------------------------------------------ layout
@helper
def moves(m, k):
    """True if the parent body of dof k's joint can move."""
    return m.parent[m.dof_body[k]] >= 0


@helper
def _own_size(m, i, j, k, below):
    """Size of the own record of (i, j, k); below: joint(i) is strictly below joint(j)."""
    size = 3 if below else 1
    if j >= k and (i != j or j != k):
        size += 1
    if j > k and below:
        size += 1
    if i > j and moves(m, k):
        size += 1
    return size


@helper
def _upper_size(m, i, j, k, below):
    """Size of the upper record of (i, j, k)."""
    size = 9 if below else (4 if i < j else (5 if i == j else 7))
    if i > j and moves(m, k):
        size += 1
    return size


@kernel
def packed_size(m):
    """Size per knot of the packed tensors of the model arrays m."""
    total = 0
    for i in range(m.dof_body.size):
        bi = m.dof_body[i]
        j = m.v_index[bi] + m.dof_count[bi] - 1
        while j >= 0:
            bj = m.dof_body[j]
            k = m.v_index[bj] + m.dof_count[bj] - 1
            while k >= 0:
                if m.dof_body[k] == bj:
                    total += _own_size(m, i, j, k, bi != bj)
                else:
                    total += _upper_size(m, i, j, k, bi != bj)
                k = m.dof_parent[k]
            j = m.dof_parent[j]
    return total


# ------------------------------------------------------------------------------------------------ places
@helper
def _put(T, w, n, torque, x, y, value):
    """T[torque, x, y] = value; with multipliers w, the term of their contraction, T[x, y] += w[torque] value."""
    if w is None:
        store(T, (torque * n + x) * n + y, value)
    else:
        store(T, x * n + y, fma(load(w, torque), value, load(T, x * n + y)))


@helper
def _put_pair(T, w, n, torque, x, y, value):
    """`_put` for [torque, x, y] and [torque, y, x], x >= y; in contractions only for the first, see `_complete`."""
    _put(T, w, n, torque, x, y, value)
    if w is None:
        _put(T, w, n, torque, y, x, value)


@helper
def _put_inertia(TM, w, n, x, y, c, value):
    """dM[x, y]/dq_c = dM[y, x]/dq_c = value, x != y."""
    _put(TM, w, n, x, y, c, value)
    _put(TM, w, n, y, x, c, value)


@helper
def _place_own(m, n, i, j, k, below, packed, p, w, Tqq, Tqv, Tvv, TM):
    """Store the entries of an own record at p; returns its end."""
    _put(Tqq, w, n, i, j, k, load(packed, p))
    p += 1
    if below:
        _put_pair(Tqq, w, n, j, i, k, load(packed, p))
        _put(Tqv, w, n, j, i, k, load(packed, p + 1))
        p += 2
    if j >= k and (i != j or j != k):
        js = load(packed, p)
        p += 1
        _put_pair(Tvv, w, n, i, j, k, -js)
        if below and j > k:
            is_ = load(packed, p)
            p += 1
            _put_pair(Tvv, w, n, j, i, k, js - is_)
            _put_pair(Tvv, w, n, k, i, j, js + is_)
            _put_inertia(TM, w, n, j, k, i, js)
        elif below:
            _put_pair(Tvv, w, n, j, i, j, js)
            _put(TM, w, n, j, j, i, js)
    if i > j and moves(m, k):
        vq = load(packed, p)
        p += 1
        _put(Tqv, w, n, i, k, j, vq)
        _put(Tqv, w, n, j, k, i, -vq)
    return p


@helper
def _place_upper(m, n, i, j, k, below, packed, p, w, Tqq, Tqv, Tvv, TM):
    """Store the entries of an upper record at p; returns its end."""
    _put_pair(Tqq, w, n, i, j, k, load(packed, p + QQ_I))
    _put(Tqv, w, n, i, j, k, load(packed, p + QV_I))
    _put(Tqv, w, n, k, j, i, load(packed, p + VQ_K))
    if below:
        _put_pair(Tqq, w, n, k, i, j, load(packed, p + QQ_K))
    else:
        _put(Tqq, w, n, k, i, j, load(packed, p + QQ_K))
    p += 4
    if i == j:
        is_ = load(packed, p)
        p += 1
        _put(Tvv, w, n, k, i, i, is_ + is_)
        _put_inertia(TM, w, n, i, k, i, is_)
    elif i > j:
        is_, js = load(packed, p), load(packed, p + 1)
        eta = is_ - js
        p += 2
        if below:
            _put_pair(Tqq, w, n, j, i, k, load(packed, p))
            _put(Tqv, w, n, j, i, k, load(packed, p + 1))
            _put(Tqv, w, n, k, i, j, load(packed, p + 2))
            p += 3
        else:
            eta = load(packed, p)
            p += 1
        _put_pair(Tvv, w, n, k, i, j, is_ + js)
        _put_pair(Tvv, w, n, i, j, k, eta)
        _put_pair(Tvv, w, n, j, i, k, -eta)
        _put_inertia(TM, w, n, i, k, j, is_)
        _put_inertia(TM, w, n, j, k, i, js)
        if moves(m, k):
            vq = load(packed, p)
            p += 1
            _put(Tqv, w, n, i, k, j, vq)
            _put(Tqv, w, n, j, k, i, -vq)
    return p


@kernel
def place_dof(m, i, packed, p, w, Tqq, Tqv, Tvv, TM):
    """Store all the entries that the records of the lowest dof i, from p on, stand for; returns the records' end.

    Without multipliers (w None) these are entries of the four tensors, each (nv nv nv), row-major [torque, first index,
    second index]; those between branches, and others that are always zero, belong to no record.  With w (nv), terms of
    the contracted tensors, each (nv nv), zeroed before and completed by `_complete` after the last dof."""
    align_stack(packed)
    n = m.dof_body.size
    bi = m.dof_body[i]
    j = m.v_index[bi] + m.dof_count[bi] - 1
    while j >= 0:
        bj = m.dof_body[j]
        below = bi != bj
        k = m.v_index[bj] + m.dof_count[bj] - 1
        while k >= m.v_index[bj]:
            p = _place_own(m, n, i, j, k, below, packed, p, w, Tqq, Tqv, Tvv, TM)
            k = m.dof_parent[k]
        while k >= 0:
            p = _place_upper(m, n, i, j, k, below, packed, p, w, Tqq, Tqv, Tvv, TM)
            k = m.dof_parent[k]
        j = m.dof_parent[j]
    return p


@kernel
def _complete(m, Hqq, Hvv, Hqa):
    """Complete a contraction: mirror the triangles (not of Hqq within a joint), transpose Hqa from [a, q] to [q, a]."""
    n = m.dof_body.size
    for x in range(n):
        y = m.dof_parent[x]
        while y >= 0:
            lower, upper = x * n + y, y * n + x
            store(Hvv, upper, load(Hvv, lower))
            if m.dof_body[x] != m.dof_body[y]:
                store(Hqq, upper, load(Hqq, lower))
            mass = load(Hqa, lower)
            store(Hqa, lower, load(Hqa, upper))
            store(Hqa, upper, mass)
            y = m.dof_parent[y]


@kernel
def contract_packed_kernel(m, packed, w, Hqq, Hqv, Hvv, Hqa):
    """Compute the Hessian of w' tau from the packed tensors, for one knot per lane.

    w (nv).  Results: Hqq, Hqv, Hvv, Hqa, each (nv nv), row-major, all entries written; Hqa[q, a]."""
    zero = splat(packed, 0.0)
    for e in range(m.dof_body.size**2):
        store(Hqq, e, zero)
        store(Hqv, e, zero)
        store(Hvv, e, zero)
        store(Hqa, e, zero)
    p = 0
    for b in range(m.parent.size - 1, -1, -1):
        for i in range(m.v_index[b], m.v_index[b] + m.dof_count[b]):
            p = place_dof(m, i, packed, p, w, Hqq, Hqv, Hvv, Hqa)
    _complete(m, Hqq, Hvv, Hqa)
