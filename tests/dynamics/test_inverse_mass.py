"""Products with M^-1 by all routes against dense solves: any joints, any tree, columns of the pattern of dID/dq."""

import numpy as np
import pytest
from hypothesis import given

from dynamics.algorithms.articulated_body import ARTICULATED, ELIMINATION, forward_dynamics_kernel
from dynamics.algorithms.branch_factor import factorize, solve_factored
from dynamics.algorithms.inverse_mass import AUTOMATIC, AZA, DIRECT, FACTOR, minus_inverse_products, product_route
from dynamics.algorithms.kinematics import BODY, DOF
from dynamics.algorithms.mass_matrix import mass_matrix, mass_matrix_kernel
from dynamics.model.kernel_model import kernel_model
from dynamics.simd import LANES, driver, gather, launch, load, scatter, split, store
from problems import serial_chain
from tests.reference.random_robots import random_states, random_tree, random_trees, settings, with_armature
from tests.reference.rigid_body_models import NAMES, load_reference
from tests.tolerances import forward_tolerance, relative_error

ROUTES = {"factor": FACTOR, "direct": DIRECT, "aza": AZA}
K = LANES + 3


@driver
def _drive_products(first, last, work, block, route, q, between, A, B, Minv):
    """A, B <- -M^-1 A, -M^-1 B; `between` is added to M."""
    m = kernel_model(block)
    nb, n, nq = m.parent.size, m.dof_body.size, q.shape[1]
    for c in range(first, last):
        body, w = split(work, nb * BODY)
        dof, w = split(w, n * DOF)
        art, w = split(w, nb * ARTICULATED)
        elim, w = split(w, n * ELIMINATION)
        q_, w = split(w, nq)
        zeros, w = split(w, n)
        a, w = split(w, n)
        L, w = split(w, n * n)
        A_, w = split(w, n * n)
        B_, w = split(w, n * n)
        X, w = split(w, n * n)
        gather(q, c * LANES, q_)
        gather(A, c * LANES, A_)
        gather(B, c * LANES, B_)
        zeros[:], X[:] = 0.0, np.nan
        mass_matrix_kernel(m, q_, body, dof, L)
        for k in range(n * n):
            store(L, k, load(L, k) + between[k])
        forward_dynamics_kernel(m, q_, zeros, zeros, zeros, None, body, dof, art, elim, a)
        minus_inverse_products(m, route, dof, elim, art, L, A_, B_, X)
        scatter(A_, c * LANES, A)
        scatter(B_, c * LANES, B)
        scatter(X, c * LANES, Minv)


@driver
def _drive_solve(first, last, work, block, q, sign, columns, X):
    m = kernel_model(block)
    nb, n, nq = m.parent.size, m.dof_body.size, q.shape[1]
    for c in range(first, last):
        body, w = split(work, nb * BODY)
        dof, w = split(w, n * DOF)
        q_, w = split(w, nq)
        L, w = split(w, n * n)
        X_, w = split(w, n * columns)
        gather(q, c * LANES, q_)
        gather(X, c * LANES, X_)
        mass_matrix_kernel(m, q_, body, dof, L)
        factorize(m, L)
        solve_factored(m, L, X_, columns, sign)
        scatter(X_, c * LANES, X)


def numbers(model, matrices):
    """Enough scratch for the drivers above."""
    n = model.nv
    return model.nb * (BODY + ARTICULATED) + n * (DOF + ELIMINATION + 2 + matrices * n) + model.nq


def related(model):
    """(nv, nv), True where one dof is on the other's path to the root: where M and dID are not zero."""
    paths = np.eye(model.nv, dtype=bool)
    for k, before in enumerate(model.arrays.dof_parent):
        if before >= 0:
            paths[k] |= paths[before]
    return paths | paths.T


def products(model, route, q, A, B):
    """-M^-1 A, -M^-1 B, M^-1, each (K, nv, nv).  Entries of M between branches are NaN: no route may read them."""
    n = model.nv
    between = np.where(related(model), 0.0, np.nan).ravel()
    out = [x.reshape(len(q), n * n).copy() for x in (A, B, np.empty_like(A))]
    launch(_drive_products, len(q), numbers(model, 4), model.block, route, q, between, *out)
    return [x.reshape(len(q), n, n) for x in out]


def problem(model, rng):
    """q (K, nq) and two matrices (K, nv, nv) of the pattern of dID/dq."""
    (q,) = random_states(model, K, rng, vectors=0)
    A, B = np.where(related(model), rng.standard_normal((2, K, model.nv, model.nv)), 0.0)
    return q, A, B


def check(model, rng, route):
    q, A, B = problem(model, rng)
    *X, Minv = products(model, route, q, A, B)
    M = mass_matrix(model, q)
    tolerance = forward_tolerance(M)
    for k in range(K):
        assert relative_error(X[0][k], -np.linalg.solve(M[k], A[k])) <= tolerance
        assert relative_error(X[1][k], -np.linalg.solve(M[k], B[k])) <= tolerance
        assert relative_error(Minv[k], np.linalg.inv(M[k])) <= tolerance
    assert np.array_equal(Minv, np.swapaxes(Minv, 1, 2))


@pytest.mark.parametrize("route", ROUTES.values(), ids=ROUTES)
@pytest.mark.parametrize("name", NAMES)
def test_reference_robots(name, route, rng):
    model, _ = load_reference(name)
    check(model, rng, route)
    check(with_armature(model, rng), rng, route)


@pytest.mark.parametrize("route", ROUTES.values(), ids=ROUTES)
@given(random_trees())
@settings
def test_random_trees(route, tree):
    check(*tree.build(), route)


@pytest.mark.parametrize("route", ROUTES.values(), ids=ROUTES)
@pytest.mark.parametrize("kind", ["free flyer", "spherical", "planar", "revolute"])
def test_one_joint_and_forests(kind, route, rng):
    """A single joint; several roots; a body with many children, one with a subtree; a path that ends in a leaf."""
    for parents in ([-1], [-1, -1, -1], [-1, 0, 0, 2, 0], [-1, 0, 1, -1]):
        check(random_tree([kind] * len(parents), parents, rng), rng, route)


@pytest.mark.parametrize("links", range(1, 9))
def test_chains_of_every_length(links, rng):
    for route in ROUTES.values():
        check(serial_chain.model(links), rng, route)


def bushy(bodies, rng):
    """Binary tree, a joint more at the tips of some branches."""
    return random_tree(["revolute"] * bodies, [(i - 1) // 2 for i in range(bodies)], rng)


def test_automatic_route(rng):
    """Chains leave the product for the recursion as they grow; wide trees never do."""
    models = {
        DIRECT: [serial_chain.model(6), bushy(30, rng), load_reference("hyq")[0]],
        AZA: [serial_chain.model(40)],
        FACTOR: [bushy(110, rng)],
    }
    for route, robots in models.items():
        for model in robots:
            assert product_route(model.arrays) == route
            q, A, B = problem(model, rng)
            chosen = products(model, AUTOMATIC, q, A, B)
            assert all(map(np.array_equal, chosen, products(model, route, q, A, B)))
            check(model, rng, route)


@pytest.mark.parametrize("name", ["ur5", "hyq", "joint_zoo"])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_solve_for_any_columns(name, sign, rng):
    model, _ = load_reference(name)
    (q,) = random_states(model, K, rng, vectors=0)
    M = mass_matrix(model, q)
    for columns in (1, 3, 4, 6, model.nv):
        Y = rng.standard_normal((K, model.nv, columns))
        X = Y.reshape(K, -1).copy()
        launch(_drive_solve, K, numbers(model, 2), model.block, q, sign, columns, X)
        for k in range(K):
            assert relative_error(X[k].reshape(-1, columns), sign * np.linalg.solve(M[k], Y[k])) <= forward_tolerance(M)


@given(random_trees())
@settings
def test_subtree_end(tree):
    model, _ = tree.build()
    for k, end in enumerate(model.arrays.subtree_end):
        below = [x for x in range(model.nv) if k in path(model, x)]
        assert below == list(range(k, end))


def path(model, k):
    """Dof k and those before it on its path to the root."""
    while k >= 0:
        yield k
        k = model.arrays.dof_parent[k]
