"""Positions of links of soft robots as residuals, against poses and differences."""

import numpy as np
import pytest

from dynamics.rods.robot.link_translation import LinkTranslation
from tests.dynamics.test_weighted_squares import check, figures
from tests.reference.rod_robots import ROBOTS, tip
from tests.tolerances import CENTRAL_DIFFERENCES, IDENTITY, relative_error

LINKS = [("manipulator", "arm"), ("hybrid", "tail"), ("hybrid", "plate"), ("hybrid", "flap"), ("hybrid", "weight")]
TARGET = np.array([0.1, -0.2, 0.05])


@pytest.fixture(params=LINKS, ids=lambda link: "-".join(link))
def case(request, rng):
    """A robot, a residual and states."""
    robot, link = ROBOTS[request.param[0]](), request.param[1]
    return robot, LinkTranslation(robot.model, link, TARGET), rng.uniform(-0.5, 0.5, (9, 2 * robot.nq))


def test_value(case):
    robot, residual, xs = case
    r = residual.evaluate(xs)
    for x, value in zip(xs, r, strict=True):
        assert relative_error(value, tip(robot, residual.link, x[: robot.nq])[:3, 3] - TARGET) < IDENTITY
    np.testing.assert_array_equal(residual.evaluate_with_jacobians(xs)[0], r)


def test_derivatives(case, rng):
    robot, residual, xs = case
    x, mu, step, n = xs[0], rng.normal(size=3), 1e-6, robot.nq
    moved = np.concatenate([x + step * np.eye(2 * n), x - step * np.eye(2 * n)])
    r, J = residual.evaluate(moved), residual.jacobians(moved)[0]
    rx, ru = residual.jacobians(x[None])
    H, *rest = residual.hessian_products(x[None], None, mu[None])
    assert ru is None and rest == [None, None]
    assert relative_error(rx[0], (r[: 2 * n] - r[2 * n :]).T / (2.0 * step)) < CENTRAL_DIFFERENCES
    gradients = mu @ J
    assert relative_error(H[0], (gradients[: 2 * n] - gradients[2 * n :]).T / (2.0 * step)) < CENTRAL_DIFFERENCES
    assert relative_error(H[0], H[0].T) < IDENTITY
    assert not rx[..., n:].any() and not H[:, n:].any() and not H[..., n:].any()


@pytest.mark.parametrize("limited", [False, True])
def test_squares(case, rng, limited):
    _, residual, xs = case
    us = np.zeros((len(xs) - 1, 2))
    check(residual, xs, us, figures(rng, len(us), 3, limited), 0, len(us))
    check(residual, xs, us, figures(rng, 1, 3, limited), len(us), len(us) + 1)
