"""The sweep against numpy matrix formulas, and the ways in which it reports that it cannot go on."""

import numpy as np
import pytest

from tests.trajopt.cases import NONLINEAR, cartpole
from trajopt.backward.backward_pass import sweep_loops
from trajopt.backward.curvature_sweeps import sweep_products, sweep_tensors
from trajopt.backward.expansions import Expansion, expand
from trajopt.backward.sweep import sweep


def random_expansion(rng, N=6, n=4, m=2):
    def positive(count, size):
        A = rng.standard_normal((count, size, size))
        return A @ A.swapaxes(1, 2) + 0.1 * np.eye(size)

    whole = positive(N, n + m)
    lxx = np.concatenate([whole[:, :n, :n], positive(1, n)])
    return Expansion(
        fx=rng.standard_normal((N, n, n)), fu=rng.standard_normal((N, n, m)), lx=rng.standard_normal((N + 1, n)),
        lu=rng.standard_normal((N, m)), lxx=lxx, lux=whole[:, n:, :n].copy(), luu=whole[:, n:, n:].copy(),
    )  # fmt: skip


def numpy_sweep(e, mu):
    """The recursion in matrices, gains by a dense solve."""
    N, n, m = e.fu.shape
    Vx, Vxx = e.lx[N], e.lxx[N]
    k, K, values, d1, d2 = np.zeros((N, m)), np.zeros((N, m, n)), [(Vx, Vxx)], 0.0, 0.0
    for t in reversed(range(N)):
        fx, fu = e.fx[t], e.fu[t]
        Qx, Qu = e.lx[t] + fx.T @ Vx, e.lu[t] + fu.T @ Vx
        Qxx, Qux, Quu = e.lxx[t] + fx.T @ Vxx @ fx, e.lux[t] + fu.T @ Vxx @ fx, e.luu[t] + fu.T @ Vxx @ fu
        k[t] = -np.linalg.solve(Quu + mu * np.eye(m), Qu)
        K[t] = -np.linalg.solve(Quu + mu * np.eye(m), Qux)
        Vx = Qx + K[t].T @ Quu @ k[t] + K[t].T @ Qu + Qux.T @ k[t]
        Vxx = Qxx + K[t].T @ Quu @ K[t] + K[t].T @ Qux + Qux.T @ K[t]
        d1, d2 = d1 + k[t] @ Qu, d2 + k[t] @ Quu @ k[t]
        values.append((Vx, Vxx))
    Vx, Vxx = (np.array(v) for v in zip(*reversed(values), strict=True))
    return k, K, Vx, Vxx, d1, d2


@pytest.mark.parametrize("mu", [0.0, 0.5])
@pytest.mark.parametrize("size", [(4, 2), (12, 6), (3, 1), (1, 1), (5, 4)])
@pytest.mark.parametrize("implementation", [sweep_loops, sweep])
def test_sweep_against_matrices(implementation, size, mu, rng):
    e = random_expansion(rng, 6, *size)
    result = implementation(*e, mu, 0.0)
    assert result.ok
    for name, wanted in zip(result._fields, numpy_sweep(e, mu), strict=False):
        got = getattr(result, name)
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-9 * np.abs(wanted).max(), err_msg=name)


def test_value_hessian_is_exactly_symmetric(rng):
    Vxx = sweep(*random_expansion(rng, 10, 7, 3), 0.1, 0.0).Vxx
    np.testing.assert_array_equal(Vxx[:-1], Vxx[:-1].swapaxes(1, 2))


@pytest.mark.parametrize("implementation", [sweep_loops, sweep])
def test_semi_implicit_structure_changes_nothing(implementation, rng):
    problem = cartpole(horizon=10)
    us = rng.standard_normal((10, 1))
    e = expand(problem, problem.system.rollout(problem.x0, us), us)
    structured, dense = implementation(*e, 0.0, problem.system.dt), sweep_loops(*e, 0.0, 0.0)
    for name in ("k", "K", "Vx", "Vxx"):
        wanted = getattr(dense, name)
        np.testing.assert_allclose(getattr(structured, name), wanted, rtol=0, atol=1e-11 * np.abs(wanted).max())


@pytest.mark.parametrize("implementation", [sweep_loops, sweep])
def test_indefinite_quu_is_reported_and_regularization_mends_it(implementation, rng):
    e = random_expansion(rng)
    luu = e.luu.copy()
    luu[2] -= 1000.0 * np.eye(2)
    broken = e._replace(luu=luu)
    assert not implementation(*broken, 0.0, 0.0).ok
    mended = implementation(*broken, 1e4, 0.0)
    assert mended.ok
    for got, wanted in zip(mended, numpy_sweep(broken, 1e4), strict=False):
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-9 * np.abs(wanted).max())


@pytest.mark.parametrize("implementation", [sweep_loops, sweep])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("field", ["fx", "fu", "lxx", "luu", "lu"])
def test_numbers_that_are_not_finite_are_reported(implementation, field, bad, rng):
    e = random_expansion(rng)
    array = getattr(e, field).copy()
    array[3] = bad
    assert not implementation(*e._replace(**{field: array}), 0.0, 0.0).ok


def test_singular_quu_is_reported():
    """No control cost and no effect of the control: Quu = 0."""
    n, m, N = 2, 1, 3
    e = Expansion(
        np.tile(np.eye(n), (N, 1, 1)), np.zeros((N, n, m)), np.ones((N + 1, n)), np.zeros((N, m)),
        np.tile(np.eye(n), (N + 1, 1, 1)), np.zeros((N, m, n)), np.zeros((N, m, m)),
    )  # fmt: skip
    assert not sweep_loops(*e, 0.0, 0.0).ok
    assert sweep_loops(*e, 1e-6, 0.0).ok


@pytest.mark.parametrize("name", NONLINEAR)
def test_products_and_tensors_give_the_same_sweep(name, rng):
    """Both contract with the sweep's own Vx', as matrices say."""
    problem = NONLINEAR[name](horizon=8)
    system = problem.system
    us = 0.1 * rng.standard_normal((8, system.nu))
    xs = system.rollout(problem.x0, us)
    e = expand(problem, xs, us)
    e = e._replace(luu=e.luu + 10.0)
    a, b = sweep_products(system, xs, us, e, 0.0), sweep_tensors(e, system.hessians(xs, us), 0.0)
    assert a.ok and b.ok
    # the last-but-one knot by hand: its multiplier comes out of the sweep itself
    fxx, fux, fuu = (np.einsum("i,ijk->jk", b.Vx[7], f[6]) for f in system.hessians(xs, us))
    by_hand = e._replace(lxx=e.lxx.copy(), lux=e.lux.copy(), luu=e.luu.copy())
    by_hand.lxx[6] += fxx
    by_hand.lux[6] += fux
    by_hand.luu[6] += fuu
    step = sweep_loops(
        *(array[6:7] for array in by_hand[:2]), np.stack([by_hand.lx[6], b.Vx[7]]), by_hand.lu[6:7],
        np.stack([by_hand.lxx[6], b.Vxx[7]]), by_hand.lux[6:7], by_hand.luu[6:7], 0.0, 0.0,
    )  # fmt: skip
    for name in ("k", "K", "Vx", "Vxx"):
        x, y = getattr(a, name), getattr(b, name)
        np.testing.assert_allclose(x, y, rtol=0, atol=1e-11 * max(1.0, np.abs(y).max()))
        np.testing.assert_allclose(getattr(step, name)[0], y[6], rtol=0, atol=1e-11 * max(1.0, np.abs(y[6]).max()))
