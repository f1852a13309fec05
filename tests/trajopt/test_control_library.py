"""Policies and feedbacks as C libraries: the bits of those in Python, at any time, on manifolds, with parameters."""

import shutil
from functools import cache

import numpy as np
import pytest

import problems
import trajopt
from tests.c_libraries import OLDER, Loaded, needs_cc, succeeds
from tests.trajopt.cases import circle_pendulum, pendulum
from tests.trajopt.test_feedback import PLANS


def answers(library: Loaded) -> bool:
    """Make a control; True if the numbers that it was made from were valid."""
    library("control")
    return bool(library["valid"][0])


# ------------------------------------------------------------------------------------------------ policies
@cache
def plan_of(name):
    return trajopt.DDP().solve(problems.make(name))


def times_of(policy, rng):
    """Before, within and after the plan, at its knots and just beside these."""
    within = rng.uniform(-0.1, policy.horizon + 0.1, 40)
    return np.concatenate([within, policy.times, policy.times + 1e-8, policy.times - 1e-4, [1e300, -1e300]])


POLICIES = {
    "vectors": ("arm", {}),
    "limits": ("cartpole", {"control": "linear"}),
    "open loop": ("pendulum", {"feedback": False}),
    "standing": ("pendulum", {"hold": True}),
    "placements": ("quadrotor", {"control": "linear"}),
    "knots of no time": ("quadruped_jump", {}),
}


@needs_cc
@pytest.mark.parametrize("case", POLICIES)
def test_the_bits_of_policies(case, tmp_path, rng):
    name, options = POLICIES[case]
    policy = plan_of(name).policy(**options)
    assert policy.export(tmp_path / "made", "plan") == tmp_path / "made"
    library = Loaded(tmp_path / "made", "plan")
    for t in times_of(policy, rng):
        reference = policy.reference(t)
        x = policy.space.move(reference, 0.1 * rng.standard_normal(policy.space.ndx))
        library["time"][0] = t
        if policy.feedback:
            library["x"][...] = x
        assert answers(library)
        assert library["u"].tobytes() == policy(t, x).tobytes(), t
        assert library["reference"].tobytes() == reference.tobytes(), t
        if policy.feedback:
            assert library["deviation"].tobytes() == policy.space.compare(reference, x).tobytes(), t
    assert ("x" in library) == ("deviation" in library) == policy.feedback
    assert ("lower" in library) == (policy.limits is not None) and ("hold_K" in library) == (policy.hold is not None)
    library.close()


@needs_cc
def test_a_policy_from_a_file_exports_too(tmp_path, rng):
    policy = plan_of("quadrotor").policy()
    loaded = trajopt.Policy.load(policy.save(tmp_path / "plan.npz"))
    library = Loaded(loaded.export(tmp_path / "made"), "policy")
    library["time"][0], library["x"][...] = 0.123, policy.reference(0.2)
    assert answers(library) and library["u"].tobytes() == policy(0.123, policy.reference(0.2)).tobytes()
    library.close()


@needs_cc
def test_numbers_that_are_no_state(tmp_path):
    """They change nothing, and are said: the last control stays."""
    policy = plan_of("quadrotor").policy()
    library = Loaded(policy.export(tmp_path / "made"), "policy")
    x = policy.xs[3]
    library["time"][0], library["x"][...] = policy.times[3], x
    assert answers(library)
    before = library["u"].copy()
    for wrong, t in (
        (np.where(np.arange(13) == 12, np.nan, x), 0.0),
        (np.where(np.arange(13) == 6, 1.5, x), 0.0),  # no unit quaternion
        (x, np.nan),
        (x, np.inf),
    ):
        library["time"][0], library["x"][...] = t, wrong
        assert not answers(library) and library["u"].tobytes() == before.tobytes()
    library["time"][0], library["x"][...] = 0.0, policy.xs[0]
    assert answers(library) and library["u"].tobytes() == policy.us[0].tobytes()
    library["K"][0, 1, 2] = np.nan
    assert not answers(library) and library["u"].tobytes() == policy.us[0].tobytes()
    library.close()


@needs_cc
def test_another_plan_in_its_place(tmp_path, rng):
    """The numbers of a policy's file, written to the arrays of the same names."""
    problem = problems.make("cartpole")
    policy, other = plan_of("cartpole").policy(), trajopt.ILQR(max_iterations=7).solve(problem).policy()
    library = Loaded(policy.export(tmp_path / "made"), "policy")
    with np.load(other.save(tmp_path / "other.npz")) as arrays:
        for name in ("times", "xs", "us", "table", "K", "lower", "upper"):
            if name in arrays:
                library[name][...] = arrays[name]
    for t in rng.uniform(0.0, policy.horizon, 10):
        x = other.reference(t) + 0.1 * rng.standard_normal(4)
        library["time"][0], library["x"][...] = t, x
        assert answers(library) and library["u"].tobytes() == other(t, x).tobytes()
        assert library["u"].tobytes() != policy(t, x).tobytes()
    library.close()


@needs_cc
@pytest.mark.parametrize("feedback", [True, False])
def test_the_control_loop_runs(feedback, tmp_path):
    """Without warnings; under valgrind, where that is there."""
    folder = plan_of("pendulum").policy(feedback=feedback).export(tmp_path / "made", target=OLDER)
    program = str(tmp_path / "control_loop")
    command = "cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-I", str(folder), str(folder / "control_loop.c")
    succeeds(*command, str(folder / "libpolicy.a"), "-lm", "-o", program)
    under = ["valgrind", "-q", "--error-exitcode=9", "--leak-check=full"] if shutil.which("valgrind") else []
    printed = succeeds(*under, program, "30")
    assert printed.startswith("30 cycles")
    assert f"in 0 of them; the plan ends after {plan_of('pendulum').times[-1]:g} s" in printed
    readme = (folder / "README.md").read_text(encoding="utf-8")
    assert "valid" in readme and not {"NAME", "UPPER", "MICROSECONDS"} & set(readme.replace("`", " ").split())


# ------------------------------------------------------------------------------------------------ feedbacks
@needs_cc
@pytest.mark.parametrize("case", ["cartpole", "speed limit", "clamped", "quadrotor"])
def test_the_bits_of_feedbacks(case, tmp_path, rng):
    make, parameters, p, _ = PLANS[case]
    problem = make()
    prepared = trajopt.DDP().prepare(problem, parameters=parameters)
    feedback = prepared.prepare_step(problem.x0, p, trajopt.DDP().solve(problem))
    library = Loaded(feedback.export(tmp_path / "made"), "feedback")
    vector = feedback.parameters.vector
    for _ in range(10):
        x = problem.system.integrate(problem.x0, 0.1 * rng.standard_normal(problem.system.ndx))
        new = vector + 0.1 * rng.standard_normal(len(vector))
        library["x"][...], start = x, 0
        for name in ("terminal_StateCost", "ControlCost") if case == "cartpole" else ("p",):
            stop = start + library[name].size
            library[name][...] = new[start:stop]
            start = stop
        assert start == len(new) and answers(library)
        assert library["u"].tobytes() == feedback(x, feedback.parameters.like(new)).tobytes()
    before = library["u"].copy()
    library["x"][-1] = np.inf
    assert not answers(library) and library["u"].tobytes() == before.tobytes()
    library.close()


@needs_cc
def test_a_feedback_without_parameters(tmp_path):
    problem = pendulum()
    feedback = trajopt.DDP().prepare(problem).prepare_step(problem.x0)
    library = Loaded(feedback.export(tmp_path / "made", "law"), "law")
    library["x"][...] = problem.x0 + 0.1
    assert answers(library) and library["u"].tobytes() == feedback(problem.x0 + 0.1).tobytes()
    assert "p" not in library
    library.close()


# ------------------------------------------------------------------------------------------------ what is refused
def test_states_that_are_compared_in_python(tmp_path):
    solution = trajopt.DDP().solve(circle_pendulum())
    feedback = trajopt.DDP().prepare(solution.problem).prepare_step(solution.xs[0])
    for law in (solution.policy(), feedback):
        with pytest.raises(ValueError, match="export: got states that are compared in Python, expected numbers"):
            law.export(tmp_path / "made")
    assert not (tmp_path / "made").exists()


@needs_cc
def test_arguments(tmp_path):
    policy = plan_of("pendulum").policy()
    with pytest.raises(ValueError, match="name: got 'a-b', expected a name of ASCII letters"):
        policy.export(tmp_path / "made", "a-b")
    with pytest.raises(TypeError, match="name: got 3, expected text"):
        policy.export(tmp_path / "made", 3)
    with pytest.raises(ValueError, match="target: got 'mips', expected 'native'"):
        policy.export(tmp_path / "made", target="mips")
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError, match="folder: got"):
        policy.export(tmp_path)
