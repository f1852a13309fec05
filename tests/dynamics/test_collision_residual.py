"""All that a robot must not hit as one residual: which pairs, which of them get rows, plans that stay clear."""

import numpy as np
import pytest

import dynamics
import trajopt
from dynamics import Box, Capsule, Collisions, Geometry, HalfSpace, Revolute, Sphere
from tests.tolerances import IDENTITY


@pytest.fixture(scope="module")
def arm():
    """Three links in a plane, on a foot, whose shapes are a box, a capsule and two balls."""
    builder = dynamics.ModelBuilder()
    rod = {"mass": 1.0, "com": (0.25, 0, 0), "inertia": 0.02 * np.eye(3), "armature": 0.05}
    parents = {"upper": "world", "lower": "upper", "hand": "lower"}
    for name, parent in parents.items():
        place = np.eye(3), (0.0 if parent == "world" else 0.5, 0, 0)
        builder.add_body(name, parent, Revolute("z"), placement=place, **rod)
    builder.add_geometry("world", Box((0.05, 0.05, 0.05)), name="foot")
    builder.add_geometry("upper", Box((0.2, 0.04, 0.04)), (np.eye(3), (0.25, 0, 0)), name="beam")
    builder.add_geometry("lower", Capsule(0.04, (0, 0, 0), (0.5, 0, 0)), name="tube")
    builder.add_geometry("hand", Sphere(0.05), (np.eye(3), (0.1, 0, 0)), name="palm")
    builder.add_geometry("hand", Sphere(0.05), (np.eye(3), (0.2, 0, 0)), name="tip")
    return builder.build()


WALL = {"wall": (Box((0.1, 0.1, 1.0)), (0.6, 0.35, 0.0)), "ball": (Sphere(0.1), [0.0, -0.8, 0.0])}


def test_pairs(arm):
    moving = ("beam", "tube", "palm", "tip")
    own = {"foot - tube", "foot - palm", "foot - tip", "beam - palm", "beam - tip"}
    found = Collisions(arm, WALL)
    names = {frozenset(name.split(" - ")) for name in found.component_names}
    wanted = {frozenset(name.split(" - ")) for name in own} | {frozenset((a, b)) for a in moving for b in WALL}
    assert names == wanted and found.nr == 13
    assert (found.lower == 0.0).all() and np.isposinf(found.upper).all()
    alone = Collisions(arm, WALL, self_collision=False)
    assert {frozenset(name.split(" - ")) for name in alone.component_names} == wanted - {
        frozenset(("beam", "palm")), frozenset(("beam", "tip"))
    }  # fmt: skip
    beam, wall = next(pair for pair in found.pairs if {item.name for item in pair} == {"beam", "wall"})
    assert isinstance(beam.shape, Capsule) and isinstance(wall.shape, Box), "of two boxes one is a capsule"


def test_ways_to_say_obstacles(arm):
    shape, p = WALL["wall"]
    turned = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    x = np.array([[0.3, 0.4, -0.2, 0.0, 0.0, 0.0]])
    by_tuple, by_placement = Collisions(arm, [(shape, p)]), Collisions(arm, [(shape, (turned, p))])
    by_geometry = Collisions(arm, [Geometry("wall", "world", -1, shape, (turned, p))])
    assert by_tuple.component_names[-1] == "tip - obstacle_0" and by_geometry.component_names[-1] == "tip - wall"
    for other in (by_placement, by_geometry):  # a square post looks the same when it is turned
        np.testing.assert_allclose(other.distances(x), by_tuple.distances(x), atol=10 * IDENTITY)
    ground = Collisions(arm, {"ground": (HalfSpace(), (0, 0, -0.5))}, self_collision=False)
    assert ground.component_names.count("beam - ground") == 8 and ground.component_names.count("tube - ground") == 2


def test_the_closest_pairs_get_rows(arm):
    xs = np.zeros((20, 6))
    xs[:, 0] = np.linspace(0.0, 1.0, 20)
    every = Collisions(arm, WALL, margin=0.05)
    least = dict(zip(every.component_names, every.distances(xs).min(axis=0), strict=True))
    three = sorted(least, key=least.__getitem__)[:3]
    some = Collisions(arm, WALL, margin=0.05, closest=3, along=xs)
    assert set(some.component_names) == set(three) and len(some.all_pairs) == 13
    assert {name for name in least if least[name] < 0.05} - set(three) == {f"{a} - {b}" for a, b, _ in some.missed(xs)}
    for a, b, d in some.missed(xs):
        assert d == pytest.approx(least[f"{a} - {b}"], abs=1e-12)
    back = Collisions(arm, WALL, margin=0.05, closest=3).replaced(xs)
    assert back.component_names == some.component_names and back.margin == 0.05
    np.testing.assert_array_equal(back.evaluate(xs), some.evaluate(xs))
    assert every.missed(xs) == ()


def test_joints_that_follow_others():
    """Rows along the coordinates that lead; distances and other rows as well."""
    builder = dynamics.ModelBuilder()
    bodies = {"base": ("world", 0.0), "left": ("base", 0.3), "right": ("base", -0.3)}
    for name, (parent, y) in bodies.items():
        joint = Revolute("z") if name == "base" else dynamics.Prismatic("y")
        builder.add_body(name, parent, joint, placement=(np.eye(3), (0.2, y, 0)), mass=1.0, inertia=0.01 * np.eye(3))
        builder.add_geometry(name, Sphere(0.1), name=f"{name} ball")
    builder.add_mimic("right_joint", "left_joint", -1.0)
    model = builder.build()
    r = Collisions(model, [(Sphere(0.05), (0.6, 0.9, 0.0))])
    x = np.array([[0.0, 0.1, 0.0, 0.0]])
    names = ["left ball - right ball", "left ball - obstacle_0"]
    at = [r.component_names.index(name) for name in names]
    gap = 0.6 + 2 * 0.1 - 0.2
    assert r.distances(x)[0, at[0]] == pytest.approx(gap) and r.jacobians(x)[0][0, at[0], 1] == pytest.approx(
        2.0 * (gap + 0.2) / 0.2
    )
    few = Collisions(model, [(Sphere(0.05), (0.6, 0.9, 0.0))], closest=1).replaced(x)
    assert few.nr == 1 and few.jacobians(x)[0].shape == (1, 1, 4)


def reach(arm, r, T=60):
    system = dynamics.RigidBodySystem(arm, 0.02, integrator="rk4")
    costs = [trajopt.ControlCost(1e-2)], [trajopt.StateCost(system, [1.2, 0.2, 0.1, 0, 0, 0], 1e3)]
    constraints = [] if r is None else [trajopt.ResidualConstraint(r)]
    return trajopt.Problem(system, np.zeros(6), T, *costs, constraints=constraints)


def test_an_arm_reaches_past_a_wall(arm):
    """Both solvers find the same plan, clear of everything; without the constraint it goes through the wall."""
    every = Collisions(arm, WALL, margin=0.01)
    free = trajopt.DDP().solve(reach(arm, None))
    assert every.distances(free.xs).min() < -0.05
    ddp, ilqr = trajopt.DDP().solve(reach(arm, every)), trajopt.ILQR().solve(reach(arm, every))
    assert ddp.converged and ilqr.converged and ddp.cost == pytest.approx(ilqr.cost, rel=1e-4)
    assert every.distances(ddp.xs).min() > 0.01 - 1e-5
    r, plan = Collisions(arm, WALL, margin=0.01, closest=7, along=free.xs), free
    for _ in range(4):  # it folds through its own foot first
        plan = trajopt.DDP().solve(reach(arm, r), plan.us)
        if not r.missed(plan.xs):
            break
        r = r.replaced(plan.xs)
    assert plan.converged and every.distances(plan.xs).min() > 0.01 - 1e-5


def test_bad_input(arm):
    builder = dynamics.ModelBuilder()
    builder.add_body("bare", "world", Revolute("z"), mass=1.0, inertia=np.eye(3))
    for make, error, text in (
        (lambda: Collisions(builder.build()), ValueError, "model: got no shapes that can meet"),
        (lambda: Collisions(arm, [Sphere(0.1)]), TypeError, r"obstacles\['obstacle_0'\]: got Sphere, expected a"),
        (lambda: Collisions(arm, {"a": (1.0, (0, 0, 0))}), TypeError, r"obstacles\['a'\]: shape: got float"),
        (lambda: Collisions(arm, {"a": (Sphere(0.1), (0, 0))}), ValueError, r"obstacles\['a'\]: position: got"),
        (lambda: Collisions(arm, {"tip": WALL["ball"]}), ValueError, "obstacles: there already is a shape named 'tip'"),
        (lambda: Collisions(arm, closest=0), ValueError, "closest: got 0"),
        (lambda: Collisions(arm, closest=2, along=np.zeros((3, 4))), ValueError, "along: got shape"),
        (lambda: Collisions(arm, margin=-1.0), ValueError, r"margin: got -1\.0"),
        (lambda: Collisions(arm, self_collision=1.5), TypeError, "self_collision"),
        (lambda: Collisions(arm, disabled="no such file.srdf"), FileNotFoundError, "disabled"),
    ):
        with pytest.raises(error, match=text):
            make()
