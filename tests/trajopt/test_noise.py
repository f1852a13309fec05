"""Functions that are less exact than double precision: their noise is measured, and solves end at it."""

import warnings

import numpy as np
import pytest

import trajopt
from trajopt import DDP, ILQR, ControlBounds, ControlCost, Problem, ResidualConstraint, StateCost, StateResidual
from trajopt.callable_system.derivatives import difference_steps, noise_between
from trajopt.capabilities import Steps, capability

single = np.float32


def exact(x, u):
    """A damped pendulum."""
    return np.array([x[1], u[0] - 2.0 * np.sin(x[0]) - 0.1 * x[1]])


def coarse(x, u):
    """The same in single precision."""
    x, u = x.astype(single), u.astype(single)
    return np.array([x[1], u[0] - single(2.0) * np.sin(x[0]) - single(0.1) * x[1]], dtype=single)


def jacobians(x, u):
    """Of both."""
    return np.array([[0.0, 1.0], [-2.0 * np.cos(x[0]), -0.1]]), np.array([[0.0], [1.0]])


def pendulum(function, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", trajopt.SlowDynamicsWarning)
        return trajopt.CallableSystem(xdot=function, nx=2, nu=1, dt=0.1, **options)


def swing(system, hard=False):
    goal = [np.pi, 0.0]
    costs = [] if hard else [StateCost(system, goal, [100.0, 10.0])]
    rows = [ResidualConstraint(StateResidual(system, goal), at="terminal")] if hard else []
    return Problem(system, [0.0, 0.0], 40, [ControlCost(0.1)], costs, [*rows, ControlBounds(-3.0, 3.0)])


ROUGH = {"derivatives": "finite_differences"}  # as one has to ask for, of single precision
OPTIONS = [ROUGH, {"scale": 10.0, **ROUGH}, {"jacobians": jacobians}]


@pytest.mark.parametrize("options", OPTIONS, ids=["differences", "scale", "jacobians"])
@pytest.mark.parametrize("hard", [False, True])
def test_solves_end_at_the_noise(options, hard):
    """As close to the optimum of the exact function as the noise allows, in tens of iterations, and said so."""
    system = pendulum(coarse, **options)
    assert capability(system, Steps).step_noise is not None
    for solver in (ILQR(), DDP()):
        best = solver.solve(swing(pendulum(exact), hard))
        solution = solver.solve(swing(system, hard))
        assert best.converged and solution.converged, solution.explain()
        assert solution.cost == pytest.approx(best.cost, rel=1e-5) and solution.violation < 1e-5
        assert solution.iterations <= 2 * best.iterations + 20
        assert "Steps of the dynamics are noisy" in solution.message and "noisy" not in best.message
        assert "Steps of the dynamics are noisy" in " ".join(solution.explain(solver).split())


@pytest.mark.parametrize("options", [{}, {"derivatives": "finite_differences"}, {"jacobians": jacobians}])
def test_double_precision_has_no_noise(options):
    """Nothing is different there: also with a corner, a clip and a cancellation of large numbers."""

    def bent(x, u):
        return np.array([x[1], min(max(u[0], -1.0), 1.0) + abs(x[0]) + (1e3 + x[0]) - 1e3])

    for function in (exact, bent):
        system = pendulum(function, **options)
        assert capability(system, Steps).step_noise is None and system.step_noise is None


def test_noise_is_measured(rng):
    """Of white noise within a factor, whatever smooth function lies under it; in units of what the function returns."""
    t = 2.0**-20 * np.arange(8)[:, None]
    for sigma in (1e-9, 1e-4):
        found = noise_between(np.sin(3.0 * t) + sigma * rng.standard_normal((8, 200)))
        assert 0.3 * sigma < np.median(found) < 2.0 * sigma
    assert (noise_between(np.exp(t) * np.ones(3)) < 1e-14).all()
    xs = np.array([[0.0, 0.0], [0.1, 1.0], [0.1, 0.5]])
    noise = pendulum(coarse, **ROUGH).step_noise(xs)
    assert noise.shape == (2, 2) and noise[1, 0] == 0.0
    assert 1e-9 < noise[0, 1] < 1e-6
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", trajopt.SlowDynamicsWarning)
        step = lambda x, u: x.astype(single) + single(0.1) * coarse(x, u)  # noqa: E731
        discrete = trajopt.CallableSystem(step, nx=2, nu=1, dt=0.1, **ROUGH)
    assert 1e-9 < discrete.step_noise(xs)[0, 1] < 1e-6


def test_steps_of_differences_are_those_of_the_noise():
    """Jacobians of the coarse function are those of the exact one to its noise over the step, which is longer."""
    x, u = np.array([[0.4, -0.3]]), np.array([[0.2]])
    (fx, fu), (gx, gu) = (pendulum(f, **ROUGH).linearize(x, u) for f in (exact, coarse))
    assert np.abs(fx - gx).max() < 1e-5 and np.abs(fu - gu).max() < 1e-5
    assert difference_steps(None) < difference_steps(np.array([1e-7]))
    assert difference_steps(np.array([0.0, 1e-3]))[0] <= 0.125


def test_checks_of_derivatives_name_noise():
    """Not wrong ones; but wrong ones are so with noise, too."""
    report = trajopt.check_derivatives(pendulum(coarse, **ROUGH))
    assert report.ok and any(block.noisy for block in report.blocks)
    text = str(report)
    assert "noise" in text and "WRONG" not in text
    plain = trajopt.check_derivatives(pendulum(exact))
    assert plain.ok and not any(block.noisy for block in plain.blocks) and "noise" not in str(plain)

    def wrong(x, u):
        fx, fu = jacobians(x, u)
        return 1.01 * fx, fu

    for function in (exact, coarse):
        report = trajopt.check_derivatives(pendulum(function, jacobians=wrong))
        assert not report["fx"].ok and not report.ok and "WRONG" in str(report)
