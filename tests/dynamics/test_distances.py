"""Distances as residuals: values by other means, derivatives against differences, what they keep apart, bad input."""

import numpy as np
import pytest

import dynamics
import trajopt
from dynamics import Box, Capsule, Cylinder, Distance, Geometry, HalfSpace, Sphere
from dynamics.algorithms.frames import body_placements
from dynamics.collisions.collision_pairs import cores, distances
from experiments.tasks.distances import by_coal
from tests.reference.random_robots import random_rotation, random_states, random_tree
from tests.tolerances import CENTRAL_DIFFERENCES, IDENTITY, relative_error

TREE = (
    ["free flyer", "revolute", "spherical", "revolute", "prismatic", "revolute", "revolute"], [-1, 0, 1, 2, 1, 4, -1]
)  # fmt: skip
STEP = 1e-5


def shape(name, body, kind, rng):
    place = random_rotation(rng), 0.2 * rng.normal(size=3)
    made = {
        "capsule": lambda: Capsule(0.05, 0.4 * rng.normal(size=3), 0.4 * rng.normal(size=3)),
        "sphere": lambda: Sphere(0.1), "plane": HalfSpace, "box": lambda: Box((0.3, 0.4, 0.2)),
    }  # fmt: skip
    return Geometry(name, name, body, made[kind](), place)


@pytest.fixture(scope="module")
def robot():
    rng = np.random.default_rng(1)
    model = random_tree(*TREE, rng)
    kinds = {
        "c3": ("capsule", 3), "c5": ("capsule", 5), "c6": ("capsule", 6), "s2": ("sphere", 2), "s": ("sphere", -1),
        "c": ("capsule", -1), "c0": ("capsule", 0), "p": ("plane", -1), "p1": ("plane", 1), "b": ("box", -1),
        "b1": ("box", 1), "b4": ("box", 4),
    }  # fmt: skip
    return model, {name: shape(name, body, kind, rng) for name, (kind, body) in kinds.items()}


ROUND = ("c3 c5", "c3 c6", "s2 c5", "s c3", "c c5", "c0 c3", "s2 s", "c6 c")
FLAT = ("s2 p", "p c5", "c3 p1", "p1 c6", "c p1")
BOXED = ("s2 b", "b1 s2", "c3 b", "c5 b1", "b4 c0", "c b4", "c6 b1", "s b4", "c0 b")


def chosen(shapes, names):
    return [tuple(shapes[name] for name in pair.split()) for pair in names]


def expected(model, q, pairs):
    """Distances of the surfaces, of capsules from half-spaces the smaller of the two."""
    items = list(dict.fromkeys(item for pair in pairs for item in pair))
    first, second = (np.array([items.index(pair[i]) for pair in pairs]) for i in (0, 1))
    return distances(cores(model, q[None], items), first, second)[0]


def test_values(robot, rng):
    model, shapes = robot
    for _ in range(5):
        q, v = (x[0] for x in random_states(model, 1, rng, 1))
        x = np.concatenate([q, v])[None]
        pairs = chosen(shapes, ROUND)
        R = np.array([a.shape.radius + b.shape.radius for a, b in pairs])
        d = expected(model, q, pairs) + R
        exact, smooth = (Distance(model, pairs, eps).evaluate(x)[0] for eps in (0.0, 1e-3))
        np.testing.assert_allclose(exact, (d**2 - R**2) / (2 * R), atol=1e3 * IDENTITY)
        assert (smooth <= exact + IDENTITY).all() and (smooth >= exact - 1e-3 / (4 * R) - IDENTITY).all()
        flat = Distance(model, chosen(shapes, FLAT))
        rows = flat.evaluate(x)[0]
        assert flat.nr == 9 and flat.component_names[:3] == ("s2 - p", "c5 - p", "c5 - p")
        least = [rows[0], *rows[1:].reshape(4, 2).min(axis=1)]
        np.testing.assert_allclose(least, expected(model, q, chosen(shapes, FLAT)), atol=1e3 * IDENTITY)
        apart = Distance(model, pairs, 1e-3, margin=0.02)
        np.testing.assert_allclose(apart.distances(x)[0], d - R, atol=1e3 * IDENTITY)
        kept = Distance(model, pairs, 0.0, margin=0.02).evaluate(x)[0]
        np.testing.assert_allclose(kept, (d**2 - (R + 0.02) ** 2) / (2 * (R + 0.02)), atol=1e3 * IDENTITY)
        lifted = Distance(model, chosen(shapes, FLAT), margin=0.02)
        np.testing.assert_allclose(lifted.evaluate(x)[0], rows - 0.02, atol=IDENTITY)
        np.testing.assert_allclose(lifted.distances(x)[0], rows, atol=IDENTITY)


def test_a_box_above_the_ground_has_a_row_for_each_corner(robot, rng):
    model, shapes = robot
    box, x = shapes["b4"], random_states(model, 1, rng, 1)
    r = Distance(model, [(shapes["p"], box)])
    R, p = body_placements(model, x[0])
    corners = np.array(np.meshgrid(*[(-1, 1)] * 3)).reshape(3, -1).T * box.shape.half_extents
    world = (corners @ box.R.T + box.p) @ R[0, 4].T + p[0, 4]
    heights = (world - shapes["p"].p) @ shapes["p"].R[:, 2]
    np.testing.assert_allclose(np.sort(r.evaluate(np.hstack(x))[0]), np.sort(heights), atol=1e3 * IDENTITY)


def closest_by_search(a, b, box):
    """Distance of points of a segment from a box, the smallest of many, and how far the finest steps may miss it."""
    s = np.linspace(0.0, 1.0, 4001)[:, None]
    x = a + s * (b - a)
    out = np.linalg.norm(x - np.clip(x, -box, box), axis=1)
    return out.min(), np.linalg.norm(b - a) / 4000


def test_boxes_by_search(robot, rng):
    """Apart, against the nearest of many points of the segment; where it runs into the box, negative."""
    model, shapes = robot
    met = 0
    for _ in range(20):
        q, v = random_states(model, 1, rng, 1)
        R, p = body_placements(model, q)
        for capsule, box in chosen(shapes, ("c3 b", "c5 b1", "c0 b4", "c6 b1")):
            found = Distance(model, [(box, capsule)]).distances(np.hstack([q, v]))[0, 0] + capsule.shape.radius
            turn, shift = (R[0, box.body], p[0, box.body]) if box.body >= 0 else (np.eye(3), np.zeros(3))
            ends = np.array([capsule.shape.start, capsule.shape.end]) @ capsule.R.T + capsule.p
            ends = (ends @ R[0, capsule.body].T + p[0, capsule.body] - shift) @ turn
            ends = (ends - box.p) @ box.R
            wanted, step = closest_by_search(*ends, box.shape.half_extents)
            met += wanted == 0.0
            assert found <= 1e-9 if wanted == 0.0 else wanted - step <= found <= wanted + 1e-12
    assert met > 0


@pytest.mark.peer
def test_distances_are_those_of_coal(robot, rng):
    pytest.importorskip("coal")
    model, shapes = robot
    pairs = chosen(shapes, (*ROUND, *BOXED))
    r, below = Distance(model, pairs), 0
    for _ in range(50):
        q, v = random_states(model, 1, rng, 1)
        R, p = body_placements(model, q)
        wanted = [by_coal(R[0], p[0], pair) for pair in pairs]
        found = r.distances(np.hstack([q, v]))[0]
        below += (found < -0.05).sum()
        counts = (found > -0.05) | np.array(["b" in a.name + b.name for a, b in pairs])  # cores that cross say no depth
        assert np.abs(found - wanted)[counts].max() < 1e3 * IDENTITY
    assert below > 0


@pytest.mark.parametrize("eps", [0.0, 1e-3])
def test_derivatives_against_differences(robot, eps, rng):
    """On a free flyer and with a ball in the tree, at closest points inside and at ends."""
    model, shapes = robot
    r = Distance(model, chosen(shapes, [*ROUND, *FLAT, *BOXED]), eps)
    for _ in range(4):
        q, v = (x[0] for x in random_states(model, 1, rng, 1))
        mu, n = rng.normal(size=(1, r.nr)), model.nv

        def at(d, q=q, v=v, n=n):
            return np.concatenate([dynamics.integrate(model, q, d[:n]), v + d[n:]])[None]

        steps = STEP * np.eye(2 * n)
        J = np.stack([r.evaluate(at(d))[0] - r.evaluate(at(-d))[0] for d in steps], axis=1) / (2 * STEP)
        H = np.stack([mu[0] @ (r.jacobians(at(d))[0][0] - r.jacobians(at(-d))[0][0]) for d in steps], 1) / (2 * STEP)
        assert relative_error(r.jacobians(at(0 * steps[0]))[0][0], J) < CENTRAL_DIFFERENCES
        found = r.hessian_products(at(0 * steps[0]), None, mu)[0][0]
        assert relative_error(found, 0.5 * (H + H.T)) < CENTRAL_DIFFERENCES


def test_parallel_capsules_have_derivatives():
    """Where closest points are not unique, the smoothed distance has one derivative, none of which is NaN."""
    builder = dynamics.ModelBuilder()
    builder.add_body("rod", "world", dynamics.Revolute("y"), mass=1.0, inertia=np.eye(3))
    model = builder.build()
    rod = Geometry("rod", "rod", 0, Capsule(0.05, (-0.3, 0, 0), (0.3, 0, 0)))
    rail = Geometry("rail", "world", -1, Capsule(0.05, (-0.3, 0, 0.2), (0.3, 0, 0.2)))
    body = rod.R @ model.frame("rod").R
    rod = Geometry("rod", "rod", 0, rod.shape, (model.frame("rod").R, np.zeros(3)))
    assert np.isfinite(body).all()
    for eps in (0.0, 1e-4):
        r = Distance(model, [(rod, rail)], eps)
        value, slope = r.evaluate([[0.0, 0.0]])[0, 0], r.jacobians([[0.0, 0.0]])[0][0, 0]
        assert np.isfinite(slope).all() and np.isfinite(r.hessian_products([[0.0, 0.0]], None, [[1.0]])[0]).all()
        assert value == pytest.approx((0.2**2 - 0.1**2 - eps / 2) / 0.2)
    assert abs(slope[0]) < 1e-9, "as far up on one side as down on the other"


def test_an_arm_keeps_clear_of_a_ball():
    """Its whole forearm, at the knots, with the same minimum for both solvers."""
    builder = dynamics.ModelBuilder()
    rod = {"mass": 1.0, "com": (0.25, 0, 0), "inertia": 0.02 * np.eye(3), "armature": 0.05}
    builder.add_body("upper", "world", dynamics.Revolute("z"), **rod)
    builder.add_body("lower", "upper", dynamics.Revolute("z"), placement=(np.eye(3), (0.5, 0, 0)), **rod)
    builder.add_geometry("lower", Capsule(0.04, (0, 0, 0), (0.5, 0, 0)))
    builder.add_geometry("world", Sphere(0.1), (np.eye(3), (0.75, 0.35, 0.0)), name="ball")
    model = builder.build()
    arm, ball = model.geometries
    apart = Distance(model, [(arm, ball)])
    system = dynamics.RigidBodySystem(model, 0.02)
    goal = trajopt.StateCost(system, [1.2, 0.0, 0.0, 0.0], 1e3)
    problem = trajopt.Problem(
        system, np.zeros(4), 50, [trajopt.ControlCost(1e-2)], [goal],
        constraints=[trajopt.ResidualConstraint(apart)],
    )  # fmt: skip
    free = trajopt.DDP().solve(trajopt.Problem(system, np.zeros(4), 50, [trajopt.ControlCost(1e-2)], [goal]))
    assert apart.evaluate(free.xs).min() < -0.02, "in the way"
    ddp, ilqr = trajopt.DDP().solve(problem), trajopt.ILQR().solve(problem)
    assert ddp.converged and ilqr.converged and ddp.cost == pytest.approx(ilqr.cost, rel=1e-5)
    pair = np.array([0]), np.array([1])
    assert distances(cores(model, ddp.xs[:, :2], [arm, ball]), *pair).min() > -1e-6


def test_bad_input(robot):
    model, shapes = robot
    rod = Geometry("rod", "rod", 3, Cylinder(0.1, 0.1))
    point = [Geometry(name, name, body, Sphere(0.0)) for name, body in (("a", 0), ("b", 1))]
    for pairs, text in (
        ([], "pairs: got none"),
        ([(shapes["c3"], rod)], r"pairs\[0\]: 'rod' is a Cylinder, expected Sphere, Capsule, Box or HalfSpace"),
        ([(shapes["b"], shapes["b1"])], "'b' and 'b1' are two boxes"),
        ([(shapes["p"], shapes["p1"])], "'p1' and 'p' are two half-spaces"),
        ([(shapes["c3"], shapes["c3"])], "are on one body"),
        ([point], "'a' and 'b' have no radius"),
        ([(shapes["c3"],)], r"pairs\[0\]: got 1 of them"),
    ):
        with pytest.raises(ValueError, match=text):
            Distance(model, pairs)
    with pytest.raises(TypeError, match=r"pairs\[0\]: got int"):
        Distance(model, [(shapes["c3"], 3)])
    for name in ("smoothing", "margin"):
        with pytest.raises(ValueError, match=rf"{name}: got -1\.0"):
            Distance(model, chosen(shapes, ROUND), **{name: -1.0})
