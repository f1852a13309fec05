"""Rotations without limit: free and spherical joints over many turns; and rods that turn too far for their points."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

from dynamics import FreeFlyer, Spherical, rods
from dynamics.rods.kinematics.center_lines import displacement
from dynamics.rods.model.arrays import FORCES
from dynamics.rods.stepping.soft_steps import INTEGRATORS
from tests.reference.turning_robots import MOMENTS, RUBBER, body_with_boom, free_body

METHODS = {
    "bdf": {"rtol": 1e-7, "atol": 1e-9}, "radau": {"rtol": 1e-6, "atol": 1e-8}, "newmark": {"dt": 0.0015},
    "newmark, adaptive": {"rtol": 1e-7, "atol": 1e-9}, "implicit_midpoint": {"dt": 0.002}, "sdirk2": {"dt": 0.003},
}  # fmt: skip
SPEED, TURNS = 5.0, 20
DURATION = TURNS * 2.0 * np.pi / SPEED
MOMENTUM = 1e-4
NONE = np.zeros(0)


def axes(rng: np.random.Generator) -> list[np.ndarray]:
    """Unit vectors, three of them principal axes."""
    random = rng.normal(size=3)
    return [*np.eye(3), random / np.linalg.norm(random)]


def turned(R: np.ndarray) -> float:
    """How many turns rotations (K, 3, 3) go through one after another."""
    return float(np.abs(Rotation.from_matrix(R[:-1].swapaxes(1, 2) @ R[1:]).magnitude()).sum() / (2.0 * np.pi))


def drift(robot: rods.SoftRobot, q: np.ndarray, v: np.ndarray) -> float:
    """Largest change of the angular momentum, relative to it."""
    L = rods.momentum(robot.model, q, v).angular
    return float(np.abs(L - L[0]).max() / np.linalg.norm(L[0]))


# ------------------------------------------------------------------------------------------------ free motion
@pytest.mark.parametrize("name", METHODS)
def test_twenty_turns(name, rng):
    """About any axis, by every method: the momentum stays, and about principal axes they end where they began."""
    robot = free_body()
    for k, axis in enumerate(axes(rng)):
        v0, options = np.r_[SPEED * axis, np.zeros(3)], METHODS[name]
        if k < 3 and "dt" in options:
            options = {"dt": 0.05}
        run = rods.simulate(robot, DURATION, NONE, v0=v0, method=name.split(",")[0], **options)
        assert run.t[-1] == pytest.approx(DURATION) and drift(robot, run.q, run.v) < MOMENTUM
        assert np.linalg.norm(run.q[:, :3], axis=1).max() < 2.0 * np.pi
        R, _ = rods.link_placement(robot.model, "body", run.q)
        if k < 3:
            np.testing.assert_allclose(R[-1], R[0], atol=1e-7)
        else:
            assert turned(R) > 0.9 * TURNS


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_twenty_turns_of_a_system(integrator, rng):
    """In discrete time too; of first order the drift about other axes falls with the step."""
    robot, first_order = free_body(), integrator == "semi_implicit_euler"
    for k, axis in enumerate(axes(rng)):
        drifts = []
        for dt in (0.002, 0.001):
            system = rods.SoftRobotSystem(robot, dt, integrator)
            xs = system.rollout(np.r_[np.zeros(6), SPEED * axis, np.zeros(3)], np.zeros((round(DURATION / dt), 0)))
            drifts.append(drift(robot, xs[:, :6], xs[:, 6:]))
        assert min(drifts) < 1e-11 if k < 3 else drifts[0] < (0.1 if first_order else MOMENTUM)
        assert k < 3 or drifts[0] / drifts[1] == pytest.approx(2.0 if first_order else 4.0, rel=0.2)


def euler_equations(t: np.ndarray, w0: np.ndarray) -> np.ndarray:
    """Rotations (T, 3, 3) of a free body that starts with angular velocities w0 (3,), in its own axes: quaternions."""

    def rates(_, x):
        (a, b, c, d), w = x[:4], x[4:]
        half = 0.5 * np.array([[-b, -c, -d], [a, -d, c], [d, a, -b], [-c, b, a]])
        return np.concatenate([half @ w, np.cross(MOMENTS * w, w) / MOMENTS])

    x0 = np.concatenate([[1.0, 0.0, 0.0, 0.0], w0])
    x = solve_ivp(rates, (0.0, t[-1]), x0, method="DOP853", t_eval=t, rtol=1e-12, atol=1e-12).y
    return Rotation.from_quat(x[[1, 2, 3, 0]].T).as_matrix()


def test_a_tumbling_body():
    """Near its unstable axis it turns over again and again, as Euler's equations with quaternions say; outputs at equal
    times, whatever charts they are in."""
    w0, robot = np.array([0.05, 4.0, 0.02]), free_body()
    run = rods.simulate(
        robot, 12.0, NONE, v0=np.r_[w0, 0.0, 0.0, 0.0], method="radau", dt=0.05, rtol=1e-9, atol=1e-11
    )
    expected = euler_equations(run.t, w0)
    assert expected[:, 1, 1].min() < -0.9 and len(run.t) == 241
    np.testing.assert_allclose(rods.link_placement(robot.model, "body", run.q)[0], expected, atol=1e-5)
    system = rods.SoftRobotSystem(robot, 0.001, "sdirk2")
    xs = system.rollout(np.r_[np.zeros(6), w0, np.zeros(3)], np.zeros((6000, 0)))[::50]
    np.testing.assert_allclose(rods.link_placement(robot.model, "body", xs[:, :6])[0], expected[:121], atol=1e-3)


def test_a_boom_on_a_body_that_spins():
    """The tip is where it is by another method; momenta stay, and energy is lost to the rod alone."""
    robot, n = body_with_boom(), body_with_boom().nq
    v0 = np.zeros(n)
    v0[:3] = 2.0, 1.0, 4.0
    runs = [
        rods.simulate(robot, 8.0, np.zeros(1), v0=v0, method=method, dt=dt, rtol=1e-8, atol=1e-10)
        for method, dt in (("radau", 0.1), ("bdf", 0.1), ("sdirk2", 0.0005))
    ]
    ends = [rods.link_placement(robot.model, "boom", run.q[-1:])[1][0] for run in runs]
    assert turned(rods.link_placement(robot.model, "body", runs[0].q)[0]) > 5.0
    assert np.abs(ends[1] - ends[0]).max() < 1e-4 and np.abs(ends[2] - ends[0]).max() < 1e-3
    assert drift(robot, runs[0].q, runs[0].v) < 1e-7
    energies = rods.energies(robot.model, runs[0].q, runs[0].v)
    assert (np.diff(energies.kinetic + energies.elastic) < 1e-7).all()


def test_a_top_held_by_a_closed_joint():
    """A free body whose pivot a closed joint holds turns as one on a spherical joint does."""
    pivot, com, v0 = np.array([0.1, 0.0, 0.05]), np.array([0.1, 0.05, 0.2]), np.array([3.0, 2.0, 8.0])
    robots = []
    for joint, at in ((Spherical(), pivot), (FreeFlyer(), np.zeros(3))):
        builder = rods.RodModelBuilder()
        builder.add_body("top", "world", joint, (np.eye(3), at), 1.0, com - at, np.diag(MOMENTS))
        if isinstance(joint, FreeFlyer):
            builder.add_closure("pin", "top", "world", Spherical(), (np.eye(3), pivot), (np.eye(3), pivot))
        robots.append(rods.SoftRobot(builder.build()))
    starts = v0, np.r_[v0, np.cross(pivot, v0)]
    ends = []
    for robot, start in zip(robots, starts, strict=True):
        run = rods.simulate(robot, 4.0, NONE, v0=start, method="radau", rtol=1e-9, atol=1e-11)
        R, _ = rods.link_placement(robot.model, "top", run.q)
        assert turned(R) > 5.0
        ends.append(R[-1])
    np.testing.assert_allclose(ends[1], ends[0], atol=1e-7)
    system = rods.SoftRobotSystem(robots[1], 0.001, "sdirk2")
    xs = system.rollout(np.r_[np.zeros(6), starts[1]], np.zeros((4000, 0)))
    np.testing.assert_allclose(rods.link_placement(robots[1].model, "top", xs[-1, :6])[0], ends[0], atol=1e-3)
    assert max(np.abs(rods.closure_error(robots[1].model, x[:6])).max() for x in xs[::100]) < 1e-7


def test_starts_beyond_a_turn():
    """They begin in equivalent coordinates, with the same motion; systems refuse them."""
    robot, w = free_body(), np.array([1.0, -2.0, 2.0]) / 3.0
    q, v = np.r_[9.0 * w, 0.1, 0.2, 0.3], np.r_[2.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    run = rods.simulate(robot, 1.0, NONE, q, v, method="radau")
    assert np.linalg.norm(run.q[0, :3]) == pytest.approx(9.0 - 2.0 * np.pi)
    R, p = rods.link_placement(robot.model, "body", np.array([run.q[0], q]))
    np.testing.assert_allclose(R[0], R[1], atol=1e-12)
    np.testing.assert_allclose(p[0], p[1], atol=1e-12)
    with pytest.raises(ValueError, match="x0: got 9 rad of rotation of the joint of 'body', expected at most 2 pi"):
        rods.SoftRobotSystem(robot, 0.1).check_start(np.r_[q, v])
    with pytest.raises(ValueError, match="x0: got 9 rad"):
        rods.SoftRobotSystem(robot, 0.1).rollout(np.r_[q, v], np.zeros((3, 0)))


# ------------------------------------------------------------------------------------------------ no equivalents
def sprung(**law) -> rods.SoftRobot:
    """A ball joint with stiffness or damping, which are written in its coordinates."""
    builder = rods.RodModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_body("ball", "world", Spherical(), mass=1.0, inertia=np.diag(MOMENTS), **law)
    return rods.SoftRobot(builder.build())


@pytest.mark.parametrize("law", [{"stiffness": 1e-3}, {"damping": 1e-4}])
def test_joints_with_a_law_of_their_own(law):
    """They stay in their chart, to 2 pi, and what goes further says which joint it is."""
    robot = sprung(**law)
    system = rods.SoftRobotSystem(robot, 0.01)
    assert system.euclidean and not rods.SoftRobotSystem(free_body(), 0.01).euclidean
    xs = system.rollout(np.r_[0.0, 0.0, 0.0, 0.0, 0.0, 5.0], np.zeros((300, 0)))
    angles = np.linalg.norm(xs[:, :3], axis=1)
    assert np.nanmax(angles) > 6.0 and np.isnan(angles[-1])
    for method, options in (("bdf", {}), ("newmark", {"dt": 0.01}), ("sdirk2", {"dt": 0.01})):
        with pytest.raises(RuntimeError, match=r"failed at t = .*; the joint of 'ball' turns by .* rad, of 2 pi"):
            rods.simulate(robot, 3.0, NONE, v0=[0.0, 0.0, 5.0], method=method, **options)


def test_prescribed_rotations():
    """Up to 2 pi they are as given, then refused."""
    builder = rods.RodModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_body("ball", "world", FreeFlyer(), mass=1.0, inertia=np.diag(MOMENTS))
    builder.add_rod("rod", "ball", 0.2, rods.Circular(0.005), RUBBER, rods.LegendreBasis(bending_y=0), points=2)
    robot = rods.SoftRobot(builder.build())
    spin = {"ball": lambda t: np.outer([5.0 * t, 5.0, 0.0], [0.0, 0.0, 1.0, 0.0, 0.0, 0.0])}
    run = rods.simulate(robot, 1.2, NONE, prescribed=spin)
    np.testing.assert_allclose(run.q[-1, :3], [0.0, 0.0, 6.0], atol=1e-12)
    with pytest.raises(ValueError, match=r"prescribed\['ball'\]\(1\..*\): got .* rad of rotation, expected at most"):
        rods.simulate(robot, 1.4, NONE, prescribed=spin)


# ------------------------------------------------------------------------------------------------ along a rod
def coil(points: int) -> rods.SoftRobot:
    """A slender rod that a moment at its tip winds up."""
    builder, basis = rods.RodModelBuilder(gravity=(0.0, 0.0, 0.0)), rods.LegendreBasis(torsion=0, bending_y=1)
    builder.add_rod("rod", "world", 1.0, rods.Circular(0.01), rods.Elastic(1e6, 0.4, 1000.0, 1e3), basis, points=points)
    builder.add_wrench("rod", follower=True)
    return rods.SoftRobot(builder.build())


BENDING = 1e6 * np.pi / 4.0 * 1e-8  # E J


def test_the_points_that_a_rod_needs():
    """So many, and no fewer, are enough; and then the shape is that of the pictures."""
    q = np.array([2.0, 25.0, 3.0])
    with pytest.raises(ValueError, match=r"q: got .* rad of rotation of rod 'rod' from one of its points") as refused:
        coil(3).residual(q, 0.0 * q, 0.0 * q, [])
    needed = int(str(refused.value).rpartition("points=")[2])
    few, enough = coil(needed - 1), coil(needed)
    for robot, good in ((few, False), (enough, True)):
        segments = range(robot.model.rods["rod"].segments.start, robot.model.rods["rod"].segments.stop)
        turns = [np.linalg.norm(displacement(robot.model.arrays, s, q[None])[0, :3]) for s in segments]
        known = np.isfinite(robot._residual(FORCES, robot._states(None, q=q)[1])[0]).all()
        assert (max(turns) <= 2.0 * np.pi) == good == known
    assert np.isfinite(enough.residual(q, q, q, [])).all()


def test_statics_never_says_converged(rng):
    """Beyond, where the kernels know nothing; with points enough every method finds the circle."""
    moment = np.array([[0.0, 27.0 * BENDING, 0.0, 0.0, 0.0, 0.0]])
    for method in ("newton", "descent", "loading"):
        few = rods.static_equilibrium(coil(3), [], wrenches=moment, method=method, max_iterations=50)
        assert not few.converged and np.isfinite(few.q).all()
        if method != "loading":
            assert "rod 'rod' from one of its points to the next turns by 6.28" in few.status
    found = rods.static_equilibrium(coil(12), [], wrenches=moment)
    assert found.converged and found.q[1] == pytest.approx(27.0, rel=1e-9)
    branch = rods.equilibrium_branch(coil(3), [], wrenches=moment)
    assert branch.status.startswith("the next point was not found; rod 'rod'") and branch.factors[-1] < 1.0


@pytest.mark.parametrize(("method", "dt"), [("bdf", None), ("radau", None), ("newmark", None), ("sdirk2", 1e-3)])
def test_simulations_stop(method, dt):
    moment = np.array([[0.0, 30.0 * BENDING, 0.0, 0.0, 0.0, 0.0]])
    with pytest.raises(RuntimeError, match=r"failed at t = .*; rod 'rod' from one of its points to the next turns by"):
        rods.simulate(coil(3), 5.0, NONE, wrenches=moment, method=method, dt=dt)


def test_lanes_beyond_are_alone(rng):
    """A knot that turns too far is NaN, others are as without it."""
    system = rods.SoftRobotSystem(coil(3), 1e-3)
    xs, us = 0.1 * rng.normal(size=(3, system.nx)), np.zeros((3, 0))
    expected = system.step(xs, us)
    xs[1, 1] = 30.0
    found = system.step(xs, us)
    assert np.isnan(found[1]).all()
    np.testing.assert_array_equal(found[[0, 2]], expected[[0, 2]])
