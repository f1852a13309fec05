"""The competitors of the derivative experiments give the library's derivatives, each by its own route."""

from functools import lru_cache

import numpy as np
import pytest

import dynamics
from dynamics.simd import LANES
from experiments.derivatives import algorithm
from experiments.derivatives.chains import chain
from tests.reference.random_robots import random_states, random_tree, with_armature
from tests.reference.rigid_body_models import load_reference
from tests.tolerances import IDENTITY, ORACLE, relative_error

KNOTS = LANES + 3  # the last chunk is not full
R, P = "revolute", "prismatic"


INVERSE = [competitor for competitor in algorithm.INVERSE.values() if competitor.public is None]
FORWARD = [*algorithm.BY_ROUTE.values(), algorithm.FORWARD["FDCR"], algorithm.FORWARD["ABACR"]]
ONE_AXIS = [competitor for competitor in INVERSE + FORWARD if competitor.one_axis]


def test_competitors():
    """What the table declares and these tests compare."""
    assert [*algorithm.INVERSE] == ["IDSVA", "IDSVA, body frame", "RNEACR"]
    assert [*algorithm.FORWARD] == ["FDSVA", "FDCR", "ABACR"]
    assert len(INVERSE) == 2 and len(ONE_AXIS) == 4


TREES = {
    "single joint": ([R], [-1]),
    "serial chain": ([R, P, R, R, P, R, R], [-1, 0, 1, 2, 3, 4, 5]),
    "tree": ([P, R, R, P, R, R, P, R, R], [-1, 0, 0, 1, 1, 2, 2, 3, 5]),
    "two roots": ([R, R, P, R, R, P], [-1, -1, 0, 0, 1, 2]),
}
ROBOTS = [*TREES, "branching factor 2", "ur5", "chain_n12_bf2"]


@lru_cache
def robot(name):
    """A robot of revolute and prismatic joints, with rotor inertias."""
    rng = np.random.default_rng(6)
    if name in TREES:
        return random_tree(*TREES[name], rng)
    return chain(15, 2) if name == "branching factor 2" else with_armature(load_reference(name)[0], rng)


def compare(got, expected, tolerance):
    for name, value in got._asdict().items():
        floor = 1e-2  # torques of a single joint do not depend on its velocity
        assert relative_error(value, getattr(expected, name), floor) < tolerance, name


@pytest.mark.parametrize("competitor", INVERSE)
@pytest.mark.parametrize("name", ROBOTS)
def test_inverse_dynamics(name, competitor, rng):
    model = robot(name)
    q, v, a = random_states(model, KNOTS, rng)
    compare(competitor(model, q, v, a), dynamics.inverse_dynamics_derivatives(model, q, v, a), IDENTITY)


@pytest.mark.parametrize("competitor", FORWARD)
@pytest.mark.parametrize("name", ROBOTS)
def test_forward_dynamics(name, competitor, rng):
    model = robot(name)
    q, v, tau = random_states(model, KNOTS, rng)
    compare(competitor(model, q, v, tau), dynamics.forward_dynamics_derivatives(model, q, v, tau), ORACLE)


@pytest.mark.parametrize("competitor", INVERSE + FORWARD)
def test_single_points(competitor, rng):
    model = robot("tree")
    q, v, x = random_states(model, 3, rng)
    batch = competitor(model, q, v, x)
    for k in range(3):
        compare(competitor(model, q[k], v[k], x[k]), type(batch)(*(value[k] for value in batch)), IDENTITY)


def test_reused_scratch(rng):
    """A robot of the same size but with other branches finds no entries of the one before."""
    for parents in ([-1, 0, 1, 2], [-1, 0, 0, 0], [-1, -1, 0, 1]):
        model = random_tree([R, R, P, R], parents, rng)
        q, v, x = random_states(model, 2, rng)
        for competitor in INVERSE:
            compare(competitor(model, q, v, x), dynamics.inverse_dynamics_derivatives(model, q, v, x), IDENTITY)
        for competitor in FORWARD:
            compare(competitor(model, q, v, x), dynamics.forward_dynamics_derivatives(model, q, v, x), ORACLE)


@pytest.mark.parametrize("competitor", ONE_AXIS)
def test_refuses_other_joints_by_name(competitor):
    model, _ = load_reference("spherical_tree")
    name = next(n for n, kind in zip(model.joint_names, model.joint_types, strict=True) if kind == "Spherical")
    with pytest.raises(ValueError, match=f"{name}.*Spherical"):
        competitor(model, dynamics.neutral(model), np.zeros(model.nv), np.zeros(model.nv))
