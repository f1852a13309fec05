"""Tendons through several rods, chambers, driven joints, loads along rods: lengths, identities, shapes in closed form,
refusals."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

from dynamics import Fixed, Planar, Prismatic, Revolute, Spherical
from dynamics.rods.kinematics.center_lines import link_placements, segment_poses
from dynamics.rods.loads.tendons import Chamber, Tendon
from dynamics.rods.model.cross_section import Circular
from dynamics.rods.model.strain_basis import LegendreBasis
from dynamics.rods.robot.builder import RodModelBuilder
from dynamics.rods.robot.soft_robot import SoftRobot
from dynamics.rods.statics.equilibrium import static_equilibrium
from dynamics.rods.stepping.simulation import simulate
from tests.reference.rod_robots import ROBOTS, SOFT, driven_builder, random_state
from tests.tolerances import CENTRAL_DIFFERENCES, IDENTITY, relative_error

LENGTH, RADIUS = 0.5, 0.01
EI = SOFT.young * np.pi / 4.0 * RADIUS**4
ALL = LegendreBasis(1, 1, 1, 1, 1, 1)


def rod(tendons=(), chambers=(), basis=None, points=5, load=None, **options) -> SoftRobot:
    """A clamped rod along x without weight, by default one that only bends towards y."""
    builder = RodModelBuilder(gravity=(0.0, 0.0, 0.0))
    basis = basis or LegendreBasis(bending_z=0)
    builder.add_rod("rod", "world", LENGTH, Circular(RADIUS), SOFT, basis, points=points)
    if load is not None:
        builder.add_distributed_load("rod", load, **options)
    return SoftRobot(builder.build(), tendons, (), chambers)


def chain(between=None, **options) -> RodModelBuilder:
    """Two rods behind each other, and perhaps a body between."""
    builder = RodModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_rod("one", "world", 0.3, Circular(RADIUS), SOFT, LegendreBasis(bending_z=0))
    if between is not None:
        builder.add_body("between", "one", between, mass=0.1, inertia=1e-3 * np.eye(3), stiffness=1.0, **options)
    parent = "one" if between is None else "between"
    builder.add_rod("two", parent, 0.2, Circular(RADIUS), SOFT, LegendreBasis(bending_z=0))
    builder.add_rod("side", "world", 0.2, Circular(RADIUS), SOFT, LegendreBasis(bending_z=0))
    return builder


# ------------------------------------------------------------------------------------------------ several rods
def volume(robot: SoftRobot, line, q: np.ndarray) -> float:
    """Length of a tendon, or volume of a chamber, from places of its points in the world."""
    starts, ends = segment_poses(robot.model, q[None])
    rods = [robot.model.rods[name] for name in line.rods]
    routes, scales = line.routing(*rods), line.scales(*rods)
    total, first, last = 0.0, 0, None
    for part in rods:
        own = slice(first, first + len(part.nodes))
        s, x = part.nodes / part.length, q[part.coordinates]
        values, rows = part.basis.values(s), part.basis.rows
        xi = part.reference_strains(s) + np.stack(
            [values[:, rows[r] : rows[r + 1]] @ x[rows[r] : rows[r + 1]] for r in range(6)], axis=1
        )
        d, slope = (np.insert(columns, 0, 0.0, axis=1) for columns in np.split(routes[own], 2, axis=1))
        lengths = np.linalg.norm(xi[:, 3:] + np.cross(xi[:, :3], d) + slope, axis=1)
        total += float(np.abs(scales[own]) * part.weights @ lengths)
        (R, p), (Re, pe) = starts[part.segments.start], ends[part.segments.stop - 1]
        here = p[0] + R[0] @ d[0]
        if last is not None and isinstance(line, Tendon):
            total += float(np.linalg.norm(here - last))
        last, first = pe[0] + Re[0] @ d[-1], own.stop
    return total


def test_controls_do_the_work_of_lengths_and_volumes(rng):
    """B = - dl/dq of tendons, through joints too, and dV/dq of chambers, by differences of what the world sees."""
    robot = ROBOTS["finger"]()
    assert robot.control_names == ("long", "tendon 1", "chamber 0", "bellows", "table")
    q = 0.5 * rng.uniform(-1.0, 1.0, robot.nq)
    B = robot.residual_derivatives(q, 0.0 * q, 0.0 * q, np.zeros(5)).B
    h = 1e-6
    for k, line in enumerate((*robot.tendons, *robot.chambers)):
        sign = -1.0 if isinstance(line, Tendon) else 1.0
        rates = [(volume(robot, line, q + h * e) - volume(robot, line, q - h * e)) / (2.0 * h) for e in np.eye(len(q))]
        assert relative_error(B[:, k], sign * np.array(rates)) < CENTRAL_DIFFERENCES


def test_one_tension_is_the_same_in_every_rod(rng):
    """Of rods that are joined rigidly: as tendons of their own; and two rods in line bend as one."""
    routes = {"y": lambda X: 0.002 + 0.01 * X, "z": 0.003}
    apart = [Tendon("one", **routes), Tendon("two", lambda X: 0.002 + 0.01 * (X + 0.3), 0.003)]
    for joint in (None, Fixed()):
        model = chain(joint, **({} if joint is None else {"placement": (np.eye(3), [0.1, 0.05, 0.0])})).build()
        together = Tendon(("one", "two"), **routes)
        by_rods = Tendon(["one", "two"], [routes["y"], lambda X: 0.005 + 0.01 * X], (0.003, 0.003))
        robot = SoftRobot(model, [together, by_rods, *apart])
        q = rng.standard_normal(robot.nq)
        B = robot.residual_derivatives(q, 0.0 * q, 0.0 * q, np.zeros(4)).B
        assert relative_error(B[:, 0], B[:, 2] + B[:, 3]) < IDENTITY
        assert relative_error(B[:, 1], B[:, 0]) < IDENTITY
        assert not robot.arrays.tendons.spans.control.size
    two = SoftRobot(chain().build(), [Tendon.straight(("one", "two"), 0.005, 0.0)])
    one = rod([Tendon.straight("rod", 0.005, 0.0)])
    tips = []
    for robot, name in ((two, "two"), (one, "rod")):
        rest = static_equilibrium(robot, [2.0])
        k = robot.model.link_names.index(name)
        tips.append(link_placements(robot.model, rest.q)[1][k])
    assert np.abs(tips[0] - tips[1]).max() < 1e-9 and tips[0][1] > 0.05


def test_helices_and_normalized_routes_go_on_through_rods():
    rods = SoftRobot(chain().build()).model.rods
    one, two = rods["one"], rods["two"]
    whole = Tendon.helix(("one", "two"), 0.005, turns=2.0).routing(one, two)
    angle = np.concatenate([one.nodes, 0.3 + two.nodes]) * 4.0 * np.pi / 0.5
    expected = 0.005 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    assert relative_error(whole[:, :2], expected) < IDENTITY
    inner = np.r_[1 : len(one.nodes) - 1, len(one.nodes) + 1 : len(whole) - 1]
    slopes = 4.0 * np.pi / 0.5 * np.stack([-expected[:, 1], expected[:, 0]], axis=1)
    assert relative_error(whole[inner, 2:], slopes[inner]) < IDENTITY
    by_difference = Tendon(("one", "two"), (0.0, lambda s: 0.01 * s * s), 0.0, normalized=True).routing(one, two)
    assert relative_error(by_difference[inner[len(one.nodes) - 2 :], 2], 0.1 * two.nodes[1:-1] / 0.2) < IDENTITY


def test_a_cable_on_the_axis_of_a_joint_does_not_turn_it():
    robot = SoftRobot(chain(Revolute("z")).build(), [Tendon(("one", "two"), 0.0, 0.0)])
    assert not robot.arrays.tendons.spans.control.size


def test_places_that_meet_give_finite_forces():
    """A slider that brings both ends of a span together."""
    model = chain(Prismatic("x"), placement=(np.eye(3), [0.25, 0.0, 0.0])).build()
    robot = SoftRobot(model, [Tendon(("one", "two"), 0.0, 0.0)])
    q = np.zeros(robot.nq)
    q[model.joint_coordinates["between"]] = -0.25
    H = robot.residual_hessian(q, q, q, [1.0], np.ones(robot.nq))
    assert all(np.isfinite(x).all() for x in (robot.residual(q, q, q, [1.0]), *H))


# ------------------------------------------------------------------------------------------------ chambers
def test_a_chamber_pushes_as_a_tendon_with_negative_tension(rng):
    """Of -p A, in all that is derived from it."""
    routes, area = (lambda X: 0.005 - 0.01 * X, lambda X: 0.01 * X), 2e-4
    chamber = rod((), [Chamber("rod", *routes, area=area)], ALL)
    tendon = rod([Tendon("rod", *routes)], (), ALL)
    q, v, a, w, _ = random_state(chamber, rng)
    p = 3e4
    one, other = (robot.residual_derivatives(q, v, a, [u]) for robot, u in ((chamber, p), (tendon, -p * area)))
    assert relative_error(one.B, -area * other.B) < IDENTITY and relative_error(one.dr_dq, other.dr_dq) < IDENTITY
    H, G = (robot.residual_hessian(q, v, a, [u], w) for robot, u in ((chamber, p), (tendon, -p * area)))
    assert relative_error(H.Hqu, -area * G.Hqu) < IDENTITY and relative_error(H.Hqq, G.Hqq) < IDENTITY


def test_a_moment_bends_to_an_arc():
    """kappa = T y / EI of a tendon, - p A y / EI of a chamber, whatever the length."""
    y, area = 0.004, 5e-5
    robot = rod([Tendon.straight("rod", y, 0.0)], [Chamber("rod", y, 0.0, area=area)])
    for u, moment in (([3.0, 0.0], 3.0 * y), ([0.0, 8e4], -8e4 * area * y), ([3.0, 6e4], 0.0)):
        rest = static_equilibrium(robot, u)
        assert rest.converged and rest.q[0] == pytest.approx(moment / EI, rel=1e-9, abs=1e-9)


def test_three_chambers_lengthen_a_rod_of_their_section():
    """Equal pressures do not bend: 3 p A = E A_rod stretch."""
    angles, area, p = 2.0 * np.pi * np.arange(3) / 3.0, 3e-5, 5e4
    chambers = [Chamber("rod", 0.006 * np.cos(x), 0.006 * np.sin(x), area=lambda X: area) for x in angles]
    robot = rod((), chambers, LegendreBasis(bending_y=1, bending_z=1, stretch=0))
    rest = static_equilibrium(robot, [p, p, p])
    stretch = 3.0 * p * area / (SOFT.young * np.pi * RADIUS**2)
    assert rest.converged and relative_error(rest.q, [0.0] * 4 + [stretch]) < 1e-9


# ------------------------------------------------------------------------------------------------ driven joints
def test_a_drive_is_a_wrench_on_the_link_and_the_opposite_on_its_parent(rng):
    """On the joint's own coordinates it does what a wrench that follows the link does, and nothing on any others."""
    robot, builder = ROBOTS["joints"](), driven_builder()
    names = ["tendon 0", "puck rz", "puck x", "puck y", "wheel", *(f"base {c}" for c in ("rx", "ry", "rz", *"xyz"))]
    assert robot.control_names == (*names, *(f"shift {c}" for c in "xyz"), *(f"ball {c}" for c in ("rx", "ry", "rz")))
    components = {
        "puck": (Planar((1.0, 2.0, -1.0)).alignment(), [2, 3, 4]), "wheel": (np.eye(3), [1]),
        "base": (np.eye(3), range(6)), "shift": (np.eye(3), [3, 4, 5]), "ball": (np.eye(3), [0, 1, 2]),
    }  # fmt: skip
    for name in components:
        builder.add_wrench(name, follower=True)
    pushed, first = SoftRobot(builder.build()), 1
    q, v, a, _, _ = random_state(robot, rng)
    B = robot.residual_derivatives(q, v, a, np.zeros(robot.nu)).B
    for k, (name, (axes, moved)) in enumerate(components.items()):
        own = robot.model.joint_coordinates[name]
        for component in moved:
            wrenches = np.zeros((len(components), 6))
            wrenches[k, 3 * (component // 3) :][:3] = axes[:, component % 3]
            forces = pushed.residual(q, v, a, []) - pushed.residual(q, v, a, [], wrenches)
            assert relative_error(B[own, first], forces[own]) < IDENTITY
            assert not np.delete(B[:, first], np.r_[own]).any()
            first += 1
    assert first == robot.nu


def test_a_moment_in_own_axes_turns_a_body_many_times():
    """Against Euler's equations of the body, through changes of the joint's chart."""
    builder, I = RodModelBuilder(gravity=(0.0, 0.0, 0.0)), np.array([0.1, 0.2, 0.25])
    builder.add_body("top", "world", Spherical(), mass=1.0, inertia=np.diag(I))
    robot, moment, duration = SoftRobot(builder.build(), torques=["top"]), np.array([0.3, 0.05, 0.5]), 4.0

    def rates(_, x):
        R, w = x[:9].reshape(3, 3), x[9:]
        return np.r_[(R @ np.cross(np.eye(3), w)).ravel(), (moment - np.cross(w, I * w)) / I]

    given = {"rtol": 1e-9, "atol": 1e-11}
    exact = solve_ivp(rates, (0.0, duration), np.r_[np.eye(3).ravel(), np.zeros(3)], method="DOP853", **given)
    run = simulate(robot, duration, moment, method="radau", rtol=1e-8, atol=1e-10)
    R = link_placements(robot.model, run.q[-1])[0][0]
    assert np.abs(R - exact.y[:9, -1].reshape(3, 3)).max() < 1e-5
    steps = exact.y[:9].T.reshape(-1, 3, 3)
    turns = Rotation.from_matrix(steps[:-1].swapaxes(1, 2) @ steps[1:]).magnitude().sum() / (2.0 * np.pi)
    assert turns > 2.0


# ------------------------------------------------------------------------------------------------ loads along rods
def tip(robot: SoftRobot, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    R, p = link_placements(robot.model, q)
    return R[0], p[0]


@pytest.mark.parametrize("follower", [False, True])
def test_uniform_load_bends_a_cantilever(follower):
    """w L^4 / (8 EI) where it is small."""
    w = 1e-4 * EI / LENGTH**3
    robot = rod(basis=LegendreBasis(bending_z=3), points=20, load=[0.0, 0.0, 0.0, 0.0, w, 0.0], follower=follower)
    rest = static_equilibrium(robot, [])
    assert tip(robot, rest.q)[1][1] == pytest.approx(w * LENGTH**4 / (8.0 * EI), rel=1e-6)


def test_large_bending_under_a_uniform_follower_load():
    """Against the planar elastica, integrated from the free tip: theta' = M/EI, M' = -V, V' = -p - N theta', N' =
    V theta'."""
    load = 18.0 * EI / LENGTH**3
    robot = rod(basis=LegendreBasis(bending_z=9), points=30, load=1.0, follower=True, name="wind")
    rest = static_equilibrium(robot, [], wrenches=[[0.0, 0.0, 0.0, 0.0, load, 0.0]], method="loading")
    assert rest.converged

    def rates(_, x):
        theta, M, V, N = x[:4]
        return [M / EI, -V, -load - N * M / EI, V * M / EI, np.cos(theta), np.sin(theta)]

    at_base = solve_ivp(rates, (LENGTH, 0.0), np.zeros(6), rtol=1e-10, atol=1e-12).y[:, -1]
    c, s = np.cos(at_base[0]), np.sin(at_base[0])
    expected = -np.array([[c, s], [-s, c]]) @ at_base[4:]
    R, p = tip(robot, rest.q)
    assert np.abs(p[:2] - expected).max() < 1e-6 * LENGTH
    assert np.arctan2(R[1, 0], R[0, 0]) == pytest.approx(-at_base[0], abs=1e-6) and abs(at_base[0]) > 1.5


def test_a_force_along_a_rod_bends_it_as_at_the_tip_of_a_part():
    """P a^2 (3 L - a) / (6 EI) where it is small; of two rods joined at a, where it is large."""
    at, basis = 0.6, LegendreBasis(bending_z=9)
    for P, error in ((1e-4, 2e-4), (6.0, 2e-3)):
        places = []
        for parts in (1, 2):
            builder = RodModelBuilder(gravity=(0.0, 0.0, 0.0))
            lengths = [LENGTH] if parts == 1 else [at * LENGTH, (1.0 - at) * LENGTH]
            for k, length in enumerate(lengths):
                name = f"rod {k}"
                builder.add_rod(name, "world" if k == 0 else "rod 0", length, Circular(RADIUS), SOFT, basis, points=20)
            builder.add_wrench("rod 0", at=at if parts == 1 else 1.0)
            robot = SoftRobot(builder.build())
            rest = static_equilibrium(robot, [], wrenches=[[0.0, 0.0, 0.0, 0.0, P * EI / LENGTH**2, 0.0]])
            assert rest.converged
            places.append(link_placements(robot.model, rest.q)[1][-1])
        assert relative_error(*places) < error
        if P < 1e-3:
            assert places[1][1] == pytest.approx(P * LENGTH * at**2 * (3.0 - at) / 6.0, rel=1e-5)


# ------------------------------------------------------------------------------------------------ refusals
def through(between, *rods, kind=Tendon, **options):
    given = {"area": 1e-4} if kind is Chamber else {}
    lines = [kind(rods or ("one", "two"), 0.005, 0.0, name="a", **given)]
    model = chain(between, **options).build()
    return SoftRobot(model, lines) if kind is Tendon else SoftRobot(model, chambers=lines)


BAD = {
    "order": (lambda: through(None, "two", "one"), "tendon 'a': rod: 'one' is not carried by the tip of 'two'"),
    "beside": (lambda: through(None, "one", "side"), "'side' is not carried by the tip of 'one', as expected"),
    "ball": (lambda: through(Spherical()), "between 'one' and 'two': got 'between', expected at most one, of one"),
    "meeting": (lambda: through(Revolute("z")), "got 'between', expected one whose sides are apart"),
    "chamber": (lambda: through(Revolute("z"), kind=Chamber), "chamber 'a': rod: joints between 'one' and 'two': got"),
    "unknown": (lambda: through(None, "one", "tow"), "rod of tendon 'a': got 'tow', expected .*; did you mean 'two'"),
    "outside": (
        lambda: SoftRobot(chain().build(), [Tendon(("one", "two"), lambda X: 0.03 * X, 0.0, name="a")]),
        r"tendon 'a': at X = 0\.\d+ m of rod 'two' it is at \(y, z\) = \(0\.01",
    ),
    "names": (
        lambda: rod([Tendon("rod", 0.0, 0.0, name="a")], [Chamber("rod", 0.0, 0.0, area=1e-4, name="a")]),
        r"chambers\[0\]: the name 'a' is taken",
    ),
    "area": (
        lambda: rod((), [Chamber("rod", 0.0, 0.0, area=lambda X: 0.2 - X, name="a")]),
        r"chamber 'a': area: got -0\.3 at X = 0\.5 m, expected",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_refusals(case):
    call, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        call()
