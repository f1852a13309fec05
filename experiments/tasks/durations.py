"""Minimum time, here and by IPOPT on the same steps: the duration of a knot is a state of both.

The peer's states are (x, h), h seconds a knot, the first of which is free; its first state is the second of ours, where
the first knot sets the duration.  What either finds is judged by the statement alone, which is plain numpy.  The
quadrotor's steps are those of a Lie group here, and there of positions and quaternions, so that minima differ by what
the rules err by.
"""

from __future__ import annotations

import importlib.util
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import dynamics
import problems
import trajopt
from experiments.constraints.catalogue.pendulums import cart_pole
from experiments.constraints.statement import Integrand, Limits, Rows, Statement, goal
from experiments.harness import PeerLost, PeerProcess
from problems import arm, arm_minimum_time, car_parking, quadrotor, quadrotor_minimum_time

SOLVERS = {"ddp": trajopt.DDP(), "ilqr": trajopt.ILQR()}
REPEATS, LIMIT = 3, 60.0
"""Solves that are timed, of which the median counts; seconds that the peer may take for one."""

Rates = Callable[[Any, Any], tuple]


@dataclass(frozen=True)
class Case:
    """A task in the least time: the peer's statement, our problem from a duration, and the durations to start from.

    Parameters
    ----------
    statement : states (x, h)
    make : problem with h seconds a knot at first
    starts : durations of the whole, s
    same : whether both sides step alike
    """

    statement: Statement
    make: Callable[[float], trajopt.Problem]
    starts: tuple[float, ...]
    same: bool = True


def stretched(xdot: Rates) -> Rates:
    """d(x, h)/ds over steps of length one: h xdot, and h stays."""
    return lambda z, u: (*(z[-1] * rate for rate in xdot(z, u)), 0.0 * z[-1])


def timed(name: str, xdot: Rates, x0, horizon: int, limit, end: Limits, **other: Any) -> Statement:
    """The peer's statement; its cost is the time unless another is given."""
    upper, rows = np.asarray(limit, dtype=float), other.pop("constraints", ())
    return Statement(
        name, "", stretched(xdot), (*x0, np.nan), horizon, 1.0, tuple(-upper), tuple(upper),
        **{"running": (Integrand(lambda z, u: z[-1]),), **other},
        constraints=(end, Limits((len(x0),), (1e-3,), (1.0,), name="durations"), *rows),
    )  # fmt: skip


def from_statement(plain: Statement, effort: float = 0.0) -> Callable[[float], trajopt.Problem]:
    """Our problem of a statement of fixed time that has a goal and limits of its controls: the cost is the time, and
    half of `effort` times the squared controls."""

    def make(h: float) -> trajopt.Problem:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", trajopt.SlowDynamicsWarning)
            system = trajopt.CallableSystem(xdot=plain.xdot, nx=plain.nx, nu=plain.nu, dt=h, name=plain.name)
        end = trajopt.StateResidual(system, plain.constraints[-1].lower)
        fixed = trajopt.Problem(
            system, np.array(plain.x0), plain.horizon, [trajopt.ControlCost(effort)],
            constraints=[
                trajopt.ControlBounds(plain.lower, plain.upper),
                trajopt.ResidualConstraint(end, at="terminal", name="goal"),
            ],
            name=plain.name,
        )  # fmt: skip
        return trajopt.with_free_durations(fixed, 1.0, bounds=(0.1, 5.0))

    return make


# ------------------------------------------------------------------------------------------------ the cases
def double_integrator() -> Case:
    """A metre with at most 1 N on 1 kg, which takes two seconds."""
    x0, end = (0.0, 0.0), goal((1.0, 0.0))
    plain = Statement(
        "double integrator", "", lambda x, u: (x[1], u[0]), x0, 40, 0.05, (-1.0,), (1.0,), constraints=(end,)
    )
    peer = timed(plain.name, plain.xdot, x0, 40, (1.0,), end)
    return Case(peer, from_statement(plain), (1.2, 3.0, 6.0))


def cartpole(effort: float = 0.0) -> Case:
    """Swing-up of Kelly's cart and pole with at most 10 N; in the least time, its forces are those all along."""
    end = goal((0.0, np.pi, 0.0, 0.0))
    x0 = (0.0,) * 4
    plain = replace(cart_pole(), lower=(-10.0,), upper=(10.0,), horizon=80, running=(), constraints=(end,))
    cost = Integrand(lambda z, u: z[-1] * (1.0 + 0.5 * effort * u[0] ** 2))
    peer = timed("cartpole", plain.xdot, x0, 80, (10.0,), end, running=(cost,))
    return Case(peer, from_statement(plain, effort), (1.5, 2.0, 3.0))


def car() -> Case:
    """`car_minimum_time`: the time, and a little of the squared controls."""

    def xdot(x, u):
        along = x[3] * np.cos(u[0])
        return along * np.cos(x[2]), along * np.sin(x[2]), x[3] * np.sin(u[0]) / car_parking.WHEELBASE, u[1]

    peer = timed(
        "car_minimum_time", xdot, car_parking.START, 60, car_parking.LIMITS, goal((0.0, 0.0, 2.0 * np.pi, 0.0)),
        running=(Integrand(lambda z, u: z[-1] * (1.0 + 0.5e-2 * (u[0] ** 2 + u[1] ** 2))),),
    )  # fmt: skip
    return Case(peer, lambda h: problems.make(peer.name, dt=h), (4.0, 6.0, 9.0))


def six_axes() -> Case:
    """`arm_minimum_time`: accelerations as controls, limits of speeds and of torques."""
    robot = dynamics.load_urdf(arm.MODEL)
    n, limit = robot.nv, arm_minimum_time.LARGEST_ACCELERATION

    def torques(x, u):
        if isinstance(x, np.ndarray):
            tau = dynamics.inverse_dynamics(robot, *(np.ascontiguousarray(part.T) for part in (x[:n], x[n : 2 * n], u)))
            return tau.T / robot.effort_limit[:, None]
        from experiments.derivatives.casadi_peer import ca, rnea

        return [tau / float(most) for tau, most in zip(
            ca.vertsplit(rnea(robot, x[:n], x[n : 2 * n], u)), robot.effort_limit, strict=True
        )]  # fmt: skip

    def integrand(z, u):
        return z[-1] * (1.0 + 0.5e-3 * sum(r * r for r in torques(z, u)))

    speeds = tuple(map(float, robot.velocity_limit))
    rest = goal((*arm.GOAL, *np.zeros(n)))
    rows = (
        Rows(torques, (-1.0,) * n, (1.0,) * n, of="both", name="torques"),
        Limits(tuple(range(n, 2 * n)), tuple(-x for x in speeds), speeds, name="speeds"),
    )
    peer = timed(
        "arm_minimum_time", lambda x, u: (*(x[n + i] for i in range(n)), *(u[i] for i in range(n))),
        (*arm.START, *np.zeros(n)), 40, np.full(n, limit), rest, running=(Integrand(integrand),), constraints=rows,
    )  # fmt: skip
    return Case(peer, lambda h: problems.make(peer.name, dt=h), (1.0, 1.5, 2.5))


def flight() -> Case:
    """`quadrotor_minimum_time` in positions, quaternions (x, y, z, w), velocities in the world, turning rates."""
    robot, B = quadrotor.model(), quadrotor.actuation()
    mass, J = float(robot.arrays.mass[0]), quadrotor_inertia(robot)
    hover = 0.25 * 9.81 * mass

    def xdot(x, u):
        i, j, k, w = x[3], x[4], x[5], x[6]
        a, b, c = x[10], x[11], x[12]
        turned = (w * a + j * c - k * b, w * b + k * a - i * c, w * c + i * b - j * a, -(i * a + j * b + k * c))
        lift, *moments = (sum(float(B[row, r]) * u[r] for r in range(4)) for row in (2, 3, 4, 5))
        axis = 2.0 * (i * k + w * j), 2.0 * (j * k - w * i), 1.0 - 2.0 * (i * i + j * j)
        rates = (
            (moments[0] - (J[2] - J[1]) * b * c) / J[0], (moments[1] - (J[0] - J[2]) * c * a) / J[1],
            (moments[2] - (J[1] - J[0]) * a * b) / J[2],
        )  # fmt: skip
        pull = (axis[0] * lift / mass, axis[1] * lift / mass, axis[2] * lift / mass - 9.81)
        return (x[7], x[8], x[9], *(0.5 * t for t in turned), *pull, *rates)

    def integrand(z, u):
        return z[-1] * (1.0 + quadrotor_minimum_time.THRUSTS * sum((u[r] - hover) ** 2 for r in range(4)))

    turn = 0.5 * quadrotor.GOAL_YAW
    place = (*quadrotor.GOAL_POSITION, 0.0, 0.0, float(np.sin(turn)))
    end = Limits((0, 1, 2, 3, 4, 5, *range(7, 13)), (*place, *[0.0] * 6), (*place, *[0.0] * 6), "terminal", name="goal")
    peer = timed(
        "quadrotor_minimum_time", xdot, (*[0.0] * 6, 1.0, *[0.0] * 6), 50, np.full(4, quadrotor.LARGEST_THRUST), end,
        running=(Integrand(integrand),), guess=hover,
    )  # fmt: skip
    peer = replace(peer, lower=(0.0,) * 4)
    return Case(peer, lambda h: problems.make(peer.name, dt=h), (1.0, 1.5, 2.5), same=False)


def quadrotor_inertia(robot: dynamics.RigidBodyModel) -> list[float]:
    """Principal moments, kg m^2."""
    return [float(dynamics.mass_matrix(robot, dynamics.neutral(robot))[i, i]) for i in (3, 4, 5)]


CASES = {
    "double integrator": double_integrator, "cartpole": cartpole,
    "cartpole, little effort": lambda: cartpole(1e-3), "cartpole, effort": lambda: cartpole(1e-2),
    "car": car, "arm": six_axes, "quadrotor": flight,
}  # fmt: skip


# ------------------------------------------------------------------------------------------------ runs
def runs_of(name: str, advance: Callable[[], None], limit: int | None = None) -> list[dict[str, Any]]:
    """Every solver from every duration, `limit` of them; the peer too where there is CasADi."""
    case, runs = CASES[name](), []
    with PeerProcess(peer, name) as ipopt:
        for T in case.starts[:limit]:
            for solver in SOLVERS:
                runs.append({"start": T, "solver": solver, **ours(case, T, solver)})
                advance()
            if importlib.util.find_spec("casadi"):
                runs.append({"start": T, "solver": "ipopt", **theirs(case, T, ipopt)})
            advance()
    return runs


def peer(name: str) -> Callable[[np.ndarray, np.ndarray], tuple]:
    """In the other process: the call by which IPOPT solves a case from controls and states."""
    from experiments.constraints.programme import Peer

    made = Peer("ipopt", CASES[name]().statement)
    return lambda us, xs: tuple(made.solve(us, xs))


def ours(case: Case, T: float, solver: str) -> dict[str, Any]:
    """One solver of ours."""
    problem, seconds = case.make(T / case.statement.horizon), []
    for _ in range(1 + REPEATS):
        begin = time.perf_counter()
        solution = SOLVERS[solver].solve(problem)
        seconds.append(time.perf_counter() - begin)
    system: Any = problem.system
    found = {
        "status": str(solution.status), "T": system.total_time(solution.xs), "cost": solution.cost,
        "violation": solution.violation, "iterations": solution.iterations, "seconds": float(np.median(seconds[1:])),
    }  # fmt: skip
    if case.same:  # the statement judges
        xs = solution.xs[1:].copy()
        xs[:, -1] *= system.dt
        us = solution.us[1:, :-1]
        found |= {"cost": case.statement.cost(xs, us), "violation": case.statement.violation(xs, us)}
    return found


def theirs(case: Case, T: float, ipopt: PeerProcess) -> dict[str, Any]:
    """The peer, from the states that the first controls lead to; where it is lost, how it was is the status."""
    statement = case.statement
    begin = replace(statement, x0=(*statement.x0[:-1], T / statement.horizon))
    us = begin.us_init
    start = time.perf_counter()
    try:
        samples = [ipopt.ask(us, begin.rollout(us), seconds=LIMIT) for _ in range(REPEATS)]
    except PeerLost as lost:
        none = dict.fromkeys(("T", "cost", "violation", "iterations"))
        return {"status": str(lost), **none, "seconds": time.perf_counter() - start}
    xs, us, _, status, iterations, _ = samples[0]
    return {
        "status": status, "T": float(statement.horizon * xs[0, -1]),
        "cost": statement.cost(xs, us), "violation": statement.violation(xs, us),
        "iterations": iterations, "seconds": float(np.median([sample[-1] for sample in samples])),
    }  # fmt: skip
