"""Figures are drawn, without any display and without touching matplotlib's global state."""

import sys

import numpy as np
import pytest

from tests.trajopt.cases import cartpole, linear, tip
from tests.trajopt.systems import CartPole, LinearSystem
from trajopt import DDP, ILQR, ControlCost, Problem, StateCost, compare, plot_convergence, plot_trajectory

PNG = b"\x89PNG\r\n\x1a\n"


def assert_png(path):
    assert path.read_bytes()[:8] == PNG and path.stat().st_size > 10_000


@pytest.fixture(scope="module")
def comparison():
    return compare(tip(), {"ilqr": ILQR(), "ddp": DDP()})


def test_convergence_figure(comparison, tmp_path):
    figure = plot_convergence(comparison, tmp_path / "new" / "convergence.png")
    assert_png(tmp_path / "new" / "convergence.png")
    labels = {axes.get_xlabel() for axes in figure.axes}
    assert len(figure.axes) == 8 and labels == {"iteration", "time [ms]"}
    gap, gradient = (line.get_ydata() for line in (figure.axes[0].lines[0], figure.axes[1].lines[1]))
    best = min(s.cost for s in comparison.values())
    np.testing.assert_allclose(gap[0], comparison["ilqr"].log[0].cost - best)
    np.testing.assert_allclose(gradient, comparison["ddp"].history("gradient_norm"))


def test_motion_figure_in_the_plane(comparison, tmp_path):
    figure = plot_trajectory(comparison, tmp_path / "motion.png")
    assert_png(tmp_path / "motion.png")
    assert [axes.get_ylabel() for axes in figure.axes] == [
        "configuration $q$ [rad, m]", "velocity $v$ [rad/s, m/s]", "controls $u$ [N m, N]", "z [m]",
    ]  # fmt: skip
    np.testing.assert_array_equal(figure.axes[0].lines[1].get_ydata(), comparison["ddp"].xs[:, 0])


def test_motion_figure_in_space(tmp_path):
    class Spatial(CartPole):
        def skeleton(self, xs):
            points = np.stack([xs[:, 0], xs[:, 1], xs[:, 1] ** 2], axis=1)
            return np.stack([points, points + 0.1], axis=1)[:, None]

    p = cartpole()
    solution = DDP().solve(Problem(Spatial(), p.x0, p.horizon, p.running_costs, p.terminal_costs))
    figure = plot_trajectory(solution, tmp_path / "motion.png")
    assert_png(tmp_path / "motion.png")
    assert figure.axes[-1].name == "3d"


def test_states_of_a_system_without_configuration(rng):
    figure = plot_trajectory(ILQR().solve(linear(rng)))
    assert [axes.get_ylabel() for axes in figure.axes] == ["states $x$", "controls $u$"]


def test_many_components_share_a_colour_map(rng):
    system = LinearSystem(0.9 * np.eye(12), rng.standard_normal((12, 3)))
    problem = Problem(system, np.ones(12), 4, [ControlCost(1.0)], [StateCost(system, np.zeros(12), 1.0)])
    figure = plot_trajectory(ILQR().solve(problem))
    colors = {tuple(np.atleast_1d(line.get_color())) for line in figure.axes[0].lines}
    assert len(colors) == 12


def test_a_solution_that_diverged_can_be_drawn(tmp_path):
    system = LinearSystem(1e30 * np.eye(2), np.eye(2))
    problem = Problem(system, [1.0, 0.0], 20, [ControlCost(1.0)], [StateCost(system, [0, 0], 1.0)])
    results = compare(problem, {"ilqr": ILQR(), "ddp": DDP()})
    plot_convergence(results, tmp_path / "convergence.png")
    plot_trajectory(results, tmp_path / "motion.png")
    assert_png(tmp_path / "convergence.png")


def test_what_is_not_a_result_is_refused():
    with pytest.raises(TypeError, match="results: wanted a Solution"):
        plot_convergence({})
    with pytest.raises(TypeError, match="results: wanted a Solution"):
        plot_trajectory({"ddp": 3})


def test_no_global_state(comparison):
    plot_convergence(comparison)
    assert "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()
