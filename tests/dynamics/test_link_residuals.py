"""Residuals of soft robots: frames on links and along rods, strains and forces, distances; against poses, closed forms
and differences."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from dynamics import Box, Capsule, Cylinder, Geometry, HalfSpace, Sphere, rods
from dynamics.rods.kinematics.center_lines import center_lines
from dynamics.rods.model.cross_section import Circular, Elastic, Rectangular
from dynamics.rods.model.strain_basis import LegendreBasis
from dynamics.rods.robot.builder import RodModelBuilder
from tests.dynamics.test_weighted_squares import check, figures
from tests.reference.rod_robots import ROBOTS, tip
from tests.tolerances import CENTRAL_DIFFERENCES, IDENTITY, relative_error

LINKS = [("manipulator", "arm"), ("hybrid", "tail"), ("hybrid", "plate"), ("hybrid", "flap"), ("hybrid", "weight")]
TARGET = np.array([0.1, -0.2, 0.05])
AXES = Rotation.from_rotvec([0.4, -0.7, 0.3]).as_matrix()
ASIDE = (Rotation.from_rotvec([1.0, 0.2, -0.5]).as_matrix(), np.array([0.02, -0.05, 0.03]))


def world(name, shape, p=(0.0, 0.0, 0.0), R=AXES):
    return Geometry(name, "world", -1, shape, (R, np.array(p)))


OBSTACLES = (
    world("ball", Sphere(0.05), (0.25, 0.1, 0.15)),
    world("pillar", Capsule(0.03, (0.0, 0.0, -0.05), (0.0, 0.0, 0.15)), (0.3, -0.1, 0.2)),
    world("wall", HalfSpace(), (0.0, 0.1, -0.2)),
    world("crate", Box((0.05, 0.1, 0.03)), (0.3, -0.2, -0.2)),
)
RESIDUALS = {
    "translation": lambda model, link: rods.LinkTranslation(model, link, TARGET),
    "translation along": lambda model, link: rods.LinkTranslation(model, link, TARGET, 0.37, ASIDE),
    "rotation": lambda model, link: rods.LinkRotation(model, link, AXES),
    "rotation along": lambda model, link: rods.LinkRotation(model, link, AXES, 0.0, ASIDE),
    "velocity": lambda model, link: rods.LinkVelocity(model, link, np.arange(6.0)),
    "velocity along": lambda model, link: rods.LinkVelocity(model, link, None, 0.6, ASIDE),
    "local velocity": lambda model, link: rods.LinkVelocity(model, link, None, reference="local"),
    "local velocity along": lambda model, link: rods.LinkVelocity(model, link, None, 0.6, ASIDE, "local"),
    "strain": lambda model, link: rods.RodStrain(model, link, 0.4, np.arange(6.0)),
    "forces": lambda model, link: rods.RodForces(model, link, 0.4),
    "distance": lambda model, link: rods.RodDistance(model, OBSTACLES, [link], margin=0.01),
    "all distances": lambda model, link: rods.RodDistance(model, OBSTACLES),
}
OF_RODS = {name for name in RESIDUALS if "along" in name} | {"strain", "forces", "distance", "all distances"}
CASES = [
    (*link, kind) for link in LINKS for kind in RESIDUALS if link[1] not in ("plate", "weight") or kind not in OF_RODS
]


@pytest.fixture(params=CASES, ids="-".join)
def case(request, rng):
    """A robot, a residual and states."""
    robot = ROBOTS[request.param[0]]()
    residual = RESIDUALS[request.param[2]](robot.model, request.param[1])
    return robot, residual, rng.uniform(-0.5, 0.5, (9, 2 * robot.nq))


# ------------------------------------------------------------------------------------------------ values
@pytest.mark.parametrize(("name", "link"), LINKS)
def test_ends_of_links(name, link, rng):
    robot = ROBOTS[name]()
    xs = rng.uniform(-0.5, 0.5, (9, 2 * robot.nq))
    places = np.array([tip(robot, link, x[: robot.nq]) for x in xs])
    assert (
        relative_error(rods.LinkTranslation(robot.model, link, TARGET).evaluate(xs), places[:, :3, 3] - TARGET)
        < IDENTITY
    )
    logs = Rotation.from_matrix(AXES.T @ places[:, :3, :3]).as_rotvec()
    assert relative_error(rods.LinkRotation(robot.model, link, AXES).evaluate(xs), logs) < IDENTITY


@pytest.mark.parametrize(("name", "link"), [pair for pair in LINKS if pair[1] not in ("plate", "weight")])
def test_points_of_center_lines(name, link, rng):
    model = ROBOTS[name]().model
    xs = rng.uniform(-0.5, 0.5, (9, 2 * model.nq))
    curve = center_lines(model, xs[:, : model.nq], 11)[link].points
    for k in range(11):
        r = rods.LinkTranslation(model, link, TARGET, 0.1 * k).evaluate(xs)
        assert relative_error(r, curve[:, k] - TARGET) < IDENTITY
        beside = rods.LinkTranslation(model, link, TARGET, 0.1 * k, (np.eye(3), [0.0, 0.01, 0.02])).evaluate(xs)
        turns = Rotation.from_rotvec(rods.LinkRotation(model, link, np.eye(3), 0.1 * k).evaluate(xs))
        assert relative_error(beside - r, turns.apply([0.0, 0.01, 0.02])) < IDENTITY


@pytest.mark.parametrize("case", [case for case in CASES if "velocity" in case[2]], indirect=True, ids="-".join)
def test_velocities_are_rates(case):
    """Of positions and orientations along q + t v, in both references."""
    robot, residual, xs = case
    n, h = robot.nq, 1e-5
    where = {"model": robot.model, "link": residual.link, "s": residual.s, "placement": residual.placement}
    moved = [np.hstack([xs[:, :n] + sign * h * xs[:, n:], xs[:, n:]]) for sign in (1.0, -1.0)]
    p = [rods.LinkTranslation(target=np.zeros(3), **where).evaluate(x) for x in moved]
    turns = [Rotation.from_rotvec(rods.LinkRotation(target=np.eye(3), **where).evaluate(x)) for x in (xs, *moved)]
    linear, angular = (p[0] - p[1]) / (2.0 * h), (turns[1] * turns[2].inv()).as_rotvec() / (2.0 * h)
    if residual.reference == "local":
        linear, angular = turns[0].inv().apply(linear), turns[0].inv().apply(angular)
    assert relative_error(residual.evaluate(xs) + residual.target, np.hstack([linear, angular])) < CENTRAL_DIFFERENCES


def test_strains_and_forces():
    """Of a bar that is stretched by a share of its length, and bent into an arc."""
    builder, E, r = RodModelBuilder(), 2e6, 0.02
    material = Elastic(E, 0.25, 1000.0)
    basis = LegendreBasis(bending_z=0, stretch=0)
    builder.add_rod(
        "bar", "world", 0.5, Circular(r, 0.5 * r), material, basis, reference=(0.1, 0.0, 0.3, 1.0, 0.0, 0.0)
    )
    model, x = builder.build(), np.array([[0.7, 0.02, 0.0, 0.0]])
    at_rest = np.array([[0.0, 0.0, 0.7, 0.02, 0.0, 0.0]])
    radius = 0.75 * r
    scales = np.pi * radius**2 * np.array([0.0, 0.0, 0.25 * radius**2 * E, E, 0.0, 0.0])
    assert relative_error(rods.RodStrain(model, "bar", 0.5).evaluate(x), at_rest) < IDENTITY
    assert relative_error(rods.RodForces(model, "bar", 0.5).evaluate(x), scales * at_rest) < IDENTITY
    total = rods.RodStrain(model, "bar", 0.5, np.zeros(6)).evaluate(x)
    assert relative_error(total, at_rest + [[0.1, 0.0, 0.3, 1.0, 0.0, 0.0]]) < IDENTITY


def test_distances_of_a_straight_rod():
    """In metres, of a straight rod along x, by hand."""
    builder = RodModelBuilder()
    material, basis = Elastic(1e6, 0.3, 1000.0), LegendreBasis(bending_y=1, bending_z=1)
    builder.add_rod("disc", "world", 1.0, Circular(0.1, 0.05), material, basis, points=2)
    builder.add_rod("plank", "world", 1.0, Rectangular(0.03, 0.04), material, basis, points=2)
    model = builder.build()
    obstacles = [
        world("ball", Sphere(0.2), (1.0, 0.0, 2.0)),
        world("pillar", Capsule(0.1, (-1.0, 0.0, 0.0), (2.0, 0.0, 0.0)), (0.0, 1.0, 0.0), np.eye(3)),
        world("floor", HalfSpace(), (0.0, 0.0, -0.5), np.eye(3)),
        world("crate", Box((0.5, 0.5, 0.5)), (2.0, 0.0, 0.0), np.eye(3)),
    ]
    distance = rods.RodDistance(model, obstacles, margin=0.3)
    X = model.rods["disc"].nodes[1:]
    for k, radii in enumerate((0.1 - 0.05 * X, np.full(3, 0.025))):
        to = [np.hypot(X - 1.0, 2.0) - 0.2, np.full(3, 0.9), np.full(3, 0.5), 1.5 - X]
        found = distance.distances(np.zeros((1, 2 * model.nq)))[0].reshape(2, 3, 4)[k]
        assert relative_error(found, (np.array(to) - radii).T) < IDENTITY
    assert distance.component_names[1] == "disc at 0.211 m - pillar" and distance.nr == 24
    assert not distance.lower.any() and np.isinf(distance.upper).all()


@pytest.mark.parametrize(("obstacles", "message"), [
    ([], r"obstacles: got none"),
    ([world("can", Cylinder(0.1, 0.2))], r"obstacles\[0\]: 'can' is a Cylinder"),
    ([Geometry("ball", "arm", 0, Sphere(0.1))], r"obstacles\[0\]: 'ball' is on body 0, expected the world"),
])  # fmt: skip
def test_other_obstacles(obstacles, message):
    with pytest.raises(ValueError, match=message):
        rods.RodDistance(ROBOTS["manipulator"]().model, obstacles)


def test_places_that_bodies_do_not_have():
    with pytest.raises(ValueError, match=r"s: got 0\.5 of the body 'plate', expected 1"):
        rods.LinkRotation(ROBOTS["hybrid"]().model, "plate", np.eye(3), 0.5)


# ------------------------------------------------------------------------------------------------ derivatives
def test_derivatives(case, rng):
    robot, residual, xs = case
    x, mu, step, n = xs[0], rng.normal(size=residual.nr), 1e-6, robot.nq
    moved = np.concatenate([x + step * np.eye(2 * n), x - step * np.eye(2 * n)])
    r, J = residual.evaluate(moved), residual.jacobians(moved)[0]
    rx, ru = residual.jacobians(x[None])
    H, *rest = residual.hessian_products(x[None], None, mu[None])
    assert ru is None and rest == [None, None]
    assert relative_error(rx[0], (r[: 2 * n] - r[2 * n :]).T / (2.0 * step)) < CENTRAL_DIFFERENCES
    gradients = mu @ J
    assert relative_error(H[0], (gradients[: 2 * n] - gradients[2 * n :]).T / (2.0 * step)) < CENTRAL_DIFFERENCES
    assert relative_error(H[0], H[0].T) < IDENTITY
    if not isinstance(residual, rods.LinkVelocity):
        assert not rx[..., n:].any() and not H[:, n:].any() and not H[..., n:].any()
    np.testing.assert_array_equal(residual.evaluate_with_jacobians(xs)[0], residual.evaluate(xs))


@pytest.mark.parametrize("limited", [False, True])
def test_squares(case, rng, limited):
    _, residual, xs = case
    us = np.zeros((len(xs) - 1, 2))
    check(residual, xs, us, figures(rng, len(us), residual.nr, limited), 0, len(us))
    check(residual, xs, us, figures(rng, 1, residual.nr, limited), len(us), len(us) + 1)


def test_another_target():
    model = ROBOTS["manipulator"]().model
    for residual, target in (
        (rods.LinkVelocity(model, "arm", None, 0.3, ASIDE, "local"), np.ones(6)),
        (rods.LinkRotation(model, "arm", AXES, 0.3), AXES.T),
        (rods.RodForces(model, "arm", 0.3), np.ones(6)),
    ):
        new = residual.adjusted(target=target)
        np.testing.assert_array_equal(new.target, target)
        assert new.s == residual.s and new.name == residual.name
