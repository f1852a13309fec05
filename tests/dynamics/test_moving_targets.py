"""Targets of residuals that differ from knot to knot: each knot is that of a residual with its target alone."""

import pickle

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import dynamics
import problems
from dynamics import rods
from dynamics.simd import LANES
from dynamics.simd.squares import KnotSum, ResidualWeights
from tests.dynamics.test_target_gradient import AXES, FOURTH_ORDER, POINT, STEP, moved, of_arm, of_hand, of_rod
from tests.reference.rod_robots import hybrid
from tests.tolerances import relative_error
from trajopt import check_derivatives
from trajopt.interfaces.system import neutral_state

K = LANES + 3
"""Knots: two chunks of lanes, the second one not full."""
DIFFERENCES = 1e-9
RESIDUALS = {
    "translation": (lambda t: of_arm(lambda m, f: dynamics.FrameTranslation(m, f, t)), "point"),
    "velocity": (lambda t: of_arm(lambda m, f: dynamics.FrameVelocity(m, f, t, "local")), "motion"),
    "rotation": (lambda t: of_arm(lambda m, f: dynamics.FrameRotation(m, f, t)), "rotation"),
    "placement": (lambda t: of_arm(lambda m, f: dynamics.FramePlacement(m, f, t)), "pose"),
    "center of mass": (lambda t: of_hand(lambda m, f: dynamics.CenterOfMass(m, t)), "point"),
    "momentum": (lambda t: of_hand(lambda m, f: dynamics.CentroidalMomentum(m, t)), "motion"),
    "placement of a hand": (lambda t: of_hand(lambda m, f: dynamics.FramePlacement(m, f, t)), "pose"),
    "link": (lambda t: of_rod(lambda m, f: rods.LinkTranslation(m, f, t)), "point"),
    "rotation of a link": (lambda t: of_rod(lambda m, f: rods.LinkRotation(m, f, t), hybrid, "tail"), "rotation"),
    "velocity of a link": (lambda t: of_rod(lambda m, f: rods.LinkVelocity(m, f, t)), "motion"),
    "strain": (lambda t: of_rod(lambda m, f: rods.RodStrain(m, f, 0.4, t)), "motion"),
    "elastic forces": (lambda t: of_rod(lambda m, f: rods.RodForces(m, f, 0.4, t)), "motion"),
}


def at_rest(kind):
    return {"point": POINT, "motion": np.arange(6.0), "rotation": AXES, "pose": (AXES, POINT)}[kind]


def path(kind, t):
    """A target that moves."""
    target = at_rest(kind)
    return moved(target, 0.3 * np.sin(t + np.arange({"point": 3, "rotation": 3}.get(kind, 6))))


def stacked(targets):
    if isinstance(targets[0], tuple):
        return tuple(np.stack(part) for part in zip(*targets, strict=True))
    return np.stack(targets)


def states(system, rng, count=K):
    return system.integrate(np.tile(neutral_state(system), (count, 1)), 0.3 * rng.standard_normal((count, system.ndx)))


def answers(residual, xs, mu, weights):
    """All that a residual says at points, knot by knot and as sums over them."""
    ndx = residual.ndx
    blocks = [np.zeros(s) for s in ((len(xs), ndx), (0, 0), (len(xs), ndx, ndx), (0, 0, ndx), (0, 0, 0))]
    total = residual.add_expansion(KnotSum((0, len(xs)), xs, None, ResidualWeights(weights), blocks, blocks))
    r, rx, _ = residual.evaluate_with_jacobians(xs)
    return residual.evaluate(xs), r, rx, residual.hessian_products(xs, None, mu)[0], blocks[0], blocks[2], total


@pytest.mark.parametrize("name", RESIDUALS)
def test_each_knot_has_its_target(name, rng):
    """Bit for bit what residuals of single targets say, at all knots and at some."""
    make, kind = RESIDUALS[name]
    targets = [path(kind, 0.1 * t) for t in range(K)]
    (moving, system), singles = make(stacked(targets)), [make(target)[0] for target in targets]
    xs, mu, weights = states(system, rng), rng.standard_normal((K, moving.nr)), rng.uniform(0.5, 2.0, (K, moving.nr))
    found = answers(moving, xs, mu, weights)
    each = [answers(one, xs, mu, weights) for one in singles]
    for got, *parts in zip(found[:-1], *(one[:-1] for one in each), strict=True):
        np.testing.assert_array_equal(got, np.stack([part[t] for t, part in enumerate(parts)]))
    assert found[-1] == pytest.approx(0.5 * (weights * found[0] ** 2).sum(), rel=1e-13)
    some = np.array([5, 0, 2, 2])
    np.testing.assert_array_equal(moving.at_knots(some).evaluate(xs[some]), found[0][some])
    np.testing.assert_array_equal(moving.at_knots(some).at_knots(np.array([2])).evaluate(xs), singles[2].evaluate(xs))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(moving.at_knots(some))).evaluate(xs[some]), found[0][some])


@pytest.mark.parametrize("name", RESIDUALS)
def test_a_path_that_stands_still(name, rng):
    """Has the bits of one target."""
    make, kind = RESIDUALS[name]
    target = at_rest(kind)
    (still, system), (path_of_one, _) = make(target), make(stacked([target] * K))
    xs, mu, weights = states(system, rng), rng.standard_normal((K, still.nr)), np.full((1, still.nr), 2.0)
    for got, expected in zip(*(answers(one, xs, mu, weights) for one in (path_of_one, still)), strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("name", ["translation", "velocity", "placement", "placement of a hand", "link"])
def test_derivatives(name, rng):
    make, kind = RESIDUALS[name]
    residual, system = make(stacked([path(kind, t) for t in range(4)]))
    report = check_derivatives(residual, states(system, rng, 4), system=system)
    assert report.ok, str(report)


@pytest.mark.parametrize("name", RESIDUALS)
def test_gradients_by_the_targets(name, rng):
    """By those of all knots, of a residual at some of them."""
    make, kind = RESIDUALS[name]
    residual, system = make(stacked([path(kind, t) for t in range(4)]))
    some = np.array([3, 1, 1])
    xs, dx = states(system, rng, 3), rng.standard_normal((3, system.ndx))
    value, slope = rng.standard_normal((2, 3, residual.nr))
    found = residual.at_knots(some).gradient_by("target", (xs, None, dx, None), value, slope)
    of_one = residual.at_knots(np.array([2])).gradient_by("target", (xs, None, dx, None), value, slope)
    assert len(found) == len(of_one) == 4 and not found[[0, 2]].any() and not of_one[[0, 1, 3]].any()

    def total(knots, t, d):
        rows = [path(kind, s) for s in range(4)]
        rows[t] = moved(rows[t], d)
        r, rx, _ = residual.at_knots(knots).adjusted(target=stacked(rows)).evaluate_with_jacobians(xs)
        return float((value * r).sum() + (slope * np.einsum("tij,tj->ti", rx, dx)).sum())

    for got, knots, t in ((found, some, 3), (found, some, 1), (of_one, np.array([2]), 2)):
        expected = np.zeros(got.shape[1])
        for i in range(len(expected)):
            for multiple, weight in FOURTH_ORDER:
                expected[i] += weight / STEP * total(knots, t, multiple * STEP * np.eye(len(expected))[i])
        assert relative_error(got[t], expected) < DIFFERENCES


@pytest.mark.parametrize("name", RESIDUALS)
def test_functions_of_time(name, rng):
    make, kind = RESIDUALS[name]
    times = 0.1 * np.arange(K)
    (of_time, system), (of_rows, _) = make(lambda t: path(kind, t)), make(stacked([path(kind, t) for t in times]))
    xs = states(system, rng)
    with pytest.raises(ValueError, match=r"is a function of time, which a trajopt\.Problem evaluates"):
        of_time.evaluate(xs)
    np.testing.assert_array_equal(of_time.at_times(times).evaluate(xs), of_rows.evaluate(xs))
    assert of_rows.at_times(times) is of_rows
    parts = [x if isinstance(x, tuple) else (x,) for x in (of_time.at_times(times).target, of_rows.target)]
    for got, expected in zip(*parts, strict=True):
        np.testing.assert_array_equal(got, expected)
        assert not got.flags.writeable


def test_parts_of_poses_that_move(rng):
    residual, system = of_arm(lambda m, f: dynamics.FramePlacement(m, f, (AXES, np.tile(POINT, (K, 1)))))
    other, _ = of_arm(lambda m, f: dynamics.FramePlacement(m, f, (np.tile(AXES, (K, 1, 1)), POINT)))
    assert [part.shape for part in residual.target] == [(K, 3, 3), (K, 3)]
    xs = states(system, rng)
    np.testing.assert_array_equal(residual.evaluate(xs), other.evaluate(xs))


def test_pictures(rng):
    """Show the last target, and the path of points."""
    targets = [path("point", 0.1 * t) for t in range(4)]
    link, system = of_rod(lambda m, f: rods.LinkTranslation(m, f, np.stack(targets)))
    x = states(system, rng, 1)[0]
    cross, line = link.scenery(x[None])
    np.testing.assert_allclose(cross.lines().mean(axis=(0, 1)), targets[-1], rtol=0, atol=1e-12)
    np.testing.assert_array_equal(line.lines(), np.stack([targets[:-1], targets[1:]], axis=1))
    assert cross.target and line.target
    turns = [path("rotation", 0.1 * t) for t in range(4)]
    (turned,) = of_rod(lambda m, f: rods.LinkRotation(m, f, np.stack(turns)))[0].scenery(x[None])
    (last,) = of_rod(lambda m, f: rods.LinkRotation(m, f, turns[-1]))[0].scenery(x[None])
    np.testing.assert_array_equal(turned.lines(), last.lines())


TURNS = Rotation.from_rotvec(np.linspace(0.0, 1.0, 4)[:, None] * [0.0, 0.0, 1.0]).as_matrix()
FLAT = np.concatenate([TURNS[:2], np.zeros((1, 3, 3)), TURNS[3:]])


@pytest.mark.parametrize(
    ("kind", "target", "match"),
    [
        ("FrameTranslation", np.zeros((4, 2)), r"target: got shape \(4, 2\), expected \(3,\), or \(N\+1, 3\) w"),
        ("FrameTranslation", np.zeros((0, 3)), r"target: got shape \(0, 3\)"),
        ("FrameTranslation", np.zeros((2, 2, 3)), r"target: got shape \(2, 2, 3\)"),
        ("FrameTranslation", [[0.0, 0.0, 0.0], [0.0, np.nan, 0.0]], r"target\[1, 1\]: got nan"),
        ("FrameVelocity", np.zeros((4, 3)), r"target: got shape \(4, 3\), expected \(6,\)"),
        ("FrameRotation", np.zeros((4, 3, 2)), r"target\[0\] rotation: got shape \(3, 2\), expected \(3, 3\)"),
        ("FrameRotation", FLAT, r"target\[2\]: got a rotation matrix that is not orthonormal"),
        ("FramePlacement", (TURNS, np.zeros((3, 3))), "target: got 4 rotations and 3 translations, expected as many"),
        ("FramePlacement", (TURNS[0], np.zeros((3, 2))), r"target\[0\] translation: got shape \(2,\), expected \(3,\)"),
        ("FramePlacement", (FLAT, np.zeros(3)), r"target\[2\]: got a rotation matrix that is not orthonormal"),
        ("FramePlacement", None, "target: got None, expected a pair"),
    ],
)  # fmt: skip
def test_bad_targets(kind, target, match):
    model = dynamics.load_urdf(problems.model_path("arm6"))
    with pytest.raises(ValueError, match=match):
        getattr(dynamics, kind)(model, "tool", target)


@pytest.mark.parametrize(
    ("kind", "function", "match"),
    [
        ("FrameTranslation", lambda t: [t], r"target\(0 s\): got shape \(1,\), expected \(3,\)"),
        ("FrameTranslation", lambda t: [t, 0.0, np.nan if t > 0.1 else 0.0], r"target\(0.2 s\)\[2\]: got nan"),
        ("FrameRotation", lambda t: (1.0 + t) * np.eye(3), r"target\(0.1 s\): got a rotation matrix that is not ortho"),
        ("FramePlacement", lambda t: None, r"target\(0 s\): got None, expected a pair"),
        ("FramePlacement", lambda t: np.zeros(3), r"target\(0 s\): got .*, expected a pair"),
    ],
)
def test_functions_that_return_no_targets(kind, function, match):
    model = dynamics.load_urdf(problems.model_path("arm6"))
    with pytest.raises(ValueError, match=match):
        getattr(dynamics, kind)(model, "tool", function).at_times(0.1 * np.arange(4))


def test_other_numbers_of_knots(rng):
    residual, system = of_arm(lambda m, f: dynamics.FrameTranslation(m, f, np.zeros((4, 3))))
    xs = states(system, rng, 5)
    for points in (xs, xs[:3], xs[:1]):
        with pytest.raises(ValueError, match=rf"'translation of tool' has 4 of them, one per knot, got {len(points)}"):
            residual.evaluate(points)
    with pytest.raises(ValueError, match="has 4 of them, expected 6, one per knot"):
        residual.at_times(0.1 * np.arange(6))
