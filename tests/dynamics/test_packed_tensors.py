"""Packed second-order tensors: the arrays and Hessians they stand for, what is stored, memory, chunks, arguments."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given

import dynamics
from dynamics.algorithms.kinematics import BODY, DERIVATIVES, DOF, forward_pass
from dynamics.derivatives.hessian import inverse_dynamics_hessian
from dynamics.derivatives.inverse_dynamics import inverse_dynamics_derivatives
from dynamics.derivatives.packed import contract_packed_kernel, packed_size
from dynamics.derivatives.second_order import (
    LOWEST,
    PackedSecondDerivatives,
    inverse_dynamics_second_derivatives,
    second_order_packed_kernel,
)
from dynamics.simd import LANES, aligned_empty
from dynamics.simd.chunks import LARGE
from problems import serial_chain
from tests.reference import mixed_joints
from tests.reference.random_robots import random_inertia, random_states, random_tree, random_trees, settings
from tests.reference.rigid_body_models import NAMES, load_reference
from tests.tolerances import CONTRACTED, relative_error

LIMIT = 200e6  # bytes, for 64 knots of 50 degrees of freedom


@pytest.fixture(scope="module", params=[*NAMES, "mixed_joints"])
def model(request):
    return mixed_joints.MODEL if request.param == "mixed_joints" else load_reference(request.param)[0]


def contracted(w, tensors):
    """Hqq, Hqv, Hvv, Hqa by summing arrays (K, nv, nv, nv)."""
    dqdq, dqdv, dvdv, dM_dq = tensors
    return [*(np.einsum("ti,tijk->tjk", w, T) for T in (dqdq, dqdv, dvdv)), np.einsum("ti,tiak->tka", w, dM_dq)]


def check(model, q, v, a, w):
    """Arrays by way of the packed form, and Hessians against summed arrays and the sweep that forms no tensor."""
    packed = inverse_dynamics_second_derivatives(model, q, v, a, packed=True)
    assert len(packed) == len(q) and packed.knots == len(q)
    dense = inverse_dynamics_second_derivatives(model, q, v, a)
    for name, tensor, expected in zip(dense._fields, packed.dense(), dense, strict=True):
        assert np.array_equal(tensor, expected), name
    H, direct = packed.contract(w), inverse_dynamics_hessian(model, q, v, a, w)
    first = max(np.abs(x).max() for x in inverse_dynamics_derivatives(model, q, v, a))
    sizes = [max(first, np.abs(x).max()) for x in contracted(np.abs(w), [np.abs(T) for T in dense])]  # what cancels
    for name, x, y, z, size in zip(H._fields, H, direct, contracted(w, dense), sizes, strict=True):
        assert relative_error(x, y, floor=size) <= CONTRACTED, name
        assert relative_error(x, z, floor=size) <= CONTRACTED, name


# ------------------------------------------------------------------------------------------------ values
@pytest.mark.parametrize("K", [1, LANES, LANES + 3])
def test_reference_robots(model, K, rng):
    check(model, *random_states(model, K, rng, vectors=3))


@settings
@given(tree=random_trees())
def test_random_trees(tree):
    model, rng = tree.build()
    check(model, *random_states(model, LANES + 1, rng, vectors=3))


def test_large_arrays_bypass_the_caches(rng):
    model = load_reference("hyq")[0]
    K = LARGE // model.nv**3 + LANES + 3
    q, v, a = random_states(model, K, rng)
    packed = inverse_dynamics_second_derivatives(model, q, v, a, packed=True)
    dense = inverse_dynamics_second_derivatives(model, q, v, a)
    assert dense.dM_dq.size > LARGE
    for first in range(0, K, 2 * LANES + 1):  # batches small enough for plain stores
        part = slice(first, first + 2 * LANES + 1)
        few = inverse_dynamics_second_derivatives(model, q[part], v[part], a[part])
        for x, y, z in zip(dense, packed.dense(), few, strict=True):
            assert np.array_equal(x[part], z) and np.array_equal(y[part], z)


def test_chunk_after_chunk_in_one_scratch(model, rng):
    """The kernels on one chunk of packed numbers, as another kernel would call them."""
    m, n = model.arrays, model.nv
    body, dof, low = (aligned_empty(k, LANES) for k in (model.nb * BODY, n * DOF, LOWEST))
    packed, H = aligned_empty(packed_size(m), LANES), aligned_empty(4, n * n, LANES)
    for _ in range(2):
        q, v, a, w = random_states(model, LANES, rng, vectors=3)
        lanes = [aligned_empty(x.shape[1], LANES) for x in (q, v, a, w)]
        for x, y in zip(lanes, (q, v, a, w), strict=True):
            x[:] = y.T
        forward_pass(m, *lanes[:3], body, dof, DERIVATIVES)
        second_order_packed_kernel(m, body, dof, low, None, low[:0], packed)
        contract_packed_kernel(m, packed, lanes[3], *H)
        for x, y in zip(H, inverse_dynamics_second_derivatives(model, q, v, a, packed=True).contract(w), strict=True):
            assert np.array_equal(x.T.reshape(LANES, n, n), y)


# ------------------------------------------------------------------------------------------------ what is stored
def distinct(x):
    """How many different nonzero magnitudes there are."""
    x = np.sort(np.abs(x[np.abs(x) > 1e-12 * np.abs(x).max()]))
    return 1 + np.count_nonzero(np.diff(x) > 1e-10 * x[1:])


def path(parents, i):
    """Bodies from i to the root."""
    return [i] if parents[i] < 0 else [i, *path(parents, parents[i])]


@pytest.mark.parametrize("parents", [[-1, 0, 1, 2, 3, 4], [-1, 0, 1, 1, 3, 0, 5]])
def test_distinct_numbers_only(parents, rng):
    """As many numbers as magnitudes in d2tau_dqdq, d2tau_dqdv and dM_dq; d2tau_dvdv is made of the last.

    The root is left out: what moves it only turns gravity, which makes some of its numbers equal."""
    model = random_tree(["revolute"] * len(parents), parents, rng)
    q, v, a = (x[0] for x in random_states(model, 1, rng))
    dense = inverse_dynamics_second_derivatives(model, q, v, a)
    packed = inverse_dynamics_second_derivatives(model, q, v, a, packed=True)
    others = len(parents) - 1
    pairs = sum(len(path(parents, i)) - 2 for i in range(1, len(parents)))  # one above the other, without the root
    of_root = 9 * pairs + (5 + 4) * others + 1
    expected = sum(distinct(T[1:, 1:, 1:]) for T in (dense.d2tau_dqdq, dense.d2tau_dqdv, dense.dM_dq))
    assert packed.entries == expected + of_root


def joint_count(model):
    """Numbers per knot, counted over pairs and triples of joints J below K below L with their dofs x, y, z.

    qq is symmetric but inside a joint, vv symmetric, dM_dq symmetric, qv antisymmetric where the lower two exchange
    torque and velocity and zero where such a velocity is that of the root; all others are sums."""
    m, total = model.arrays, 0
    for J in range(model.nb):
        x = int(m.dof_count[J])
        below = x * (x - 1) // 2  # pairs without order
        total += x**3 + (m.parent[J] >= 0) * x * below + x * (below + x) - x  # qq, qv, vv
        K = m.parent[J]
        while K >= 0:
            y, moves = int(m.dof_count[K]), m.parent[K] >= 0
            total += x * y * y * (3 + moves + 1)  # qq and qv of one in J, two in K; dM_dq with vv
            total += y * (5 * x * x + below + moves * below)  # of two in J, one in K: qq, qv, dM_dq; vv, qv by pairs
            L = m.parent[K]
            while L >= 0:
                total += x * y * int(m.dof_count[L]) * (9 + (m.parent[L] >= 0))
                L = m.parent[L]
            K = m.parent[K]
    return total


def test_size_by_joints(model):
    assert packed_size(model.arrays) == joint_count(model)


@settings
@given(tree=random_trees())
def test_size_of_random_trees_by_joints(tree):
    model, _ = tree.build()
    assert packed_size(model.arrays) == joint_count(model)


# ------------------------------------------------------------------------------------------------ memory
def humanoid(rng):
    """A floating base, two legs of 6, a torso of 2, a neck of 2, two arms of 7 and ten fingers of 1 or 2: nv = 50."""
    builder = dynamics.ModelBuilder(name="humanoid")

    def limb(name, parent, count):
        for k in range(count):
            mass, com, inertia = random_inertia(rng)
            builder.add_body(
                f"{name} {k}", parent, dynamics.Revolute("xyz"[k % 3]), mass=mass, com=com, inertia=inertia,
                placement=(np.eye(3), rng.uniform(-0.3, 0.3, 3)),
            )  # fmt: skip
            parent = f"{name} {k}"
        return parent

    builder.add_body("pelvis", "world", dynamics.FreeFlyer(), mass=10.0, inertia=np.diag([0.3, 0.2, 0.25]))
    chest = limb("torso", "pelvis", 2)
    limb("neck", chest, 2)
    for side in ("left", "right"):
        limb(f"{side} leg", "pelvis", 6)
        hand = limb(f"{side} arm", chest, 7)
        for finger, joints in enumerate((2, 1, 1, 1, 2)):
            limb(f"{side} finger {finger}", hand, joints)
    return builder.build()


@pytest.mark.parametrize("name", ["humanoid", "chain"])
def test_memory_of_64_knots_of_50_dofs(name, rng):
    model = humanoid(rng) if name == "humanoid" else serial_chain.model(50)
    assert model.nv == 50
    states = random_states(model, 64, rng)
    tracemalloc.start()
    try:
        packed = inverse_dynamics_second_derivatives(model, *states, packed=True)
        packed.contract(np.ones(50))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert packed.nbytes == 64 * packed.entries * 8 <= peak < LIMIT
    assert packed.nbytes < (0.12 if name == "humanoid" else 0.5) * 64 * 4 * 50**3 * 8


# ------------------------------------------------------------------------------------------------ use


def test_representation(rng):
    model = load_reference("ur5")[0]
    packed = inverse_dynamics_second_derivatives(model, *random_states(model, 5, rng), packed=True)
    assert isinstance(packed, PackedSecondDerivatives)
    assert packed.chunks.shape == (-(-5 // LANES), packed.entries, LANES)
    assert repr(packed).startswith(f"PackedSecondDerivatives({model.name!r}, 5 points, ")
