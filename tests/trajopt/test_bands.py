"""Bands of two standard deviations about what is drawn of a motion."""

import numpy as np
import pytest

import dynamics
from tests.trajopt.cases import cartpole, tip
from tests.trajopt.test_plotting import assert_png, one_body
from trajopt import DDP, ILQR, ControlCost, Problem, compare, plot_trajectory


@pytest.fixture(scope="module")
def comparison():
    return compare(tip(), {"ilqr": ILQR(), "ddp": DDP()})


def bands(axes):
    """Lower and upper edges (n, K) of the bands of a panel, at times in order."""
    edges = []
    for band in axes.collections:
        x, y = band.get_paths()[0].vertices.T
        times = np.unique(x)
        edges.append([(y[x == t].min(), y[x == t].max()) for t in times])
    return np.moveaxis(np.array(edges), 2, 0)


def test_bands_of_states_and_controls(tmp_path):
    solution = DDP().solve(cartpole())
    covariance = solution.covariance(1e-4 * np.eye(4), initial=1e-3 * np.eye(4))
    figure = plot_trajectory(solution, tmp_path / "motion.png", covariance=covariance)
    low, high = np.concatenate([bands(axes) for axes in figure.axes[:2]], axis=1)
    middle, sd = solution.xs.T, covariance.state_deviations.T
    np.testing.assert_allclose(low, middle - 2.0 * sd, atol=1e-8)
    np.testing.assert_allclose(high, middle + 2.0 * sd, atol=1e-8)
    x, y = figure.axes[2].collections[0].get_paths()[0].vertices.T
    first = (solution.times[0] <= x) & (x < solution.times[1])
    expected = solution.us[0, 0] + 2.0 * covariance.control_deviations[0, 0] * np.array([-1.0, 1.0])
    np.testing.assert_allclose([y[first].min(), y[first].max()], expected)
    assert "$\\pm$ 2 standard deviations" in [text.get_text() for text in figure.legends[0].get_texts()]
    assert_png(tmp_path / "motion.png")


def test_bands_of_a_base_are_those_of_its_place_and_quaternion(rng):
    """Of a body that is turned: R P R' for its place, and the quaternion's derivative by angular velocity."""
    system = one_body(dynamics.FreeFlyer())
    q = dynamics.random_configuration(system.model, rng)
    problem = Problem(system, system.state(q), 3, [ControlCost(1.0)], us_init=np.zeros((3, 6)))
    solution = DDP().solve(problem)
    root = rng.standard_normal((12, 12))
    P = 1e-4 * root @ root.T
    covariance = solution.covariance(np.zeros((12, 12)), initial=P)
    figure = plot_trajectory(solution, covariance=covariance)
    low, high = bands(figure.axes[0])
    R = dynamics.frame_placement(system.model, q, "body").R
    x, y, z, w = q[3:]
    Q = 0.5 * np.array([[w, -z, y], [z, w, -x], [-y, x, w], [-x, -y, -z]])
    variances = np.r_[np.diag(R @ P[:3, :3] @ R.T), np.diag(Q @ P[3:6, 3:6] @ Q.T)]
    np.testing.assert_allclose(0.25 * (high - low)[:, 0], np.sqrt(variances), rtol=1e-6)


def test_bands_of_several_solutions(comparison):
    """Of those that have a covariance."""
    noise = comparison["ddp"].covariance(1e-4 * np.eye(comparison["ddp"].problem.system.ndx))
    figure = plot_trajectory(comparison, covariance={"ddp": noise})
    assert sum(len(axes.collections) for axes in figure.axes[:3]) == noise.xs.shape[1] + noise.us.shape[1]


def test_covariances_that_are_none_of_these_motions(comparison):
    solution = comparison["ddp"]
    noise = solution.covariance(np.eye(solution.problem.system.ndx))
    with pytest.raises(TypeError, match="covariance: got Covariance, expected a mapping of names to Covariance"):
        plot_trajectory(comparison, covariance=noise)
    with pytest.raises(TypeError, match="covariance: got ndarray, expected a Covariance"):
        plot_trajectory(solution, covariance=noise.xs)
    with pytest.raises(ValueError, match="covariance: got one for 'sqp', expected some of ilqr, ddp"):
        plot_trajectory(comparison, covariance={"sqp": noise})
    with pytest.raises(ValueError, match=r"covariance: got xs .* and us .*, expected"):
        plot_trajectory(DDP().solve(cartpole()), covariance=noise)
