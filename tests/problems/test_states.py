"""States of a robot that are no configurations are refused by name."""

import numpy as np
import pytest

import dynamics
import trajopt


@pytest.fixture(scope="module")
def system():
    builder = dynamics.ModelBuilder()
    builder.add_body("ball", "world", dynamics.FreeFlyer(), mass=1.0, inertia=np.eye(3))
    return dynamics.RigidBodySystem(builder.build(), 0.01)


@pytest.mark.parametrize("w", [0.0, 1.1])
def test_quaternions_are_of_unit_length(system, w):
    x = np.r_[np.zeros(6), w, np.zeros(6)]
    with pytest.raises(ValueError, match=r"x0: .*expected a unit quaternion"):
        trajopt.Problem(system, x, 5)
    with pytest.raises(ValueError, match=r"reference: .*expected a unit quaternion"):
        trajopt.StateCost(system, x, 1.0)
    good = system.state(dynamics.neutral(system.model))
    assert trajopt.Problem(system, good, 5, running_costs=[trajopt.StateCost(system, good, 1.0)]).horizon == 5
