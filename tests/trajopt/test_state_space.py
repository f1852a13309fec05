"""Spaces of states from plain data: they move and compare states as the systems do that describe them."""

import pickle

import numpy as np
import pytest

import dynamics
import problems
from dynamics.rods.kinematics.charts import SQUARE
from tests.tolerances import IDENTITY
from tests.trajopt.systems import CirclePendulum, LinearSystem
from trajopt import ControlRateSystem, FreeDurationSystem
from trajopt.interfaces.state_space import GroupStates, OwnStates, space_of, state_space


def tree():
    """A robot with joints of all kinds."""
    builder, body = dynamics.ModelBuilder(), {"mass": 1.0, "inertia": 0.1 * np.eye(3)}
    builder.add_body("base", "world", dynamics.FreeFlyer(), joint_name="base joint", **body)
    parent = "base"
    for i, joint in enumerate(
        [
            dynamics.Revolute("x"), dynamics.Spherical(), dynamics.Translation(), dynamics.Planar("z"),
            dynamics.Prismatic("y"), dynamics.Continuous("z"),
        ]
    ):  # fmt: skip
        builder.add_body(f"body{i}", parent, joint, joint_name=f"joint{i}", **body)
        parent = f"body{i}"
    return dynamics.RigidBodySystem(builder.build(), 0.01)


SYSTEMS = {
    "all joints": tree,
    "arm": lambda: problems.make("arm").system,
    "quadrotor": lambda: problems.make("quadrotor").system,
    "control rates": lambda: ControlRateSystem(problems.make("quadrotor").system),
    "free durations": lambda: FreeDurationSystem(tree(), 3),
    "gait": lambda: problems.make("quadruped_walk").system,
    "satellite": lambda: problems.make("flexible_satellite").system,
    "charts and rates": lambda: ControlRateSystem(problems.make("flexible_satellite").system),
}


def random_state(system, rng):
    inside = system
    while hasattr(inside, "system"):
        inside = inside.system
    if hasattr(inside, "robot"):
        x = rng.standard_normal(inside.nx)
        axis = rng.standard_normal(3)
        x[:3] = axis / np.linalg.norm(axis) * rng.uniform(0.0, np.sqrt(SQUARE))  # in both charts
    else:
        x = inside.state(dynamics.random_configuration(inside.model, rng), rng.standard_normal(inside.nv))
    return np.append(x, rng.standard_normal(system.nx - inside.nx))


@pytest.mark.parametrize("name", SYSTEMS)
def test_states_move_and_compare_as_by_their_system(name, rng):
    system = SYSTEMS[name]()
    space = state_space(system)
    assert (space.nx, space.ndx) == (system.nx, system.ndx) and not isinstance(space, OwnStates)
    for other in (space, pickle.loads(pickle.dumps(space)), space_of([list(factor) for factor in space.factors])):
        for _ in range(50):
            x0, x1 = random_state(system, rng), random_state(system, rng)
            dx = rng.standard_normal(system.ndx)
            moved, d = system.integrate(x0, dx), system.difference(x0, x1)
            np.testing.assert_allclose(other.move(x0, dx), moved, rtol=IDENTITY, atol=IDENTITY)
            np.testing.assert_allclose(other.compare(x0, x1), d, rtol=IDENTITY, atol=IDENTITY * np.abs(d).max())
            assert other.contains(x0)
            other.check("x", x0)


def test_some_turns_are_compared_in_the_other_chart(rng):
    """The states of the test above are far enough apart."""
    system = SYSTEMS["satellite"]()
    pairs = [(random_state(system, rng), random_state(system, rng)) for _ in range(50)]
    assert any(np.abs(system.difference(a, b) - (b - a)).max() > 1.0 for a, b in pairs)


@pytest.mark.parametrize("name", ["arm", "quadrotor", "all joints", "satellite"])
def test_what_is_no_state_is_refused(name, rng):
    system = SYSTEMS[name]()
    space, x = state_space(system), random_state(system, rng)
    for bad in (np.nan, np.inf):
        for i in range(system.nx):
            wrong = x.copy()
            wrong[i] = bad
            assert not space.contains(wrong)
            with pytest.raises(ValueError, match=r"^x\[\d+\]: got (nan|-?inf), expected finite"):
                space.check("x", wrong)
    assert space.contains(1e200 * x) == (
        not isinstance(space, GroupStates)
    )  # as large as it likes, where it is vectors


def test_quaternions_are_of_unit_length(rng):
    system = SYSTEMS["all joints"]()
    space, x = state_space(system), random_state(system, rng)
    for start in (3, 8):
        longer = x.copy()
        longer[start : start + 4] *= 1.0 + 2e-6
        assert not space.contains(longer)
        with pytest.raises(ValueError, match=rf"^x: the quaternion x\[{start}:{start + 4}\] has norm 1\.000002"):
            space.check("x", longer)
        with pytest.raises(ValueError, match="quaternion"):
            system.check_state(longer[None])


def test_other_manifolds_are_left_to_their_system(rng):
    system = CirclePendulum()
    space = state_space(system)
    x, dx = system.embed(np.array([0.3, 1.0])), np.array([0.2, -1.0])
    assert isinstance(space, OwnStates) and space.factors is None
    np.testing.assert_array_equal(space.move(x, dx), system.integrate(x, dx))
    np.testing.assert_array_equal(space.compare(x, space.move(x, dx)), system.difference(x, system.integrate(x, dx)))


def test_what_a_system_checks_it_goes_on_to_check():
    class Positive(LinearSystem):
        def check_state(self, xs):
            if (xs < 0.0).any():
                raise ValueError("got a number below zero, expected none")

    space = state_space(Positive(np.eye(2), np.eye(2)))
    assert space.contains(np.ones(2)) and not space.contains(-np.ones(2)) and space.factors == (("euclidean", 2),)
    with pytest.raises(ValueError, match=r"^y: got a number below zero"):
        space.check("y", -np.ones(2))


@pytest.mark.parametrize(
    "factors",
    [
        [], [()], ["so3"], [("so4",)], [("so3", 1)], [("euclidean",)], [("euclidean", -1)], [("euclidean", 1.5)],
        [("euclidean", True)], [("charts", 3)], [("charts", 3, 1)], [("charts", 3, [[0, 1, 2]])],
        [("charts", 3, [[0, 1, 3, -1, -1, -1]])], [("charts", 3, []), ("so3",)], [None], [3],
    ],
)  # fmt: skip
def test_what_describes_no_space_is_refused(factors):
    with pytest.raises(ValueError, match=r"state_space: got .*expected"):
        space_of(factors)
