"""Plans at other rates: what lies on the knots and between them, on manifolds, across impacts, and without dynamics."""

import csv
import json

import numpy as np
import pytest

import dynamics
import problems
import trajopt
from problems import arm, quadrotor
from tests.trajopt.cases import circle_pendulum, linear
from trajopt import DDP, CallableSystem, ControlCost, ControlRateSystem, Problem, Solution, StateCost
from trajopt.interfaces.system import knot_times


@pytest.fixture(scope="module")
def reach():
    return DDP().solve(arm.make(50, 0.02))


@pytest.fixture(scope="module")
def flight():
    return DDP().solve(quadrotor.make())


@pytest.fixture(scope="module")
def walk():
    """A gait with impacts, before it has converged."""
    return trajopt.ILQR(max_iterations=2).solve(problems.make("quadruped_walk"))


@pytest.fixture(scope="module")
def held():
    """A differential equation whose motion is known, xdd = u, planned by explicit Euler."""
    system = CallableSystem(
        xdot=lambda x, u: (x[1], u[0]), nx=2, nu=1, dt=0.1, integrator="explicit_euler",
        state_names=["place", "speed"], control_names=["force"],
    )  # fmt: skip
    return DDP().solve(Problem(system, [0.0, 0.0], 10, [ControlCost(1.0)], [StateCost(system, [1.0, 0.0], 1e3)]))


@pytest.mark.parametrize("name", ["reach", "flight", "walk", "held"])
@pytest.mark.parametrize("share", [1.0, 0.1, 0.4, 0.3, 2.0, 1.0 / np.e])
def test_knots_are_met(name, share, request):
    """Whatever the rate: states of knots exactly, those after impacts where there are some, controls and gains held."""
    solution = request.getfixturevalue(name)
    system, dt = solution.problem.system, share * solution.problem.system.dt
    plan, starts = solution.resample(dt), knot_times(system, len(solution.us))
    assert plan.times[0] == 0.0 and plan.times[-1] == starts[-1] and (np.diff(plan.times) > 1e-9).all()
    np.testing.assert_allclose(plan.times[:-1], dt * np.arange(len(plan.times) - 1), atol=1e-12)
    assert np.isfinite(plan.xs).all()
    for time, x, u, K, knot in zip(plan.times, plan.xs, plan.us, plan.K, plan.knots, strict=True):
        np.testing.assert_array_equal(u, solution.us[knot])
        np.testing.assert_array_equal(K, solution.K[knot])
        assert starts[knot] <= time + 1e-9
        near = np.flatnonzero(np.abs(starts - time) < 1e-9)
        if len(near):
            np.testing.assert_array_equal(x, solution.xs[near[-1]])


def test_between_knots_the_dynamics_act(held):
    """Velocities are exact under a constant force, positions off by what Euler's rule is, put back smoothly."""
    plan = held.resample(0.01)
    s = np.round(plan.times - 0.1 * plan.knots, 12)[:-1]
    x, u = held.xs[plan.knots[:-1]], plan.us[:-1, 0]
    np.testing.assert_allclose(plan.xs[:-1, 1], x[:, 1] + s * u, atol=1e-13)
    w = (s / 0.1) ** 2 * (3.0 - 2.0 * s / 0.1)
    place = x[:, 0] + s * x[:, 1] + 0.5 * s**2 * u - w * 0.005 * u
    np.testing.assert_allclose(plan.xs[:-1, 0], place, atol=1e-13)
    assert plan.accelerations is None  # the system does not say that the speed is one


def test_accelerations_are_those_of_the_dynamics(reach):
    plan, n = reach.resample(0.002), 6
    q, v = np.ascontiguousarray(plan.xs[:, :n]), np.ascontiguousarray(plan.xs[:, n:])
    wanted = dynamics.forward_dynamics(reach.problem.system.model, q, v, plan.us)
    assert np.abs(plan.accelerations - wanted).max() < 0.04 * np.abs(wanted).max()


def test_on_a_manifold_states_stay_there(flight):
    plan = flight.resample(0.001)
    np.testing.assert_allclose(np.linalg.norm(plan.xs[:, 3:7], axis=1), 1.0, atol=1e-12)
    moved = flight.problem.system.difference(plan.xs[:-1], plan.xs[1:])
    largest = np.abs(plan.accelerations).max()
    np.testing.assert_allclose(moved[:, :6] / 1e-3, plan.xs[:-1, 7:], atol=0.8 * 0.02 * largest)


def test_velocities_jump_at_impacts_alone(walk):
    system, plan = walk.problem.system, walk.resample(walk.problem.system.dt / 64)
    starts, impact = knot_times(system, len(walk.us)), int(np.flatnonzero(system.idle)[0])
    jump = np.abs(walk.xs[impact + 1] - walk.xs[impact]).max()
    at = int(np.argmin(np.abs(plan.times - starts[impact])))
    np.testing.assert_array_equal(plan.xs[at], walk.xs[impact + 1])
    before = np.abs(plan.xs[at - 1] - walk.xs[impact]).max()
    assert before < 0.5 * jump and np.isfinite(plan.accelerations).all()


def test_without_dynamics_between_knots_the_way_is_straight(rng):
    for solution in (DDP().solve(linear(rng)), DDP().solve(circle_pendulum())):
        system = solution.problem.system
        plan = solution.resample(system.dt / 4)
        middle = system.integrate(solution.xs[:-1], 0.5 * system.difference(solution.xs[:-1], solution.xs[1:]))
        np.testing.assert_allclose(plan.xs[2::4], middle, atol=1e-12)
    assert plan.accelerations.shape == (161, 2)


def test_controls_before_come_along(held):
    inner = held.problem.system
    system = ControlRateSystem(inner)
    target = StateCost(system, [1.0, 0.0, 0.0], [1e3, 1e3, 0.0])
    solution = DDP().solve(Problem(system, np.zeros(3), 10, [ControlCost(1.0)], [target]))
    plan = solution.resample(0.05)
    np.testing.assert_array_equal(plan.xs[::2], solution.xs)


# ------------------------------------------------------------------------------------------------ files and messages
def lines_of(path):
    with open(path, newline="") as stream:
        names, *lines = csv.reader(stream)
    return names, np.array(lines, dtype=float)


def test_a_table_of_an_arm(reach, tmp_path):
    joints = reach.problem.system.model.joint_names
    path = reach.to_csv(tmp_path / "new" / "plan.csv")
    names, values = lines_of(path)
    suffixed = [f"{joint}{end}" for end in ("", " velocity", " control") for joint in joints]
    assert path == tmp_path / "new" / "plan.csv" and names == ["time", *suffixed]
    np.testing.assert_array_equal(values[:, 1:13], reach.xs)
    np.testing.assert_array_equal(values[:-1, 13:], reach.us)
    np.testing.assert_allclose(values[:, 0], 0.02 * np.arange(51))
    plan = reach.resample(0.003)
    np.testing.assert_array_equal(
        lines_of(reach.to_csv(path, dt=0.003))[1], np.column_stack([plan.times, plan.xs, plan.us])
    )
    assert [file.name for file in path.parent.iterdir()] == ["plan.csv"]


def test_names_of_other_tables(walk, held, rng, tmp_path):
    names, values = lines_of(walk.to_csv(tmp_path / "plan.csv"))
    model = walk.problem.system.model
    base, joints = model.joint_names[0], list(model.joint_names[1:])
    assert names[1:8] == [f"{base} {part}" for part in ("x", "y", "z", "qx", "qy", "qz", "qw")]
    assert names[8:20] == joints
    assert names[20:26] == [f"{base} {part}" for part in ("vx", "vy", "vz", "wx", "wy", "wz")]
    assert names[26:38] == [f"{joint} velocity" for joint in joints]
    assert len(set(names)) == len(names) == 1 + 37 + 12 and len(values) == len(walk.xs)
    assert (np.diff(values[:, 0]) == 0.0).sum() == walk.problem.system.idle.sum()
    assert lines_of(held.to_csv(tmp_path / "plan.csv"))[0] == ["time", "place", "speed", "force control"]
    named = lines_of(DDP().solve(linear(rng)).to_csv(str(tmp_path / "plan.csv")))[0]
    assert named == ["time", "x[0]", "x[1]", "x[2]", "x[3]", "u[0] control", "u[1] control"]


def test_a_failed_table_leaves_the_old_one(reach, tmp_path, monkeypatch):
    path = reach.to_csv(tmp_path / "plan.csv")
    before = path.read_bytes()
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        reach.to_csv(path, dt=0.001)
    assert path.read_bytes() == before and len(list(tmp_path.iterdir())) == 1


def test_a_message_of_an_arm(reach):
    message = json.loads(json.dumps(reach.to_trajectory_msg(dt=0.008)))
    plan = reach.resample(0.008)
    assert message["header"] == {"stamp": {"sec": 0, "nanosec": 0}, "frame_id": ""}
    assert message["joint_names"] == list(reach.problem.system.model.joint_names)
    columns = {"positions": plan.xs[:, :6], "velocities": plan.xs[:, 6:], "accelerations": plan.accelerations}
    for name, wanted in {**columns, "effort": plan.us}.items():
        np.testing.assert_array_equal([point[name] for point in message["points"]], wanted)
    stamps = [point["time_from_start"] for point in message["points"]]
    np.testing.assert_allclose([s["sec"] + 1e-9 * s["nanosec"] for s in stamps], plan.times, atol=1e-9)
    assert stamps[-1] == {"sec": 1, "nanosec": 0}


def test_a_message_of_some_joints(walk, reach):
    """Of a floating base the legs' joints; in the order asked for; efforts are those on the joints."""
    system = walk.problem.system
    chosen = [system.model.joint_names[5], system.model.joint_names[2]]
    message = walk.to_trajectory_msg(joints=chosen)
    plan = walk.resample(system.dt)
    rows = [system.model.joint_names.index(name) for name in chosen]
    q, v = ([offset + row for row in rows] for offset in (6, 19 + 5))
    np.testing.assert_array_equal([point["positions"] for point in message["points"]], plan.xs[:, q])
    np.testing.assert_array_equal([point["velocities"] for point in message["points"]], plan.xs[:, v])
    np.testing.assert_array_equal([p["effort"] for p in message["points"]], plan.us[:, [row - 1 for row in rows]])
    assert len(walk.to_trajectory_msg()["joint_names"]) == 12
    assert len(reach.to_trajectory_msg()["points"]) == 51
    with pytest.raises(ValueError, match=r"joints: got 'elbo', expected one of .*; did you mean 'elbow'\?"):
        reach.to_trajectory_msg(joints=["elbo"])


def test_who_has_no_message(flight, held):
    with pytest.raises(ValueError, match="system: got a robot without a joint of one degree of freedom"):
        flight.to_trajectory_msg()
    with pytest.raises(TypeError, match="system: CallableSystem has no joints, expected a robot"):
        held.to_trajectory_msg()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"dt": 0.0}, ValueError, "dt: got 0.0, expected a positive number"),
        ({"dt": -1}, ValueError, "dt: got -1, expected a positive number"),
        ({"dt": np.nan}, ValueError, "dt: got nan"),
        ({"dt": np.inf}, ValueError, "dt: got inf"),
        ({"dt": "1"}, TypeError, "dt: got '1'"),
        ({"dt": True}, TypeError, "dt: got True"),
        ({"joints": "elbow"}, TypeError, "joints: got 'elbow', expected a list of names"),
        ({"joints": [3]}, TypeError, "joints: got"),
        ({"joints": []}, ValueError, "joints: got"),
        ({"joints": ["elbow", "elbow"]}, ValueError, "each once"),
    ],
)
def test_bad_input(reach, arguments, error, message, tmp_path):
    with pytest.raises(error, match=message):
        reach.to_trajectory_msg(**arguments)
    if "dt" in arguments:
        for call in (reach.resample, lambda dt: reach.to_csv(tmp_path / "plan.csv", dt)):
            with pytest.raises(error, match=message):
                call(arguments["dt"])
        assert not list(tmp_path.iterdir())


def test_without_a_problem_there_is_nothing_to_resample(held, tmp_path):
    alone = Solution.load(held.save(tmp_path / "plan.npz"))
    for call in (lambda: alone.resample(0.1), lambda: alone.to_csv("plan.csv"), alone.to_trajectory_msg):
        with pytest.raises(ValueError, match="solution: got one without its problem"):
            call()
