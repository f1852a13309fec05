"""Motions and shapes with closed chains and prescribed joints: closed forms, energy, drift, inverse dynamics."""

import numpy as np
import pytest

from dynamics import Prismatic, Revolute, Spherical
from dynamics.rods.algorithms.closed_chains import assemble, closure_error, closure_jacobian
from dynamics.rods.kinematics.center_lines import link_placement
from dynamics.rods.model.cross_section import Circular
from dynamics.rods.model.strain_basis import LegendreBasis
from dynamics.rods.robot.builder import RodModelBuilder
from dynamics.rods.robot.soft_robot import SoftRobot
from dynamics.rods.statics.equilibrium import static_equilibrium
from dynamics.rods.stepping.simulation import simulate
from tests.reference.rod_robots import SOFT, hybrid
from tests.tolerances import relative_error

CRANK, COUPLER, ROCKER, GROUND = 0.4, 1.1, 0.9, 1.2
BARS = {"crank": CRANK, "coupler": COUPLER, "rocker": ROCKER}
UPRIGHT = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]])


# ------------------------------------------------------------------------------------------------ a four-bar linkage
def linkage(damping: float = 0.0, torques=()) -> SoftRobot:
    """Uniform bars of 1 kg/m, upright, turning about z."""
    builder = RodModelBuilder(base=(UPRIGHT, np.zeros(3)))
    for name, parent, place in (("crank", "world", 0.0), ("coupler", "crank", CRANK), ("rocker", "world", GROUND)):
        L = BARS[name]
        inertia = L**3 / 12.0 * np.diag([0.0, 1.0, 1.0])
        figures = {"mass": L, "com": (0.5 * L, 0.0, 0.0), "inertia": inertia, "damping": damping}
        builder.add_body(name, parent, Revolute("z"), (np.eye(3), [place, 0.0, 0.0]), **figures)
    ends = (np.eye(3), [COUPLER, 0.0, 0.0]), (np.eye(3), [ROCKER, 0.0, 0.0])
    builder.add_closure("pin", "coupler", "rocker", Revolute("z"), *ends)
    return SoftRobot(builder.build(), torques=torques)


def angles(crank):
    """Angles of coupler and rocker to the ground, from the circles of their ends; the upper of both assemblies."""
    x, y = CRANK * np.cos(crank), CRANK * np.sin(crank)
    d = np.hypot(GROUND - x, y)
    towards = np.arctan2(-y, GROUND - x)
    coupler = towards + np.arccos((COUPLER**2 + d**2 - ROCKER**2) / (2.0 * COUPLER * d))
    return coupler, np.arctan2(y + COUPLER * np.sin(coupler), x + COUPLER * np.cos(coupler) - GROUND)


def energy(crank, rate, h: float = 1e-4):
    """Kinetic plus potential energy of the linkage when the crank turns at a rate."""

    def centres(angle):
        coupler, rocker = angles(angle)
        joint = CRANK * np.exp(1j * angle)
        return np.array(
            [0.5 * joint, joint + 0.5 * COUPLER * np.exp(1j * coupler), GROUND + 0.5 * ROCKER * np.exp(1j * rocker)]
        )

    def slope(f):
        return (8.0 * (f(crank + h) - f(crank - h)) - f(crank + 2.0 * h) + f(crank - 2.0 * h)) / (12.0 * h)

    masses = np.array(list(BARS.values()))
    speeds, spins = np.abs(slope(centres)) * rate, np.array([1.0, *slope(lambda x: np.array(angles(x)))]) * rate
    kinetic = 0.5 * masses @ speeds**2 + 0.5 * (masses**3 / 12.0) @ spins**2
    return kinetic + 9.81 * masses @ centres(crank).imag


def coordinates(crank):
    coupler, rocker = angles(crank)
    return np.array([crank, coupler - crank, rocker])


def test_positions_of_a_four_bar_linkage():
    model = linkage().model
    q = coordinates(0.3)
    assert np.abs(closure_error(model, q)).max() <= 1e-14
    for crank in (0.0, 0.2, 0.5):
        found = assemble(model, [crank, *q[1:]], fixed=("crank",))
        assert found.converged and relative_error(found.q, coordinates(crank)) <= 1e-11


@pytest.mark.parametrize("options", [{"rtol": 1e-8, "atol": 1e-10}, {"method": "newmark", "dt": 0.002}])
def test_a_driven_crank(options):
    """At a constant rate the motor's power is the rate of the energy, dE/d(angle)."""
    robot, rate = linkage(), 2.0
    start = coordinates(0.2)
    A = closure_jacobian(robot.model, start)
    v0 = np.array([rate, *np.linalg.solve(A[:, 1:], -A[:, 0] * rate)])
    drive = {"crank": lambda t: (0.2 + rate * t, rate, 0.0)}
    run = simulate(robot, 1.0, [], start, v0, prescribed=drive, **options)
    expected = np.array([coordinates(0.2 + rate * t) for t in run.t])
    assert np.abs(run.q - expected).max() <= 1e-6
    h = 1e-4
    torque = [(energy(c + h, rate) - energy(c - h, rate)) / (2.0 * h) for c in expected[:, 0]]
    assert run.prescribed_forces["crank"].shape == (len(run.t), 1)
    assert relative_error(run.prescribed_forces["crank"][:, 0], np.array(torque)) <= 1e-4


def test_energy_of_newmark():
    """A linkage that swings freely keeps its energy up to O(dt^2), its chain closed, and its velocities along it."""
    robot, drifts = linkage(), []
    for dt in (0.01, 0.005):
        run = simulate(robot, 2.0, [], coordinates(0.9), method="newmark", dt=dt)
        gaps = [closure_error(robot.model, q) for q in run.q]
        rates = [closure_jacobian(robot.model, q) @ v for q, v in zip(run.q, run.v, strict=True)]
        assert np.abs(gaps).max() <= 1e-9 and np.abs(rates).max() <= 1e-10
        E = [energy(q[0], v[0]) for q, v in zip(run.q, run.v, strict=True)]
        assert np.abs(run.v).max() > 1.0
        drifts.append(np.abs(np.array(E) - E[0]).max())
    assert drifts[1] < 1e-2 and np.log2(drifts[0] / drifts[1]) == pytest.approx(2.0, abs=0.5), drifts


def test_drift_with_baumgarte():
    """Chains stay closed to a few times the tolerances, over many turns; at first the motion is Newmark's."""
    robot = linkage()
    runs = [simulate(robot, 5.0, [], coordinates(0.9), rtol=rtol, atol=1e-3 * rtol) for rtol in (1e-4, 1e-7)]
    gaps = [np.abs([closure_error(robot.model, q) for q in run.q]).max() for run in runs]
    assert 0.0 < gaps[1] < 1e-6 < 1e-3 > gaps[0], gaps
    exact = {"rtol": 1e-7, "atol": 1e-9}
    newmark, radau = (
        simulate(robot, 0.5, [], coordinates(0.9), method=method, **exact) for method in ("newmark", "radau")
    )
    assert relative_error(newmark.q[-1], radau.q[-1]) < 1e-4
    assert relative_error(newmark.multipliers[-1], radau.multipliers[-1]) < 1e-3


# ------------------------------------------------------------------------------------------------ rods
def arch() -> SoftRobot:
    """Two rods hinged to each other at their tips, upright; a wrench at the hinge."""
    builder = RodModelBuilder(base=(UPRIGHT, np.zeros(3)))
    c = np.sqrt(0.5)
    for name, place, turn in (
        ("left", 0.0, np.array([[c, -c, 0.0], [c, c, 0.0], [0.0, 0.0, 1.0]])),
        ("right", np.sqrt(2.0) * 0.5, np.array([[-c, -c, 0.0], [c, -c, 0.0], [0.0, 0.0, 1.0]])),
    ):
        basis = LegendreBasis(bending_z=2, stretch=0)
        builder.add_rod(name, "world", 0.5, Circular(0.02), SOFT, basis, placement=(turn, [place, 0.0, 0.0]))
    builder.add_closure("ridge", "left", "right", Revolute("z"))
    builder.add_wrench("left")
    return SoftRobot(builder.build())


def test_an_arch_carries_half_its_load_on_either_side():
    robot = arch()
    load = [[0.0, 0.0, 0.0, 0.0, 0.0, -2.0]]
    rest = static_equilibrium(robot, [], wrenches=load)
    assert rest.converged and np.abs(closure_error(robot.model, rest.q)).max() <= 1e-12
    left, right = (link_placement(robot.model, name, rest.q)[1] for name in ("left", "right"))
    assert np.allclose(left, right, atol=1e-12) and left[0] == pytest.approx(0.25 * np.sqrt(2.0), abs=1e-9)
    assert left[2] < 0.25 * np.sqrt(2.0) - 1e-4
    axes = UPRIGHT @ np.array([[-1.0, -1.0], [1.0, -1.0], [0.0, 0.0]]) * np.sqrt(0.5)  # of the right rod
    force = axes @ rest.multipliers  # of the right rod on the left one
    assert force[2] == pytest.approx(1.0, abs=1e-8) and force[0] < 0.0
    run = simulate(robot, 3.0, [], wrenches=load, rtol=1e-5, atol=1e-7)
    assert relative_error(run.q[-1], rest.q) < 1e-2


@pytest.mark.parametrize("method", ["newmark", "implicit_midpoint"])
def test_prescribed_joints_take_what_inverse_dynamics_gives(method):
    """All joints of the hybrid robot prescribed: forces are the residual's; statics hold them."""
    robot = hybrid()
    u, joints = np.array([1.0, 0.5, 0.5, 0.0, 0.0]), ("shoulder", "weight", "plate")

    def swing(count, size):
        def motion(t):
            x = size * np.linspace(0.5, 1.0, count)
            return np.array([x * (1.0 - np.cos(5.0 * t)), 5.0 * x * np.sin(5.0 * t), 25.0 * x * np.cos(5.0 * t)])

        return motion

    slices = robot.model.joint_coordinates
    drive = {name: swing(slices[name].stop - slices[name].start, 0.1) for name in joints}
    run = simulate(robot, 0.1, u, prescribed=drive, method=method, dt=0.005)
    k = 10
    a = np.empty(robot.nq)
    for name in joints:
        values = drive[name](run.t[k])
        assert np.allclose(run.q[k, slices[name]], values[0]) and np.allclose(run.v[k, slices[name]], values[1])
    held = np.concatenate([np.arange(robot.nq)[slices[name]] for name in joints])
    free = np.setdiff1d(np.arange(robot.nq), held)
    a[held] = np.concatenate([drive[name](run.t[k])[2] for name in joints])
    parts = robot.residual_derivatives(run.q[k], run.v[k], 0.0 * a, u)
    r = robot.residual(run.q[k], run.v[k], 0.0 * a, u) + parts.M[:, held] @ a[held]
    a[free] = np.linalg.solve(parts.M[np.ix_(free, free)], -r[free])
    expected = robot.residual(run.q[k], run.v[k], a, u)
    for name in joints:
        assert relative_error(run.prescribed_forces[name][k], expected[slices[name]]) <= 1e-7


def test_a_held_joint_carries_the_moment_of_the_weight():
    builder = RodModelBuilder()
    builder.add_body("motor", "world", Revolute("y"), mass=0.1)
    builder.add_rod("rod", "motor", 0.4, Circular(0.02), SOFT, LegendreBasis(bending_y=2, stretch=1), points=6)
    robot = SoftRobot(builder.build())
    rest = static_equilibrium(robot, [], prescribed={"motor": -0.3})
    assert rest.converged and rest.q[0] == -0.3 and rest.residual < 1e-8
    wanted = robot.residual(rest.q, 0.0 * rest.q, 0.0 * rest.q, [])[:1]
    assert relative_error(rest.prescribed_forces["motor"], wanted) <= 1e-12 and wanted[0] < -0.1


def test_prescribed_joints_with_stiff_solvers():
    robot = hybrid()
    u = np.array([1.0, 0.5, 0.5, 0.0, 0.0])
    drive = {"shoulder": lambda t: (0.2 * np.sin(t) ** 2, 0.2 * np.sin(2.0 * t), 0.4 * np.cos(2.0 * t))}
    runs = [
        simulate(robot, 0.05, u, prescribed=drive, **options)
        for options in (
            {"rtol": 1e-6, "atol": 1e-8, "max_step": 0.001}, {"method": "newmark", "dt": 0.0005},
            {"method": "implicit_midpoint", "dt": 0.0005}, {"method": "sdirk2", "dt": 0.0005}, {"jacobian": False},
        )
    ]  # fmt: skip
    assert np.diff(runs[0].t).max() <= 0.001 * (1.0 + 1e-9)
    for run, tolerance in zip(runs[1:], (1e-3, 1e-3, 1e-3, 1e-2), strict=True):
        assert relative_error(run.q[-1], runs[0].q[-1]) < tolerance


def test_a_free_chain_and_one_that_hangs():
    """A closure of a prismatic cart to the world by a ball leaves nothing to move: it hangs on the multipliers."""
    builder = RodModelBuilder()
    builder.add_body("cart", "world", Prismatic("z"), mass=2.0)
    builder.add_closure("stop", "cart", "world", Spherical())
    robot = SoftRobot(builder.build())
    assert robot.forward_dynamics([0.0], [0.0], []) == pytest.approx(0.0, abs=1e-12)
    assert static_equilibrium(robot, []).multipliers == pytest.approx([2.0 * 9.81])


# ------------------------------------------------------------------------------------------------ errors
@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"q0": [0.5, 0.5, 0.5]}, ValueError, "q0: the chains are open by"),
        ({"v0": [1.0, 1.0, 1.0]}, ValueError, "v0: the chains are opening"),
        ({"method": "implicit_midpoint", "dt": 0.1}, ValueError, "method: implicit_midpoint knows no closed"),
        ({"prescribed": {"crank": lambda t: 0.3}}, ValueError, r"prescribed\['crank'\]\(0\)"),
    ],
)
def test_bad_arguments(options, error, message):
    with pytest.raises(error, match=message):
        simulate(linkage(), 1.0, [], **{"q0": coordinates(0.3), **options})


def test_statics_of_chains_that_cannot_be_closed():
    """It reports no convergence."""
    builder = RodModelBuilder()
    for name, place in (("left", 0.0), ("right", 3.0)):
        basis = LegendreBasis(bending_y=1)
        builder.add_rod(name, "world", 0.5, Circular(0.01), SOFT, basis, placement=(np.eye(3), [place, 0.0, 0.0]))
    builder.add_closure("tips", "left", "right", Spherical())
    assert not static_equilibrium(SoftRobot(builder.build()), []).converged
