"""`check_derivatives`: right derivatives pass, a wrong entry is named."""

import numpy as np
import pytest

import dynamics
from tests.trajopt.systems import CartPole, CirclePendulum, Pendulum, TipResidual
from trajopt import ControlCost, ResidualCost, StateCost
from trajopt.problem.derivative_check import check_derivatives


class Off:
    """A system or residual with an error added to one entry of what one method returns."""

    def __init__(self, thing, method, output, index, error=0.01):
        self._thing, self._method, self._output, self._index, self._error = thing, method, output, index, error

    def __getattr__(self, name):
        value = getattr(self._thing, name)
        if name != self._method:
            return value

        def wrong(*args):
            results = [None if r is None else np.array(r) for r in value(*args)]
            results[self._output][(..., *self._index)] += self._error
            return tuple(results)

        return wrong


def floating_pendulum():
    builder = dynamics.ModelBuilder()
    builder.add_body("base", "world", dynamics.FreeFlyer(), joint_name="root", mass=1.0, com=(0.1, 0.2, 0.3),
                     inertia=np.diag([0.1, 0.2, 0.25]))  # fmt: skip
    builder.add_body("rod", "base", dynamics.Revolute("y"), joint_name="pivot", mass=0.5, com=(0.0, 0.0, -0.3))
    return dynamics.RigidBodySystem(builder.build(), 0.05)


def floating_state(system, rng):
    q = dynamics.random_configuration(system.model, rng)
    return system.state(q, rng.standard_normal(system.nv))


@pytest.mark.parametrize("system", [Pendulum(), CartPole()])
def test_right_systems_pass(system):
    report = check_derivatives(system)
    assert report.ok
    assert max(block.error for block in report.blocks) < 1e-7
    assert {"fx", "fu", "Hxx", "Hux", "Huu", "lam'fxx", "semi_implicit fx"} <= {block.name for block in report.blocks}


def test_right_manifold_systems_pass(rng):
    circle = CirclePendulum()
    assert check_derivatives(circle, circle.embed(rng.standard_normal((3, 2)))).ok
    robot = floating_pendulum()
    report = check_derivatives(robot, floating_state(robot, rng))
    assert report.ok and len(report.x) == 1


def test_manifolds_need_a_point():
    with pytest.raises(ValueError, match="x: expected states on the manifold"):
        check_derivatives(floating_pendulum())


@pytest.mark.parametrize(
    "method, output, block, index",
    [
        ("linearize", 0, "fx", (3, 1)),
        ("linearize", 1, "fu", (2, 0)),
        ("hessian_products", 0, "Hxx", (1, 3)),
        ("hessian_products", 1, "Hux", (0, 1)),
        ("hessian_products", 2, "Huu", (0, 0)),
    ],
)
def test_a_wrong_entry_of_a_system_is_located(method, output, block, index):
    report = check_derivatives(Off(CartPole(), method, output, index))
    found = report[block]
    assert not report.ok and not found.ok
    assert found.index == index
    assert found.got - found.expected == pytest.approx(0.01, abs=1e-7)
    wrong = [b.name for b in report.blocks if not b.ok and not b.name.startswith("semi_implicit")]
    assert wrong == [block]
    assert f"{list(index)}" in str(report) and "WRONG" in str(report)


def test_a_wrong_tensor_and_a_broken_promise_are_found():
    report = check_derivatives(Off(CartPole(), "hessians", 1, (2, 0, 1)))
    assert [b.name for b in report.blocks if not b.ok] == ["lam'fux"]
    assert report["lam'fux"].index == (0, 1)
    report = check_derivatives(Off(CartPole(), "linearize", 0, (0, 2), error=1e-9), tolerance=1e-10)
    assert report["semi_implicit fx"].index == (0, 2)


@pytest.mark.parametrize(
    "method, output, block, index",
    [
        ("jacobians", 0, "rx", (1, 0)),
        ("jacobians", 1, "ru", (2, 0)),
        ("hessian_products", 0, "Hxx", (1, 1)),
        ("hessian_products", 1, "Hux", (0, 0)),
    ],
)
def test_a_wrong_entry_of_a_residual_is_located(method, output, block, index):
    assert check_derivatives(TipResidual(), system=Pendulum()).ok
    report = check_derivatives(Off(TipResidual(), method, output, index), system=Pendulum())
    assert [b.name for b in report.blocks if not b.ok] == [block]
    assert report[block].index == index


class Forgetful(TipResidual):
    """Depends on u, and says that it does not."""

    def jacobians(self, xs, us):
        return super().jacobians(xs, us)[0], None


def test_a_forgotten_dependence_on_u_is_found():
    report = check_derivatives(Forgetful(), system=Pendulum())
    assert not report["ru"].ok and report["ru"].index == (2, 0)
    assert report["rx"].ok
    assert any("ru is None" in note for note in report.notes)


def test_a_residual_of_the_state_needs_no_u():
    report = check_derivatives(TipResidual(), x=[0.3, -0.2])
    assert report.ok and report.u is None
    assert [b.name for b in report.blocks] == ["rx", "Hxx"]
    assert any("not checked" in note for note in report.notes)


def test_robot_residuals_on_a_manifold(rng):
    robot = floating_pendulum()
    residual = dynamics.FramePlacement(robot.model, "rod", (np.eye(3), np.array([0.2, 0.1, 0.3])))
    report = check_derivatives(residual, floating_state(robot, rng), system=robot)
    assert report.ok, str(report)


class NoCurvature(ResidualCost):
    """Gauss-Newton only."""

    def accumulate_curvature(self, xs, us, scale, target):
        pass


class Overwriting(ControlCost):
    """Assigns where it should add."""

    def accumulate(self, xs, us, scale, target):
        target.lu[:] = 0.0
        super().accumulate(xs, us, scale, target)


def test_costs():
    system = Pendulum()
    for cost in (
        ResidualCost(TipResidual(), [1.0, 2.0, 3.0]),
        StateCost(system, [0.3, 0.1], [1.0, 2.0]),
        ControlCost(0.3, 0.1),
    ):
        assert check_derivatives(cost, system=system).ok
    report = check_derivatives(NoCurvature(TipResidual(), [1.0, 2.0, 3.0]), system=system)
    assert [b.name for b in report.blocks if not b.ok] == ["lxx", "lux"]
    report = check_derivatives(Overwriting(0.3), system=system)
    assert [b.name for b in report.blocks if not b.ok] == ["lu"]


def test_costs_on_a_manifold(rng):
    robot = floating_pendulum()
    x = floating_state(robot, rng)
    cost = StateCost(robot, floating_state(robot, rng), rng.uniform(0.5, 2.0, robot.ndx))
    assert check_derivatives(cost, x, system=robot).ok


def test_nan_is_wrong():
    report = check_derivatives(Off(CartPole(), "linearize", 0, (1, 2), error=np.nan))
    assert not report["fx"].ok and report["fx"].index == (1, 2)


def test_bad_arguments():
    with pytest.raises(TypeError, match="thing: got int"):
        check_derivatives(3)
    with pytest.raises(ValueError, match="system: got None"):
        check_derivatives(ControlCost(1.0))
    with pytest.raises(ValueError, match="x: got None"):
        check_derivatives(TipResidual())
    with pytest.raises(ValueError, match=r"x: got shape \(3,\), expected \(2,\)"):
        check_derivatives(Pendulum(), [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="u: got 2 points, expected one or 3"):
        check_derivatives(Pendulum(), np.zeros((3, 2)), np.zeros((2, 1)))
    with pytest.raises(ValueError, match="tolerance"):
        check_derivatives(Pendulum(), tolerance=0.0)
    with pytest.raises(KeyError, match="blocks are fx"):
        check_derivatives(Pendulum())["fz"]
