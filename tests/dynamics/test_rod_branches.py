"""Shapes beyond buckling and snapping, and branches through them: the elastica, a truss of two bars, twisted rods."""

import numpy as np
import pytest
from numpy.polynomial.legendre import legfit
from scipy.optimize import brentq, minimize_scalar
from scipy.special import ellipe, ellipk

from dynamics import Fixed, Prismatic, Revolute
from dynamics.rods.algorithms.closed_chains import closure_error
from dynamics.rods.kinematics.center_lines import link_placement
from dynamics.rods.model.cross_section import Anisotropic, Circular, Elastic
from dynamics.rods.model.strain_basis import LegendreBasis
from dynamics.rods.robot.builder import RodModelBuilder
from dynamics.rods.robot.soft_robot import SoftRobot
from dynamics.rods.statics.branch import equilibrium_branch
from dynamics.rods.statics.equilibrium import load_path, negative_directions, static_equilibrium, stiffness_values
from tests.reference.rod_robots import manipulator
from tests.tolerances import IDENTITY, relative_error

RUBBER = Elastic(1e6, 0.5, 1000.0)
LENGTH, RADIUS = 1.0, 0.005
BENDING = 1e6 * np.pi / 4.0 * RADIUS**4
WEIGHTLESS = (0.0, 0.0, 0.0)


# ------------------------------------------------------------------------------------------------ columns
def column(pinned: bool, follower: bool = False) -> SoftRobot:
    """An unshearable, inextensible rod along x: clamped and free, or pinned to the world and to a slider."""
    builder = RodModelBuilder(WEIGHTLESS)
    basis, joint = LegendreBasis(bending_y=9), Revolute("y") if pinned else None
    builder.add_rod("rod", "world", LENGTH, Circular(RADIUS), RUBBER, basis, joint=joint, points=16)
    if pinned:
        builder.add_body("slider", "world", Prismatic("x"), (np.eye(3), [LENGTH, 0.0, 0.0]), mass=0.1)
        builder.add_closure("pin", "rod", "slider", Revolute("y"))
    builder.add_wrench("slider" if pinned else "rod", follower=follower)
    return SoftRobot(builder.build())


def euler(pinned: bool) -> float:
    """The load under which such a column buckles."""
    return np.pi**2 * BENDING / LENGTH**2 / (1.0 if pinned else 4.0)


def pushed(load: float) -> list[list[float]]:
    return [[0.0, 0.0, 0.0, -load, 0.0, 0.0]]


def elastica(ratio: float) -> tuple[float, float]:
    """Distance of the ends of half a buckled pinned rod of length 1 along its load, and across."""
    m = brentq(lambda m: ellipk(m) - 0.5 * np.pi * np.sqrt(ratio), 1e-9, 1.0 - 1e-9)
    return 2.0 * ellipe(m) / ellipk(m) - 1.0, 2.0 * np.sqrt(m) / ellipk(m)


@pytest.mark.parametrize("pinned", [False, True])
@pytest.mark.parametrize("method", ["descent", "loading"])
@pytest.mark.parametrize("ratio", [1.02, 1.5, 2.0])
def test_a_straight_column_buckles(pinned, method, ratio):
    """From the equilibrium that it is in, to the elastica."""
    robot, load = column(pinned), pushed(ratio * euler(pinned))
    straight = static_equilibrium(robot, [], wrenches=load)
    assert straight.converged and not straight.q.any() and not straight.stable and straight.negative_directions == 1
    rest = static_equilibrium(robot, [], wrenches=load, method=method)
    assert rest.converged and rest.stable and rest.negative_directions == 0
    assert np.abs(closure_error(robot.model, rest.q)).max(initial=0.0) <= 1e-12
    p, (x, y) = link_placement(robot.model, "rod", rest.q)[1], elastica(ratio)
    expected = [x, 0.0, 0.0 if pinned else -np.sign(rest.q[0]) * y]
    assert np.abs(p - expected).max() < 2e-4


@pytest.mark.parametrize("pinned", [False, True])
def test_below_its_buckling_load_a_column_stays_straight(pinned):
    for method in ("newton", "descent", "loading"):
        rest = static_equilibrium(column(pinned), [], wrenches=pushed(0.98 * euler(pinned)), method=method)
        assert rest.converged and rest.stable and not rest.q.any()


@pytest.mark.parametrize(("pinned", "loads"), [(False, [1.0, 9.0]), (True, [1.0, 4.0, 9.0])])
def test_buckling_loads_along_a_branch(pinned, loads):
    """The straight column's, (2 k + 1)^2 and k^2 times the first; one direction more turns negative at each."""
    branch = equilibrium_branch(column(pinned), [], wrenches=pushed(euler(pinned)), factors=(0.0, 9.9))
    assert branch.status == "converged" and branch.factors[-1] == pytest.approx(9.9) and not branch.q[:, :10].any()
    assert branch.critical_kinds == ("bifurcation",) * len(loads)
    assert relative_error(branch.critical_factors, loads) < 4e-3
    assert branch.critical_factors[0] == pytest.approx(1.0, abs=1e-4)
    assert (branch.negative_directions == [(x > branch.critical_factors).sum() for x in branch.factors]).all()
    assert (branch.stable == (branch.negative_directions == 0)).all()


def test_the_branch_of_the_elastica():
    """Tips at all loads from 2 down to the first one, and up to 4."""
    robot = column(False)
    load = pushed(euler(False))
    bent = static_equilibrium(robot, [], wrenches=pushed(2.0 * euler(False)), method="descent").q
    for end in (1.01, 4.0):
        branch = equilibrium_branch(robot, [], bent, load, factors=(2.0, end))
        assert branch.status == "converged" and branch.stable.all() and not branch.critical_kinds
        tips = np.array([link_placement(robot.model, "rod", q)[1][[0, 2]] for q in branch.q])
        expected = np.array([elastica(ratio) for ratio in branch.factors])
        assert len(tips) > 5 and np.abs(np.abs(tips) - np.abs(expected)).max() < 1e-4


@pytest.mark.parametrize("pinned", [False, True])
def test_the_branch_that_leaves_a_bifurcation(pinned):
    """From the straight column's first one both ways, along the elastica; a pinned one falls aside where its ends
    meet."""
    robot, load, tips = column(pinned), pushed(euler(pinned)), []
    straight = equilibrium_branch(robot, [], wrenches=load, factors=(0.0, 1.5))
    start, at, aside = straight.critical_factors[0], straight.critical_q[0], straight.critical_directions[0]
    for direction in (aside, -aside):
        branch = equilibrium_branch(robot, [], at, load, factors=(start, 2.3), step=0.3, direction=direction)
        assert branch.status == "converged" and len(branch.factors) > 10 and branch.factors[0] == start
        assert not branch.q[0].any() and branch.q[1] @ direction > 0.0
        tips.append(np.array([link_placement(robot.model, "rod", q)[1][[0, 2]] for q in branch.q[1:]]))
        expected = np.array([elastica(ratio / start) for ratio in branch.factors[1:]])
        assert np.abs(tips[-1][:, 0] - expected[:, 0]).max() < 2e-4
        assert pinned or np.abs(np.abs(tips[-1][:, 1]) - expected[:, 1]).max() < 1e-4
        meeting = [brentq(lambda ratio: elastica(ratio)[0], 2.0, 2.3)] if pinned else []
        assert branch.critical_factors == pytest.approx(meeting, abs=1e-3)
        assert branch.stable[1:].tolist() == [not pinned or x < meeting[0] for x in branch.factors[1:]]
    assert np.abs(tips[0] - [1.0, -1.0] * tips[1]).max() < 1e-7


def test_a_follower_is_no_gradient():
    """Under a force along its tip a column has no other equilibrium (Beck): the stiffness keeps its sign."""
    branch = equilibrium_branch(column(False, follower=True), [], wrenches=pushed(euler(False)), factors=(0.0, 7.0))
    assert branch.status == "converged" and branch.stable.all() and not branch.critical_kinds


# ------------------------------------------------------------------------------------------------ a truss that snaps
HALF, HEIGHT, BAR = 0.5, 0.1, np.hypot(0.5, 0.1)
AREA = np.pi * 1e-4


def truss() -> SoftRobot:
    """Two elastic bars between hinges, upright in the plane of x and z; a wrench at the ridge."""
    builder, c, s = RodModelBuilder(WEIGHTLESS), HALF / BAR, HEIGHT / BAR
    for name, side in (("left", 1.0), ("right", -1.0)):
        R = np.array([[side * c, 0.0, -s], [0.0, 1.0, 0.0], [s, 0.0, side * c]])
        builder.add_rod(
            name, "world", BAR, Circular(0.01), RUBBER, LegendreBasis(stretch=0), joint=Revolute("y"),
            placement=(R, [-side * HALF, 0.0, 0.0]),
        )  # fmt: skip
    builder.add_closure("ridge", "left", "right", Revolute("y"))
    builder.add_wrench("left")
    return SoftRobot(builder.build())


def carried(z):
    """Load that the truss carries with its ridge at a height."""
    return 2.0 * RUBBER.young * AREA * (1.0 / np.hypot(HALF, z) - 1.0 / BAR) * z


TOP = minimize_scalar(lambda z: -carried(z), bounds=(0.0, HEIGHT), method="bounded", options={"xatol": 1e-12}).x
SNAP = carried(TOP)


def hung(load: float) -> list[list[float]]:
    return [[0.0, 0.0, 0.0, 0.0, 0.0, -load]]


def test_a_truss_snaps_through():
    """The whole curve of load and height, up to a limit point, back past zero to another, and up again."""
    robot = truss()
    branch = equilibrium_branch(robot, [], wrenches=hung(3.0 * SNAP), step=0.05)
    heights = np.array([link_placement(robot.model, "left", q)[1][2] for q in branch.q])
    assert branch.status == "converged" and heights[0] == pytest.approx(HEIGHT) and heights[-1] < -HEIGHT
    assert np.abs(3.0 * SNAP * branch.factors - carried(heights)).max() < 1e-8 * SNAP
    assert branch.critical_kinds == ("limit", "limit")
    assert relative_error(3.0 * branch.critical_factors, [1.0, -1.0]) < 1e-7
    at = [link_placement(robot.model, "left", q)[1][2] for q in branch.critical_q]
    assert relative_error(carried(np.array(at)), [SNAP, -SNAP]) < 1e-7
    between = np.abs(heights) < at[0]
    assert between.sum() > 5 and (branch.negative_directions == between).all()


@pytest.mark.parametrize("method", ["descent", "loading"])
def test_what_a_truss_snaps_to(method):
    for ratio, side in ((0.95, 1.0), (1.05, -1.0)):
        rest = static_equilibrium(truss(), [], wrenches=hung(ratio * SNAP), method=method)
        height = link_placement(truss().model, "left", rest.q)[1][2]
        assert rest.converged and rest.stable and side * height > 0.0
        assert carried(height) == pytest.approx(ratio * SNAP, rel=1e-9)


def test_controls_and_prescribed_joints_as_loads():
    """A branch over tensions ends where Newton's method does; so does one that turns a held joint."""
    robot, tensions = manipulator(), np.array([10.0, 2.0, 0.0, 5.0, 1.0])
    start = static_equilibrium(robot, np.ones(5)).q
    branch = equilibrium_branch(robot, tensions, start, u_start=np.ones(5))
    assert relative_error(branch.q[-1], static_equilibrium(robot, tensions).q) < 1e-7
    builder = RodModelBuilder()
    builder.add_body("motor", "world", Revolute("y"))
    builder.add_rod("rod", "motor", 0.4, Circular(0.02), RUBBER, LegendreBasis(bending_y=2, stretch=1))
    robot = SoftRobot(builder.build())
    for angle in (0.8, -0.5):
        branch = equilibrium_branch(robot, [], prescribed={"motor": angle})
        rest = static_equilibrium(robot, [], prescribed={"motor": angle}, method="loading")
        assert branch.q[-1, 0] == pytest.approx(angle, abs=1e-9) and rest.q[0] == angle and rest.converged
        assert relative_error(branch.q[-1], rest.q) < 1e-7


# ------------------------------------------------------------------------------------------------ a rod that coils
def localized(bending: float, torsion: float, length: float, slack: float, turns: float) -> tuple[float, float]:
    """Moment and tension of a long rod whose clamps were turned, and let come nearer, so that it coils in the middle:
    of tension T = 16 EJ sin(t)^2 / slack^2 and moment M = 2 cos(t) sqrt(EJ T) the one with M L / GJ + 4 t = 2 pi turns
    [van der Heijden, Thompson 2000]."""

    def moment(t):
        return 8.0 * bending * np.sin(t) * np.cos(t) / slack

    t = brentq(lambda t: moment(t) * length / torsion + 4.0 * t - 2.0 * np.pi * turns, 1e-4, 0.25 * np.pi)
    return moment(t), 16.0 * bending * np.sin(t) ** 2 / slack**2


def test_a_twisted_rod_coils():
    """Ten turns, from the straight shape; its energy does not change as the coil is turned about the axis."""
    bending, torsion, length, slack, turns = 1.345, 0.789, 40.0, 1.5, 10.0
    builder = RodModelBuilder(WEIGHTLESS)
    material = Anisotropic(np.diag([torsion, bending, bending, 2e3, 1e3, 1e3]), 1.0)
    basis = LegendreBasis(torsion=4, bending_y=40, bending_z=40, stretch=2)
    builder.add_body("slider", "world", Prismatic("x"), mass=1.0)
    builder.add_body("chuck", "slider", Revolute("x"), mass=1.0, inertia=np.eye(3))
    builder.add_rod("rod", "chuck", length, Circular(0.05), material, basis, points=56)
    builder.add_closure("clamp", "rod", "world", Fixed(), None, (np.eye(3), [length, 0.0, 0.0]))
    held = {"slider": slack, "chuck": 2.0 * np.pi * turns}
    rest = static_equilibrium(SoftRobot(builder.build()), [], prescribed=held, method="loading")
    assert rest.converged and rest.negative_directions == 0
    moment, tension = localized(bending, torsion, length, slack, turns)
    assert rest.prescribed_forces["chuck"][0] == pytest.approx(moment, rel=1e-3)
    assert -rest.prescribed_forces["slider"][0] == pytest.approx(tension, rel=2e-2)


@pytest.mark.parametrize(("ratio", "order"), [(3.0, 14), (1.0, 18)])
def test_a_twisted_ring_leaves_its_plane(ratio, order):
    """A straight rod bent into a ring does so at 2 pi sqrt(3) EJ / GJ, in two ways [Michell 1889]; it turns freely
    about its tangent where it is held."""
    builder = RodModelBuilder(WEIGHTLESS)
    material = Anisotropic(np.diag([ratio, 1.0, 1.0, 1e3, 1e3, 1e3]), 1.0)
    basis = LegendreBasis(torsion=4, bending_y=order, bending_z=order)
    builder.add_body("chuck", "world", Revolute("x"), mass=1.0, inertia=np.eye(3))
    builder.add_rod("rod", "chuck", 1.0, Circular(0.01), material, basis, points=order + 4)
    builder.add_closure("weld", "rod", "world", Fixed())
    robot, s, michell = SoftRobot(builder.build()), np.linspace(-1.0, 1.0, 400), 2.0 * np.pi * np.sqrt(3.0) / ratio

    def softest(part: float) -> np.ndarray:
        """The three smallest eigenvalues of the stiffness of the ring, with this part of that twist."""
        twist = part * michell
        angle = 0.5 * twist * (1.0 - s)
        bent = (legfit(s, 2.0 * np.pi * wave, order) for wave in (np.cos(angle), -np.sin(angle)))
        path, q = load_path(robot, [], None, np.r_[twist, -twist, np.zeros(4), *bent], {"chuck": twist}, None, None)
        q, found = path.solve(q, 1.0, None, 1e-10, 50)
        assert path.at_rest(found, 1e-7) and np.abs(closure_error(robot.model, q)).max() < 1e-9
        return stiffness_values(path.stiffness(q, 1.0, found.multipliers))[:3]

    sums = []
    for part, sign in ((0.99, 1.0), (1.01, -1.0)):
        free, *ways = sorted(softest(part), key=abs)
        assert abs(free) < 1e-10 and min(sign * np.array(ways)) > 1e-4
        sums.append(sum(ways))
    assert 0.99 + 0.02 * sums[0] / (sums[0] - sums[1]) == pytest.approx(1.0, abs=5e-4)


# ------------------------------------------------------------------------------------------------ ends of searches
def test_there_is_no_least_energy():
    builder = RodModelBuilder()
    builder.add_body("cart", "world", Prismatic("z"), mass=1.0)
    robot = SoftRobot(builder.build())
    for method in ("descent", "loading"):
        rest = static_equilibrium(robot, [], method=method)
        assert not rest.converged and rest.status == "too many iterations" and np.isfinite(rest.q).all()
        assert not rest.stable and rest.negative_directions == 0


def test_chains_that_cannot_be_closed():
    builder = RodModelBuilder()
    reach = (np.eye(3), [0.5, 0.0, 0.0])
    for name, parent, place in (("arm", "world", None), ("forearm", "arm", reach)):
        builder.add_body(name, parent, Revolute("y"), place, mass=1.0, inertia=np.eye(3))
    builder.add_closure("far", "forearm", "world", Revolute("y"), reach, (np.eye(3), [2.0, 0.0, 0.0]))
    rest = static_equilibrium(SoftRobot(builder.build()), [], q0=[0.3, 0.2], method="descent")
    assert not rest.converged and rest.status == "chains that cannot be closed" and np.isfinite(rest.q).all()


def test_signs_of_stiffness(rng):
    """Of matrices with known eigenvalues, symmetric and not."""
    Q = np.linalg.qr(rng.standard_normal((5, 5)))[0]
    X = rng.standard_normal((5, 5)) + 4.0 * np.eye(5)
    cases = ([3, 2, 1, 1, 0.5], 0, True), ([1, -1, 2, -3, 1], 2, False), ([0, 1, 1, 1, 1], 0, False)
    for values, count, positive in cases:
        D = np.diag(values).astype(float)
        assert negative_directions(Q @ D @ Q.T) == (count, positive)
        K = X @ D @ np.linalg.inv(X)
        assert relative_error(stiffness_values(K), np.sort(np.diag(D))) < 1e4 * IDENTITY
        if positive:
            assert negative_directions(K) == (count, positive)


def test_no_start():
    with pytest.raises(ValueError, match="q0: no equilibrium at the factor 0 was found"):
        builder = RodModelBuilder()
        builder.add_body("cart", "world", Prismatic("z"), mass=1.0)
        equilibrium_branch(SoftRobot(builder.build()), [])


def test_too_many_points():
    branch = equilibrium_branch(truss(), [], wrenches=hung(3.0 * SNAP), max_points=3)
    assert branch.status == "too many points" and len(branch.factors) == 3
