"""Obstacles that move: at each knot distances are those from obstacles that stand where they then are."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import dynamics
import problems
from dynamics import Box, Capsule, Collisions, Distance, Geometry, HalfSpace, Sphere, rods
from dynamics.collisions.collision_pairs import collision_geometry
from dynamics.simd import LANES
from dynamics.simd.squares import KnotSum, ResidualWeights
from tests.dynamics.test_mimics import hand_builder
from tests.reference.rod_robots import manipulator
from tests.tolerances import relative_error
from trajopt import DDP, ILQR, ControlCost, Problem, ResidualConstraint, ResidualCost, StateCost, check_derivatives

K, IDENTITY = LANES + 3, 1e-12


def arm():
    builder = dynamics.ModelBuilder(name="arm with shapes")
    builder.add_model(dynamics.load_urdf(problems.model_path("arm6")))
    builder.add_geometry("forearm", Capsule(0.05, (0.0, 0.0, 0.0), (-0.57, 0.0, 0.0)))
    builder.add_geometry("tool", Sphere(0.04))
    return builder.build()


MODEL = arm()
SYSTEM = dynamics.RigidBodySystem(MODEL, 0.05)
SHAPES = {
    "ball": Sphere(0.1), "bar": Capsule(0.05, (0.0, 0.0, 0.2), (0.0, 0.0, -0.2)), "box": Box((0.1, 0.2, 0.05)),
    "floor": HalfSpace(),
}  # fmt: skip


def place(name, t):
    """Of an obstacle at time t."""
    i = list(SHAPES).index(name)
    R = Rotation.from_rotvec([0.3 * t, -0.5 * t, 0.1 + i]).as_matrix()
    return R, np.array([0.6 * np.cos(t + i), 0.6 * np.sin(t + i), -0.9 if name == "floor" else 0.4 - 0.2 * t])


def rows(name, times):
    R, p = zip(*(place(name, t) for t in times), strict=True)
    return np.stack(R), np.stack(p)


def obstacle(name, at=None):
    return Geometry(name, "world", -1, SHAPES[name], at)


def pairs(obstacles):
    moving = [each for each in collision_geometry(MODEL, "capsule") if each.body >= 0]
    return [(each, other) for other in obstacles for each in moving]


TIMES = 0.1 * np.arange(K)
MOVING = Distance(MODEL, pairs([obstacle(name) for name in SHAPES]), places={n: rows(n, TIMES) for n in SHAPES})


def standing(t):
    return Distance(MODEL, pairs([obstacle(name, place(name, t)) for name in SHAPES]))


def states(rng, count=K):
    return np.hstack([rng.uniform(-1.5, 1.5, (count, 6)), rng.standard_normal((count, 6))])


def answers(residual, xs, mu, weights):
    blocks = [np.zeros(s) for s in ((len(xs), 12), (0, 0), (len(xs), 12, 12), (0, 0, 12), (0, 0, 0))]
    residual.add_expansion(KnotSum((0, len(xs)), xs, None, ResidualWeights(weights), blocks, blocks))
    r, rx, _ = residual.evaluate_with_jacobians(xs)
    return r, rx, residual.hessian_products(xs, None, mu)[0], blocks[0], blocks[2], residual.distances(xs)


def test_each_knot_has_its_places(rng):
    xs, mu, weights = states(rng), rng.standard_normal((K, MOVING.nr)), rng.uniform(0.5, 2.0, (K, MOVING.nr))
    found = answers(MOVING, xs, mu, weights)
    each = [answers(standing(t), xs, mu, weights) for t in TIMES]
    for got, *parts in zip(found, *each, strict=True):
        assert relative_error(got, np.stack([part[t] for t, part in enumerate(parts)])) < IDENTITY
    some = np.array([5, 0, 2, 2])
    for got, whole in zip(answers(MOVING.at_knots(some), xs[some], mu[some], weights[some]), found, strict=True):
        np.testing.assert_array_equal(got, whole[some])
    again = pickle.loads(pickle.dumps(MOVING))
    np.testing.assert_array_equal(again.evaluate(xs), found[0])


def test_derivatives(rng):
    four = Distance(MODEL, MOVING.pairs, places={name: rows(name, TIMES[:4]) for name in SHAPES})
    report = check_derivatives(four, states(rng, 4), system=SYSTEM, step=2.0**-9, tolerance=1e-5)
    assert report.ok, str(report)


def test_functions_of_time_and_positions(rng):
    """A function may return a pose or a position; what stands still may be among what moves."""
    path = rows("ball", TIMES)[1]
    shapes = pairs([obstacle("ball"), obstacle("bar")])
    by_rows = Distance(MODEL, shapes, places={"ball": path, "bar": rows("bar", TIMES)})
    by_time = Distance(MODEL, shapes, places={"ball": lambda t: place("ball", t)[1], "bar": lambda t: place("bar", t)})
    xs = states(rng)
    with pytest.raises(ValueError, match=r"places: that of 'distance' is a function of time, which a trajopt\.Problem"):
        by_time.evaluate(xs)
    np.testing.assert_array_equal(by_time.at_times(TIMES).evaluate(xs), by_rows.evaluate(xs))
    still = Distance(MODEL, shapes, places={"ball": path, "bar": place("bar", 0.3)})
    expected = Distance(MODEL, pairs([obstacle("bar", place("bar", 0.3))])).evaluate(xs)
    assert relative_error(still.evaluate(xs)[:, -expected.shape[1] :], expected) < IDENTITY


def test_collisions(rng):
    """Obstacles that move are among all others, and always have rows."""
    path = rows("ball", TIMES)[1]
    others = {"bar": (SHAPES["bar"], place("bar", 0.0))}
    avoid = Collisions(MODEL, {"ball": (SHAPES["ball"], path), **others}, closest=2, margin=0.02)
    names = [name for name in avoid.component_names if "ball" in name]
    assert len(avoid.pairs) == 2 + len(set(names))
    xs = states(rng)
    at = Collisions(MODEL, {"ball": (SHAPES["ball"], path[3]), **others}, margin=0.02)
    columns = [at.component_names.index(name) for name in avoid.component_names]
    assert relative_error(avoid.evaluate(xs)[3], at.evaluate(xs)[3, columns]) < IDENTITY
    again = avoid.replaced(xs[:2])
    assert len(again.pairs) == len(avoid.pairs) and list(again.places) == ["ball"]
    cross, line = [shape for shape in avoid.scenery(xs[:1]) if shape.surface() is None or len(shape.lines()) > 1][-2:]
    np.testing.assert_allclose(cross.lines().mean(axis=(0, 1)), path[-1], atol=1e-12)
    np.testing.assert_array_equal(line.lines()[:, 0], path[:-1])


def test_joints_that_follow(rng):
    model = hand_builder(rng).build()
    tip = model.frame_names[-1]
    frame = dynamics.frame_placement(model, dynamics.neutral(model), tip)
    body = model.frames[tip].body
    shape = Geometry("tip", tip, body, Sphere(0.05))
    path = frame.p + np.linspace(0.1, 0.5, 4)[:, None]
    moving = Distance(model, [(shape, obstacle("ball"))], places={"ball": path})
    xs = np.tile(np.concatenate([dynamics.neutral(model), np.zeros(model.nv)]), (4, 1))
    for t, p in enumerate(path):
        standing = Distance(model, [(shape, obstacle("ball", (np.eye(3), p)))])
        assert relative_error(moving.evaluate(xs)[t], standing.evaluate(xs)[t]) < IDENTITY
    assert moving.adjustable == ("places",) and moving.at_knots(np.array([2])).evaluate(xs).shape == (4, 1)


@pytest.mark.parametrize("name", SHAPES)
def test_rods_keep_away(name, rng):
    """Each knot of a soft robot's distances is that from an obstacle that stands."""
    model, times = manipulator().model, TIMES[:5]
    other = Geometry("pole", "world", -1, Capsule(0.02, (0.3, 0.0, 0.0), (0.3, 0.0, 1.0)))
    given, xs = [other, obstacle(name)], 0.3 * rng.standard_normal((5, 2 * model.nq))
    moving = rods.RodDistance(model, given, margin=0.01, places={name: rows(name, times)})
    by_time = rods.RodDistance(model, given, margin=0.01, places={name: lambda t: place(name, t)}).at_times(times)
    mu, found = rng.standard_normal((5, moving.nr)), moving.evaluate_with_jacobians(xs)
    H = moving.hessian_products(xs, None, mu)[0]
    np.testing.assert_array_equal(by_time.evaluate(xs), found[0])
    for t, time in enumerate(times):
        standing = rods.RodDistance(model, [other, obstacle(name, place(name, time))], margin=0.01)
        r, rx, _ = standing.evaluate_with_jacobians(xs)
        assert relative_error(found[0][t], r[t]) < IDENTITY and relative_error(found[1][t], rx[t]) < IDENTITY
        assert relative_error(H[t], standing.hessian_products(xs, None, mu)[0][t]) < IDENTITY
        assert relative_error(moving.distances(xs)[t], standing.distances(xs)[t]) < IDENTITY
    assert len(moving.scenery(xs[:1])) == 3, "what stands, what moves, and its path"
    with pytest.raises(ValueError, match="places: got 'bell', expected names of shapes of the world, here 'ba"):
        rods.RodDistance(model, [obstacle("ball")], places={"bell": np.zeros(3)})


# ------------------------------------------------------------------------------------------------ in problems
START, N = np.array([0.0, -1.2, 1.6, -1.9, -1.6, 0.0]), 20
TOOL = dynamics.frame_placement(MODEL, START, "tool").p


def thrown(t):
    """A ball that flies by where the tool is."""
    return TOOL + np.array([0.0, 0.6 - 1.2 * t, 0.05])


def problem(path):
    x0 = SYSTEM.state(START)
    avoid = Collisions(MODEL, {"ball": (Sphere(0.08), path)}, self_collision=False, margin=0.02)
    stay, still = ResidualCost(dynamics.FrameTranslation(MODEL, "tool", TOOL), 100.0), StateCost(SYSTEM, x0, 0.1)
    clear = ResidualConstraint(avoid, at="all", name="clear")
    return Problem(SYSTEM, x0, N, [stay, still, ControlCost(1e-3)], constraints=[clear], us_init="quasi_static")


def clearance(xs, t0=0.0):
    ball = Geometry("ball", "world", -1, Sphere(0.08))
    given = problem(thrown).constraints[0].residual
    of_knots = Distance(MODEL, [(a, replace(ball)) if b.name == "ball" else (a, b) for a, b in given.pairs],
                        places={"ball": np.array([thrown(t0 + t) for t in SYSTEM.dt * np.arange(N + 1)])})  # fmt: skip
    return of_knots.distances(xs).min()


def test_a_ball_is_dodged():
    solution = DDP().solve(problem(thrown))
    assert solution.converged and solution.violation < 1e-6
    assert clearance(solution.xs) > 0.02 - 1e-6
    assert clearance(np.tile(SYSTEM.state(START), (N + 1, 1))) < 0.0, "it would hit an arm that stands still"


def test_updates():
    prepared = DDP(max_iterations=30).prepare(problem(thrown))
    prepared.update(places={"ball": lambda t: thrown(t + 0.1)})
    moved = DDP(max_iterations=30).solve(problem(lambda t: thrown(t + 0.1)))
    np.testing.assert_array_equal(prepared.solve().us, moved.us)
    path = np.array([thrown(t + 0.2) for t in SYSTEM.dt * np.arange(N + 1)])
    prepared.update({"clear": {"places": {"ball": path}}})
    np.testing.assert_array_equal(prepared.solve().us, DDP(max_iterations=30).solve(problem(path)).us)


def test_feedback_by_the_clock_of_the_ball():
    """What is prepared knows how the first control depends on when the ball comes."""
    exact, given, h = DDP(tolerance=1e-13), problem(thrown), 1e-3
    plan = exact.solve(given)
    clock = exact.prepare(given, lambda t: {"clear": {"places": {"ball": lambda s: thrown(t + s)}}})
    feedback = clock.prepare_step(given.x0, 0.0, plan)
    slope = (feedback(given.x0, h) - feedback(given.x0, -h)) / (2.0 * h)
    ends = [exact.solve(problem(lambda s, e=e: thrown(s + e)), warm_start=plan).us[0] for e in (h, -h)]
    assert relative_error(slope, (ends[0] - ends[1]) / (2.0 * h)) < 1e-3


@pytest.mark.parametrize(
    ("places", "error", "match"),
    [
        ({"bell": np.zeros(3)}, ValueError, "places: got 'bell', which does not move, expected some of 'ball'"),
        ({"ball": np.zeros(3)}, ValueError, r"got shapes \(3, 3\) and \(3,\) of 'ball'"),
        ({"ball": np.zeros((4, 2))}, ValueError, r"places\['ball'\]: got shape \(4, 2\), expected \(3,\), or \(N"),
        ({"ball": lambda t: [t]}, ValueError, r"places\['ball'\]\(0 s\): got shape \(1,\)"),
        (3.0, TypeError, "places: got float, expected a mapping of names to places"),
    ],
)  # fmt: skip
def test_bad_updates(places, error, match):
    prepared = ILQR().prepare(problem(thrown))
    with pytest.raises(error, match=match):
        prepared.update(places=places)


@pytest.mark.parametrize(
    ("places", "error", "match"),
    [
        ({"bell": np.zeros(3)}, ValueError, "got 'bell', expected names of shapes of the world, here 'ball'"),
        ({"ball": np.zeros((4, 2))}, ValueError, r"places\['ball'\]: got shape \(4, 2\)"),
        ({"ball": (2.0 * np.eye(3), np.zeros(3))}, ValueError, r"places\['ball'\]: got a rotation matrix that is not"),
        ({"ball": np.zeros((4, 3)), "bar": np.zeros((5, 3))}, ValueError, "places: got 4 of 'ball', 5 of 'bar', ex"),
        (np.zeros(3), TypeError, "places: got ndarray, expected a mapping of names to places"),
    ],
)  # fmt: skip
def test_bad_places(places, error, match):
    shapes = ["ball", "bar"] if isinstance(places, dict) and "bar" in places else ["ball"]
    with pytest.raises(error, match=match):
        Distance(MODEL, pairs([obstacle(name) for name in shapes]), places=places)
