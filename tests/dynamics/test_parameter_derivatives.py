"""Derivatives along a parameter: complex steps of an independent dynamics, a textbook arm whose figures change, and
the derivatives with respect to q, v, a and tau, which are those along unit directions."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from dynamics.algorithms.forward_dynamics import hybrid_dynamics
from dynamics.algorithms.inverse_dynamics import inverse_dynamics
from dynamics.derivatives.forward_dynamics import forward_dynamics_derivatives
from dynamics.derivatives.inverse_dynamics import inverse_dynamics_derivatives
from dynamics.derivatives.parameters import parameter_derivatives
from dynamics.derivatives.regressor import inertial_parameters
from dynamics.model.builder import ModelBuilder
from dynamics.model.joints import Planar, Revolute
from tests.reference import textbook_double_pendulum as textbook
from tests.reference.complex_dynamics import STEP, Point, Robot, complex_step, exponential, hat, pose
from tests.reference.random_robots import random_rotation, random_states, random_trees, settings, with_armature
from tests.reference.rigid_body_models import load_reference
from tests.reference.tangent_differences import in_time
from tests.tolerances import COMPLEX_STEP, IDENTITY, SIXTH_ORDER_DIFFERENCES, forward_tolerance, relative_error

MODES = ("inverse", "forward", "hybrid")
REFERENCES = ("local", "local_world_aligned")


def random_direction(model, rng):
    """Everything changes."""
    bodies = (rng.uniform(-2, 2, (model.nb, size)) for size in (10, 6, 6))
    return Point(*rng.uniform(-2, 2, (4, model.nv)), *bodies)


def random_point(model, rng):
    """Random v, a, tau and wrenches; the rest is the model's own."""
    point = random_direction(model, rng)
    return point._replace(dq=0 * point.dq, inertial=0 * point.inertial, placement=0 * point.placement)


def separate(direction):
    """Directions in which one kind of input changes alone, then the one in which all do; stacked."""
    nothing = Point(*(0 * x for x in direction))
    rows = [*(nothing._replace(**{name: getattr(direction, name)}) for name in Point._fields), direction]
    return Point(*map(np.array, zip(*rows, strict=True)))


def where_given(mode, model, rng):
    """Degrees of freedom (nv,) whose acceleration is given."""
    masks = {"inverse": np.ones(model.nv, bool), "forward": np.zeros(model.nv, bool)}
    return masks.get(mode, rng.random(model.nv) < 0.5)


def derivatives(mode, model, q, point, prescribed, direction, wrench_reference="local"):
    """`parameter_derivatives` of one kind of dynamics."""
    a, tau, chosen = {
        "inverse": (point.a, None, None), "forward": (None, point.tau, None),
        "hybrid": (point.a, point.tau, prescribed),
    }[mode]  # fmt: skip
    return parameter_derivatives(
        model, q, point.v, a, tau, chosen, point.wrenches, wrench_reference,
        dq=direction.dq, dv=direction.v, da=None if a is None else direction.a,
        dtau=None if tau is None else direction.tau, inertial=direction.inertial, placement=direction.placement,
        wrenches=direction.wrenches,
    )  # fmt: skip


def all_equal(result, expected):
    return all(np.array_equal(x, y) for x, y in zip(result, expected, strict=True))


# ------------------------------------------------------------------------------------------------ complex steps
@pytest.mark.parametrize("wrench_reference", REFERENCES)
def test_the_oracle_has_the_same_values(wrench_reference, rng):
    model, _ = load_reference("joint_zoo")
    model = with_armature(model, rng)
    (q,), point = random_states(model, 1, rng, vectors=0)[0], random_point(model, rng)
    prescribed = where_given("hybrid", model, rng)
    robot = Robot(model, q, point, wrench_reference)
    expected = robot.hybrid_dynamics(point.v, point.a, point.tau, prescribed)
    result = hybrid_dynamics(model, q, point.v, point.a, point.tau, prescribed, point.wrenches, wrench_reference)
    for value, oracle in zip(result, expected, strict=True):
        assert relative_error(value, oracle.real) <= COMPLEX_STEP


@pytest.mark.parametrize("mode", MODES)
@settings
@given(tree=random_trees(), wrench_reference=st.sampled_from(REFERENCES))
def test_every_kind_of_direction(mode, tree, wrench_reference):
    """Deviations against the largest change along any of them: along some nothing changes at all."""
    model, rng = tree.build()
    (q,), point = random_states(model, 1, rng, vectors=0)[0], random_point(model, rng)
    directions, prescribed = separate(random_direction(model, rng)), where_given(mode, model, rng)
    result = derivatives(mode, model, q, point, prescribed, directions, wrench_reference)
    for k, direction in enumerate(zip(*directions, strict=True)):
        expected = complex_step(model, q, point, Point(*direction), prescribed, wrench_reference)
        for value, oracle in zip(result, expected, strict=True):
            error = relative_error(value[k], oracle, floor=np.abs(value).max())
            assert error <= COMPLEX_STEP, (*Point._fields, "all")[k]


@pytest.mark.parametrize("wrench_reference", REFERENCES)
@pytest.mark.parametrize("mode", MODES)
def test_wrenches_on_frames(mode, wrench_reference, rng):
    """Some frames are loaded, on others the load changes; on a frame of the world it counts for nothing."""
    model, _ = load_reference("joint_zoo")
    loaded, changed = np.array_split(rng.permutation(model.frame_names)[:12], 2)
    (q,), point = random_states(model, 1, rng, vectors=0)[0], random_point(model, rng)
    point = point._replace(wrenches={str(name): rng.uniform(-5, 5, 6) for name in loaded})
    direction = random_direction(model, rng)
    direction = direction._replace(wrenches={str(name): rng.uniform(-5, 5, 6) for name in changed})
    prescribed = where_given(mode, model, rng)
    result = derivatives(mode, model, q, point, prescribed, direction, wrench_reference)
    expected = complex_step(model, q, point, direction, prescribed, wrench_reference)
    for value, oracle in zip(result, expected, strict=True):
        assert relative_error(value, oracle) <= COMPLEX_STEP


@pytest.mark.parametrize("figure", ["L1", "M2", "C2", "I2"])
def test_figures_of_the_textbook_arm(figure, rng, monkeypatch):
    """Length of the first link; mass, centre of mass and inertia of the second."""
    model, M2, C2 = textbook.model(), textbook.M2, textbook.C2
    inertial, placement = np.zeros((2, 10)), np.zeros((2, 6))
    if figure == "L1":
        placement[1, 0] = 1.0
    else:
        inertial[1, [0, 1, 9]] = {"M2": (1.0, C2, C2**2), "C2": (0.0, M2, 2 * M2 * C2), "I2": (0.0, 0.0, 1.0)}[figure]
    monkeypatch.setattr(textbook, figure, getattr(textbook, figure) + 1j * STEP)
    for q, v, x in rng.uniform(-3, 3, (10, 3, 2)):
        of_torque = parameter_derivatives(model, q, v, x, inertial=inertial, placement=placement).tau
        assert relative_error(of_torque, textbook.inverse_dynamics(q, v, x).imag / STEP) <= COMPLEX_STEP
        of_acceleration = parameter_derivatives(model, q, v, tau=x, inertial=inertial, placement=placement).a
        assert relative_error(of_acceleration, textbook.forward_dynamics(q, v, x).imag / STEP) <= COMPLEX_STEP


def test_figures_given_to_the_builder(rng):
    """Placements and masses of a robot that is built anew, its first body turned against its planar joint."""
    twists, com, p = rng.uniform(-1, 1, (2, 6)), rng.uniform(-0.3, 0.3, (2, 3)), rng.uniform(-1, 1, (2, 3))
    R, kinds = [random_rotation(rng) for _ in range(2)], [Planar((1.0, -2.0, 0.5)), Revolute((1.0, 1.0, 1.0))]

    def robot(t):
        builder = ModelBuilder()
        for i, (name, parent) in enumerate((("plate", "world"), ("arm", "plate"))):
            T = pose(R[i], p[i]) @ exponential(t * hat(twists[i]))
            figures = {"mass": 1.0 + (i + 1) * t, "com": com[i], "inertia": np.diag([0.2, 0.3, 0.4])}
            builder.add_body(name, parent, kinds[i], placement=(T[:3, :3], T[:3, 3]), **figures)
        return builder.build()

    model = robot(0.0)
    q, v, a = (x[0] for x in random_states(model, 1, rng))
    inertial = 1e3 * (inertial_parameters(robot(1e-3)) - inertial_parameters(model))
    result = parameter_derivatives(model, q, v, a, inertial=inertial, placement=twists).tau
    expected = in_time(lambda times: np.array([inverse_dynamics(robot(t), q, v, a) for t in times]))
    assert relative_error(result, expected) <= SIXTH_ORDER_DIFFERENCES


# ------------------------------------------------------------------------------------------------ identities
def test_unit_directions_are_columns(reference, rng):
    model, _ = reference
    model, unit = with_armature(model, rng), np.eye(model.nv)
    q, v, a, tau = (x[0] for x in random_states(model, 1, rng, vectors=3))
    of_torque = inverse_dynamics_derivatives(model, q, v, a)
    for name, expected in zip(("dq", "dv", "da"), of_torque, strict=True):
        assert relative_error(parameter_derivatives(model, q, v, a, **{name: unit}).tau.T, expected) <= IDENTITY
    of_acceleration = forward_dynamics_derivatives(model, q, v, tau)
    for name, expected in zip(("dq", "dv", "dtau"), of_acceleration, strict=True):
        value = parameter_derivatives(model, q, v, tau=tau, **{name: unit}).a.T
        assert relative_error(value, expected) <= forward_tolerance(of_torque.M)


@pytest.mark.parametrize("wrench_reference", REFERENCES)
def test_torques_are_linear_in_the_wrenches(reference, wrench_reference, rng):
    model, _ = reference
    q, v, a = random_states(model, 3, rng)
    wrenches = rng.uniform(-5, 5, (3, model.nb, 6))
    change = parameter_derivatives(model, q, v, a, wrench_reference=wrench_reference, wrenches=wrenches).tau
    loaded = inverse_dynamics(model, q, v, a, wrenches, wrench_reference)
    free = inverse_dynamics(model, q, v, a)
    assert relative_error(change, loaded - free, floor=np.abs(free).max()) <= IDENTITY


def test_moving_the_first_placement_moves_the_robot(rng):
    """... as its free flyer does, in front of which it stands."""
    model, _ = load_reference("hyq")
    q, v, a = (x[0] for x in random_states(model, 1, rng))
    q[3:7] = 0, 0, 0, 1  # body axes = placement axes
    q[:3] = 0
    twist = rng.uniform(-1, 1, 6)
    placement, dq = np.zeros((model.nb, 6)), np.zeros(model.nv)
    placement[0], dq[:6] = twist, twist
    result = parameter_derivatives(model, q, v, a, placement=placement).tau
    assert relative_error(result, parameter_derivatives(model, q, v, a, dq=dq).tau) <= IDENTITY


def test_hybrid_dynamics_at_its_ends(rng):
    model, _ = load_reference("joint_zoo")
    (q,), point = random_states(model, 1, rng, vectors=0)[0], random_point(model, rng)
    direction = random_direction(model, rng)
    for mode in ("inverse", "forward"):
        expected = derivatives(mode, model, q, point, None, direction)
        result = derivatives("hybrid", model, q, point, where_given(mode, model, rng), direction)
        for value, same in zip(result, expected, strict=True):
            assert relative_error(value, same) <= IDENTITY


def test_entries_that_are_not_given_are_ignored(rng):
    model, _ = load_reference("hyq")
    (q,), point = random_states(model, 1, rng, vectors=0)[0], random_point(model, rng)
    direction, prescribed = random_direction(model, rng), where_given("hybrid", model, rng)
    expected = derivatives("hybrid", model, q, point, prescribed, direction)
    blank = {"a": np.where(prescribed, 0.0, np.nan), "tau": np.where(prescribed, np.nan, 0.0)}
    point, direction = (
        x._replace(**{name: getattr(x, name) + blank[name] for name in blank}) for x in (point, direction)
    )
    assert all_equal(derivatives("hybrid", model, q, point, prescribed, direction), expected)


# ------------------------------------------------------------------------------------------------ batches and errors


def test_batches_of_wrenches_on_frames(rng):
    model, _ = load_reference("hyq")
    q, v, a = (x[0] for x in random_states(model, 1, rng))
    first, second = model.frame_names[-2:]
    wrenches = {first: rng.uniform(-1, 1, (3, 6)), second: rng.uniform(-1, 1, 6)}
    result = parameter_derivatives(model, q, v, a, wrenches=wrenches).tau
    one = parameter_derivatives(model, q, v, a, wrenches={first: wrenches[first][1], second: wrenches[second]}).tau
    assert result.shape == (3, model.nv) and np.array_equal(result[1], one)


def test_errors(rng):
    model, _ = load_reference("hyq")
    q, v, a = random_states(model, 2, rng)
    chosen = np.zeros(model.nv, bool)
    for arguments, match in (
        ({}, r"a, tau: got neither, expected a \(inverse dynamics\), tau"),
        ({"a": a, "tau": a}, r"prescribed: got None, .* where both a and tau are given"),
        (
            {"a": a, "tau": a, "prescribed": chosen.astype(int)},
            r"prescribed: got shape \(18,\), dtype int64, expected \(18,\) booleans",
        ),
        ({"a": a, "prescribed": chosen}, "prescribed: expected None unless both a and tau are given"),
        ({"tau": a, "da": a}, "da: got the direction of an unknown, expected None in forward dynamics"),
        ({"a": a, "dtau": a}, "dtau: got the direction of an unknown, expected None in inverse dynamics"),
        ({"a": a, "wrenches": {"trunkk": np.zeros(6)}}, "frame: got 'trunkk'"),
        ({"a": a, "wrench_reference": "world"}, "wrench_reference: got 'world'"),
    ):
        with pytest.raises(ValueError, match=match):
            parameter_derivatives(model, q, v, **arguments)
