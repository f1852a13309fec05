"""What integrators of `SoftRobotSystem`, and others in plain Python, keep and lose: order, energy, momentum, how far
off plans are, and what a step takes."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import problems
import trajopt
from dynamics import FreeFlyer
from dynamics.rods.loads.tendons import Tendon
from dynamics.rods.model.cross_section import Circular, Elastic
from dynamics.rods.model.strain_basis import LegendreBasis
from dynamics.rods.robot.builder import RodModelBuilder
from dynamics.rods.robot.soft_robot import SoftRobot
from dynamics.rods.stepping.simulation import simulate
from dynamics.rods.stepping.soft_system import SoftRobotSystem
from experiments.soft_manipulator.plain_steps import PLAIN, PlainSystem
from problems.rods.cable_manipulator import cable_manipulator

PULLED, SWING, STEP = 0.08, 1.0, 2e-3
"""Durations, s, of the motion that tells the order and of those that tell energy and momentum; their step, s."""
STEPS = (1e-3, 5e-4)
"""Steps, s, whose errors tell the order."""
RTOL, ATOL = 1e-9, 1e-11
"""Of the truth."""
REPEATS = 5
PLANNED, ITERATIONS = ("soft_manipulator_reach", 50), 300
"""The problem that is planned, and its knots; limit of the solver."""
REFERENCE = "sdirk2"
"""That both `SoftRobotSystem` and plain Python have."""


def system_of(robot: SoftRobot, dt: float, integrator: str) -> SoftRobotSystem | PlainSystem:
    """The robot under an integrator."""
    if integrator in PLAIN:
        return PlainSystem(SoftRobotSystem(robot, dt), integrator)
    return SoftRobotSystem(robot, dt, integrator)


def motion(system: SoftRobotSystem | PlainSystem, x0: np.ndarray, us: np.ndarray) -> np.ndarray:
    """States [q; v] (N+1, 2 n) under the controls us (N, nu)."""
    start = system.start(x0, us[0]) if isinstance(system, PlainSystem) else x0
    return system.rollout(start, us)[:, : len(x0)]


def elastic_rod(free: bool) -> SoftRobot:
    """An undamped rod of 50 cm without weight, clamped or free, with a slack tendon."""
    builder, basis = RodModelBuilder(gravity=(0.0, 0.0, 0.0)), LegendreBasis(torsion=1, bending_y=2, bending_z=2)
    material = Elastic(young=1e6, poisson=0.5, density=1000.0, viscosity=0.0)
    builder.add_rod("rod", "world", 0.5, Circular(0.015), material, basis, FreeFlyer() if free else None)
    return SoftRobot(builder.build(), [Tendon.straight("rod", 0.0, 0.01)])


def order(integrator: str) -> float:
    """Of the error in coordinates, after the manipulator was pulled from rest."""
    robot = cable_manipulator()
    u = np.full(robot.nu, 4.0)
    exact = simulate(robot, PULLED, u, method="radau", rtol=RTOL, atol=ATOL).q[-1]
    errors = []
    for dt in STEPS:
        system = system_of(robot, dt, integrator)
        xs = motion(system, np.zeros(2 * robot.nq), np.tile(u, (round(PULLED / dt), 1)))
        errors.append(np.abs(xs[-1, : robot.nq] - exact).max())
    return float(np.log2(errors[0] / errors[1]) / np.log2(STEPS[0] / STEPS[1]))


def _swing(robot: SoftRobot, integrator: str, x0: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """q, v (T, n) of a motion without controls, and M v (T, n)."""
    system = system_of(robot, STEP, integrator)
    q, v = np.split(motion(system, x0, np.zeros((round(SWING / STEP), robot.nu))), 2, axis=1)
    M = robot.residual_derivatives(q, v, np.zeros_like(q), np.zeros((len(q), robot.nu))).M
    return q, v, np.einsum("tij,tj->ti", M, v)


def energy_drift(integrator: str) -> float:
    """Largest change of the energy of the clamped rod, released bent, relative to it."""
    robot = elastic_rod(free=False)
    q0 = np.zeros(robot.nq)
    q0[2], q0[5] = 2.0, 1.0
    q, v, momenta = _swing(robot, integrator, np.r_[q0, np.zeros(robot.nv)])
    energy = 0.5 * np.einsum("ti,ti->t", momenta, v) + 0.5 * np.einsum("ti,ij,tj->t", q, robot.model.stiffness, q)
    return float(np.abs(energy / energy[0] - 1.0).max())


def momentum_drift(integrator: str) -> float:
    """Largest change of the momentum, linear and angular, of the free rod, thrown bent and turning, relative to it: for
    exponential coordinates of the base, columns of T(q)'^-1 (M v)."""
    robot = elastic_rod(free=True)
    x0 = np.zeros(2 * robot.nq)
    x0[6 + 2], x0[robot.nq : robot.nq + 6] = 2.0, (0.5, 0.8, 1.2, 0.3, 0.2, 0.1)
    q, _, momenta = _swing(robot, integrator, x0)
    bases, along = q[:, :6], momenta[:, :6]
    wrenches = np.array([np.linalg.solve(_tangent(x).T, p) for x, p in zip(bases, along, strict=True)])
    parts = (wrenches[:, :3], wrenches[:, 3:])
    return max(float(np.abs(p - p[0]).max() / np.linalg.norm(p[0])) for p in parts)


def _tangent(x: np.ndarray) -> np.ndarray:
    """T(x) = sum of ad_x^r / (r + 1)!, of the twist x = [angular; linear]."""
    w, v = (np.array([[0.0, -z, y], [z, 0.0, -a], [-y, a, 0.0]]) for a, y, z in (x[:3], x[3:]))
    ad = np.block([[w, np.zeros((3, 3))], [v, w]])
    T = term = np.eye(6)
    for r in range(1, 30):
        term = term @ ad / (r + 1.0)
        T = T + term
    return T


def step_time(integrator: str) -> float:
    """Of a step of the manipulator in a rollout, s; of plain Python in proportion, by the integrator that both have."""
    inside = SoftRobotSystem(cable_manipulator(), 0.01, REFERENCE)
    if integrator in PLAIN:
        share = _step_time(PlainSystem(inside, integrator)) / _step_time(PlainSystem(inside, REFERENCE))
        return share * _step_time(inside)
    return _step_time(system_of(inside.robot, inside.dt, integrator))


def _step_time(system: SoftRobotSystem | PlainSystem) -> float:
    us, times = np.full((50, system.nu), 4.0), []
    x0 = np.zeros(system.nx)
    system.rollout(x0, us)
    for _ in range(REPEATS):
        begin = time.perf_counter()
        system.rollout(x0, us)
        times.append((time.perf_counter() - begin) / len(us))
    return float(np.median(times))


def plan_error(integrator: str) -> float:
    """How far from the plan the tip ends when the controls are executed by Radau's method, m; the plan is iLQR's from
    that of another integrator, for all of them near one optimum."""
    name, horizon = PLANNED
    given = problems.make(name, horizon=horizon, integrator=REFERENCE)
    assert isinstance(given.system, SoftRobotSystem)
    solver, inside = trajopt.ILQR(max_iterations=ITERATIONS), given.system
    us = solver.solve(given).us
    if integrator in PLAIN:
        system = PlainSystem(inside, integrator)
        running, terminal = ([system.lift(cost) for cost in c] for c in (given.running_costs, given.terminal_costs))
        x0 = system.start(given.x0, np.zeros(system.nu))
        problem = trajopt.Problem(system, x0, horizon, running, terminal, given.constraints)
    else:
        problem = problems.make(name, horizon=horizon, integrator=integrator)
    solution = solver.solve(problem, us=us)
    ends = [solution.xs[-1, : inside.nx], inside.resimulated().rollout(given.x0, solution.us)[-1]]
    tips = inside.skeleton(np.array(ends))[:, -1, 1]
    return float(np.linalg.norm(tips[1] - tips[0]))


def integrator_record(integrator: str) -> dict[str, Any]:
    """All of it."""
    return {
        "integrator": integrator, "order": order(integrator), "energy_drift": energy_drift(integrator),
        "momentum_drift": momentum_drift(integrator), "plan_error": plan_error(integrator),
        "step_time": step_time(integrator),
    }  # fmt: skip
