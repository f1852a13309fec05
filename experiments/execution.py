"""Plans executed at 1 kHz: how far motions leave them, with the right masses and with wrong ones, by several laws.

Plans of eight problems, by RK4, as they are executed, of the soft robot by SDIRK2.  Laws:

    policy       u = policy(t, x), asked every millisecond
    at knots     the policy asked at the knots of the plan, its answer held
    resampled    u_i + K_i (x - x_i) of `solution.resample(1e-3)`, every millisecond

Masses are right, or all of them a tenth larger.  Deviations are those of configurations from the plan at every
millisecond, rad or m, of the soft robot those of its tip; jumps those of controls from one millisecond to the next,
over the largest jump of the plan.  Free durations put knots between the milliseconds: controls come up to one late.

A second table has unstable plants, the mass of each of their bodies wrong by up to 10 %, drawn at random, under the
policy with its gains held between knots, with gains interpolated from knot to knot, and with linear controls:
deviations, and the geometric mean of their ratios to those of held gains.  Interpolated gains are better by a few
percent on some plants and worse on others, so gains are held, as in the rollouts that they were made for and in
resampled plans.

A third table has robots on legs, under the gains alone, with stiffness and damping of the joints besides as they are by
default (`joint_stiffness="auto"`), and both with the last posture held after the end (`hold=True`).  The stiffness that
feedback gives the joints [N m/rad] is the least and the largest eigenvalue of the symmetric part of its joint block,
over all knots in contact and, where it holds, the end; deviations are those of the first table, and those at the end
and two seconds later [mrad or mm], by steps of the last phase, whose contacts hold: what slips is not seen here.

    python -m experiments.execution [--quick] [--out DIR]

Writes OUT/execution.json.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table

import dynamics
import problems
import trajopt
from dynamics.rods.robot.link_residuals import LinkTranslation
from dynamics.rods.stepping.soft_system import SoftRobotSystem
from experiments.harness import Experiment, Run, quick
from experiments.harness.tables import table
from experiments.harness.timing import medians
from problems.rods.cable_manipulator import ROD, SOFT, cable_manipulator
from trajopt.interfaces.system import window

PERIOD = 1e-3
"""Of the controller, s."""
HEAVIER = 1.1
WRONG = 0.1
"""Largest relative error of a body's masses."""
NEAR = 1.0
"""Rad or m, in which a motion has kept to its plan."""
LAWS = ("policy", "at knots", "resampled")
PLANTS = ("acrobot", "cartpole", "double_pendulum", "quadrotor")
DRAWS = 20
ON_LEGS = ("quadruped_stand", "quadruped_trot", "quadruped_walk", "humanoid_step")
FEEDBACK: dict[str, dict[str, Any]] = {
    "gains": {"hold": False},
    "gains, joints": {"joint_stiffness": "auto", "hold": False},
    "gains, hold": {"hold": True},
    "gains, joints, hold": {"joint_stiffness": "auto", "hold": True},
}
AFTER = 2.0
"""Seconds for which motions go on after the end of a plan."""
SHORT = ("quadruped_stand", "user's cart-pole"), ("cartpole",), 2, ("quadruped_stand",)
SOLVER = trajopt.DDP(max_iterations=300)
Law = Callable[[float, np.ndarray], np.ndarray]


class Case(NamedTuple):
    """A problem, its system with masses by a factor, of a rigid robot by one for each body (nb, 1) too, and, in place
    of all coordinates, what is compared of states (K, nx)."""

    problem: trajopt.Problem
    heavier: Callable[[Any], Any]
    point: Callable[[np.ndarray], np.ndarray] | None = None


def robot(name: str) -> Case:
    """A problem of a rigid robot by RK4."""
    problem = problems.make(name)
    given: Any = problem.system
    system = given.refined(1)
    inside: Any = system.system if isinstance(system, trajopt.FreeDurationSystem) else system
    masses = dynamics.inertial_parameters(inside.model)
    remade: Any = system.with_model
    return Case(
        replace(problem, system=system),
        lambda factor: remade(dynamics.with_inertial_parameters(inside.model, factor * masses)),
    )


def soft() -> Case:
    """A soft manipulator by SDIRK2."""
    problem = problems.make("soft_manipulator_reach")
    dt, robot = problem.system.dt, cable_manipulator()
    tip = LinkTranslation(robot.model, ROD, np.zeros(3))
    return Case(
        replace(problem, system=SoftRobotSystem(robot, dt, "sdirk2")),
        lambda factor: SoftRobotSystem(cable_manipulator(density=factor * SOFT.density), dt, "sdirk2"),
        lambda xs: tip.evaluate(xs, None),
    )


def cart_pole(factor: float = 1.0) -> trajopt.CallableSystem:
    """A cart of 1 kg and a pole of 0.1 kg and half a metre, as a user's function; masses by a factor."""

    def rate(x, u):
        M, m, length, g = factor * 1.0, factor * 0.1, 0.5, 9.81
        sine, cosine = np.sin(x[1]), np.cos(x[1])
        force = u[0] + m * sine * (length * x[3] ** 2 + g * cosine)
        a = force / (M + m * sine**2)
        return x[2], x[3], a, -(a * cosine + g * sine) / length

    return trajopt.CallableSystem(xdot=rate, nx=4, nu=1, dt=0.02, integrator="rk4")


def users() -> Case:
    """The swing-up of a cart-pole that is a user's function."""
    system, goal = cart_pole(), [0.0, np.pi, 0.0, 0.0]
    running = [trajopt.StateCost(system, goal, [0.1, 0.1, 0.01, 0.01]), trajopt.ControlCost(1e-2)]
    terminal = [trajopt.StateCost(system, goal, [100.0, 100.0, 10.0, 10.0])]
    us = 2.0 * np.sin(np.linspace(0.0, 4.0 * np.pi, 100))[:, None]
    return Case(trajopt.Problem(system, np.zeros(4), 100, running, terminal, us_init=us), cart_pole)


CASES: dict[str, Callable[[], Case]] = {
    **{name: lambda name=name: robot(name) for name in ("arm", "quadrotor", "quadruped_stand", "quadruped_walk")},
    "humanoid_step": lambda: robot("humanoid_step"),
    "quadrotor_minimum_time": lambda: robot("quadrotor_minimum_time"),
    "soft_manipulator_reach": soft,
    "user's cart-pole": users,
}
"""Two with contacts and impacts, one that stands, one with a free duration, a soft one, a user's function."""


# ------------------------------------------------------------------------------------------------ execution
def executed(plan: trajopt.Solution, law: Law | None, plant: Any, case: Case) -> dict[str, float]:
    """Deviations and jumps of a plan under a law, or its own policy at its knots (None)."""
    period = None if law is None else PERIOD
    motion = trajopt.simulate(plan, dt=PERIOD, policy=law or "feedback", period=period, system=plant)
    own: Any = plan.problem.system
    n = (own.ndx - 1) // 2 if isinstance(own, trajopt.FreeDurationSystem) else own.ndx // 2
    reference, last = plan.policy(), np.append(np.diff(motion.times) > 0.0, True)
    if not motion.finite:
        return dict.fromkeys(("off", "rms", "jump"), np.inf)
    planned = np.array([reference.reference(t) for t in motion.times[last].tolist()])  # at impacts what is after them
    if case.point is None:
        off = np.abs(own.difference(planned, motion.xs[last])[:, :n])
    else:
        off = np.linalg.norm(case.point(motion.xs[last]) - case.point(planned), axis=1)
    jumps = np.abs(np.diff(motion.us[last[:-1]][:, : n_controls(plan)], axis=0))
    return {"off": float(off.max()), "rms": float(np.sqrt(np.mean(off**2))), "jump": float(jumps.max())}


def n_controls(plan: trajopt.Solution) -> int:
    """Controls of a plan without durations."""
    return plan.us.shape[1] - isinstance(plan.problem.system, trajopt.FreeDurationSystem)


def laws(plan: trajopt.Solution) -> dict[str, Law | None]:
    """The laws of the first table."""
    policy, dense = plan.policy(), plan.resample(PERIOD)
    system, limits = plan.problem.system, plan.problem.control_limits

    def resampled(t: float, x: np.ndarray) -> np.ndarray:
        i = min(int(t / PERIOD + 1e-6), len(dense.times) - 1)
        u = dense.us[i] + dense.K[i] @ system.difference(dense.xs[i], x)
        return u if limits is None else np.clip(u, limits[0][dense.knots[i]], limits[1][dense.knots[i]])

    return {"policy": policy, "at knots": None, "resampled": resampled}


def comparison(name: str) -> dict[str, Any]:
    """A row of the first table."""
    case = CASES[name]()
    plan = SOLVER.solve(case.problem)
    policy, lasting = plan.policy(), np.diff(plan.times) > 0.0
    own = float(np.abs(np.diff(plan.us[lasting][:, : n_controls(plan)], axis=0)).max())
    moments = np.random.default_rng(0).uniform(0.0, policy.horizon, 64).tolist()
    states = [policy.reference(t) for t in moments]
    policy.motion.whole_table()

    def ask() -> None:
        for t, x in zip(moments, states, strict=True):
            policy(t, x)

    found: dict[str, Any] = {"problem": name, "status": str(plan.status), "knots": len(plan.us)}
    found["dt"] = plan.problem.system.dt
    found["call"] = 1e6 * medians({name: ask}, seconds=0.3)[name] / len(moments)
    for masses, plant in (("right", case.heavier(1.0)), ("wrong", case.heavier(HEAVIER))):
        found[masses] = {key: executed(plan, law, plant, case) for key, law in laws(plan).items()}
        for row in found[masses].values():
            row["jump"] /= own
    return found


# ------------------------------------------------------------------------------------------------ held or interpolated
def variants(plan: trajopt.Solution) -> dict[str, Law]:
    """The policy and what it might be: gains from knot to knot in place of held ones."""
    held, linear = plan.policy(), plan.policy(control="linear")

    def interpolated(t: float, x: np.ndarray) -> np.ndarray:
        k, s = held.motion.locate(t)
        K = held.K[k] + s * (held.K[min(k + 1, len(held.K) - 1)] - held.K[k])
        return held.us[k] + K @ held.space.compare(held.reference(t), x)

    return {"gains held": held, "gains interpolated": interpolated, "controls linear": linear}


def unstable(name: str, draws: int) -> dict[str, Any]:
    """A row of the second table."""
    case, rng = robot(name), np.random.default_rng(0)
    plan, found = SOLVER.solve(case.problem), []
    bodies = len(dynamics.inertial_parameters(plan.problem.system.model))  # pyright: ignore[reportAttributeAccessIssue]
    for _ in range(draws):
        plant = case.heavier(1.0 + WRONG * rng.uniform(-1.0, 1.0, (bodies, 1)))
        found.append({key: executed(plan, law, plant, case) for key, law in variants(plan).items()})
    row: dict[str, Any] = {"plant": name, "draws": draws}
    for key in found[0]:
        near = [each for each in found if max(each[key]["off"], each["gains held"]["off"]) < NEAR]
        row[key] = {"kept": sum(each[key]["off"] < NEAR for each in found)}
        for what in ("off", "rms"):
            row[key][what] = float(np.median([each[key][what] for each in found]))
            ratios = [each[key][what] / each["gains held"][what] for each in near]
            row[key][f"{what} over held"] = float(np.exp(np.mean(np.log(ratios)))) if ratios else None
    return row


# ------------------------------------------------------------------------------------------------ on legs
def stiffness(policy: trajopt.Policy, held: np.ndarray) -> list[float]:
    """The least and the largest eigenvalue of the symmetric part of the joints' stiffness, at these knots (N,)."""
    system: Any = policy.system
    positions, _, efforts = system.joint_feedback
    K = policy.K[held] if policy.hold is None else np.stack([*policy.K[held], policy.hold.K])
    block = -efforts @ K[:, :, positions]
    found = np.linalg.eigvalsh(0.5 * (block + block.swapaxes(1, 2)))
    return [float(found.min()), float(found.max())]


def afterwards(policy: trajopt.Policy, plant: Any, x: np.ndarray) -> list[float]:
    """Deviations from the last state of a plan when it is over and the state is x, and `AFTER` seconds later."""
    own: Any = policy.system
    N, off = len(policy.us), []
    last = window(window(plant, N - 1, N).refined(round(plant.dt / PERIOD)), 0, 1)
    steps = round(AFTER / PERIOD)
    for i in range(steps + 1):
        if not np.isfinite(x).all():  # it has fallen
            off.append(np.inf)
            break
        if i in (0, steps):
            off.append(float(np.abs(own.difference(policy.xs[-1], x)[: own.nv]).max()))
        x = last.step(x, policy(policy.horizon + i * PERIOD, x))
    return [each if np.isfinite(each) and each < NEAR else np.inf for each in off]


def on_legs(name: str) -> dict[str, Any]:
    """A row of the third table."""
    case = robot(name)
    plan = SOLVER.solve(case.problem)
    held = np.abs(plan.problem.system.contact_forces(plan.xs, plan.us)).max(axis=(1, 2)) > 0.0  # pyright: ignore[reportAttributeAccessIssue]
    found: dict[str, Any] = {"problem": name, "status": str(plan.status)}
    for key, given in FEEDBACK.items():
        policy = plan.policy(**given)
        found[key] = {"stiffness": stiffness(policy, held)}
        for masses, plant in (("right", case.heavier(1.0)), ("wrong", case.heavier(HEAVIER))):
            off = executed(plan, policy, plant, case)["off"]
            end = trajopt.simulate(plan, dt=PERIOD, policy=policy, period=PERIOD, system=plant).xs[-1]
            with np.errstate(all="ignore"):
                after = afterwards(policy, plant, end) if off < NEAR else [np.inf, np.inf]
            found[key][masses] = {"off": off, "end": after[0], "after": after[1]}
    return found


def study(run: Run) -> dict[str, Any]:
    """All tables."""
    cases, plants, draws, legs = SHORT if run.options.quick else (tuple(CASES), PLANTS, DRAWS, ON_LEGS)
    return {
        "execution": [comparison(name) for name in run.track(cases, "executing")],
        "gains": [unstable(name, draws) for name in run.track(plants, "comparing gains")],
        "legs": [on_legs(name) for name in run.track(legs, "standing still")],
    }


def tables(results: dict[str, Any]) -> Iterable[Table]:
    """Deviations and jumps of the laws, and the policy's variants."""
    masses = {"right": "right masses", "wrong": f"masses times {HEAVIER}"}
    titles = [f"{law}, {title}" for title in masses.values() for law in LAWS]
    rows = results["execution"]
    for key, title in (
        ("off", "Largest deviation [mrad or mm]"),
        ("jump", "Largest jump of a control, over the plan's"),
    ):
        scale = 1e3 if key == "off" else 1.0
        body = [[r["problem"], *(scale * r[m][law][key] for m in masses for law in LAWS)] for r in rows]
        yield table(title, ["problem"], titles, [body])
    body = [[r["problem"], r["status"], r["knots"], 1e3 * r["dt"], r["call"]] for r in rows]
    yield table("Plans", ["problem", "status"], ["knots", "step [ms]", "call of the policy [us]"], [body])
    sections = []
    for r in results["gains"]:
        rows = [(name, r[name]) for name in list(r)[2:]]
        sections.append(
            [
                [r["plant"], name, f"{each['kept']} of {r['draws']}", 1e3 * each["off"], 1e3 * each["rms"],
                 each["off over held"], each["rms over held"]]
                for name, each in rows
            ]
        )  # fmt: skip
    title = f"Unstable plants, masses of bodies wrong by up to {100 * WRONG:.0f} %: medians of deviations [mrad or mm]"
    yield table(title, ["plant", "law"], ["kept", "largest", "rms", "largest over held", "rms over held"], sections)
    sections = []
    for r in results["legs"]:
        rows = [(key, r[key]) for key in FEEDBACK]
        of = [(m, what) for m in masses for what in ("off", "end", "after")]
        sections.append(
            [[r["problem"], key, *each["stiffness"], *(1e3 * each[m][what] for m, what in of)] for key, each in rows]
        )
    whens = ("largest", "at the end", f"{AFTER:g} s later")
    titles = ["least", "largest", *(f"{when}, {key}" for key in masses for when in whens)]
    title = f"On legs: stiffness [N m/rad], deviations [mrad or mm] with right masses and with all times {HEAVIER}"
    yield table(title, ["problem", "feedback"], titles, sections)


main = Experiment(
    "execution", __doc__, study, options=[quick("two problems, a plant, a robot on legs")], tables=tables, width=200
)  # fmt: skip

if __name__ == "__main__":
    raise SystemExit(main())
