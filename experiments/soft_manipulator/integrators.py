"""What the integrators of `SoftRobotSystem` keep and lose: order, energy, momentum, and what a step takes."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from dynamics import FreeFlyer
from dynamics.rods.loads.tendons import Tendon
from dynamics.rods.model.cross_section import Circular, Elastic
from dynamics.rods.model.strain_basis import LegendreBasis
from dynamics.rods.robot.builder import RodModelBuilder
from dynamics.rods.robot.soft_robot import SoftRobot
from dynamics.rods.stepping.simulation import simulate
from dynamics.rods.stepping.soft_system import SoftRobotSystem
from problems.rods.cable_manipulator import cable_manipulator

PULLED, SWING, STEP = 0.08, 1.0, 2e-3
"""Durations, s, of the motion that tells the order and of those that tell energy and momentum; their step, s."""
STEPS = (1e-3, 5e-4)
"""Steps, s, whose errors tell the order."""
RTOL, ATOL = 1e-9, 1e-11
"""Of the truth."""
REPEATS = 5


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
        system = SoftRobotSystem(robot, dt, integrator)
        xs = system.rollout(np.zeros(system.nx), np.tile(u, (round(PULLED / dt), 1)))
        errors.append(np.abs(xs[-1, : robot.nq] - exact).max())
    return float(np.log2(errors[0] / errors[1]) / np.log2(STEPS[0] / STEPS[1]))


def _swing(robot: SoftRobot, integrator: str, x0: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """q, v (T, n) of a motion without controls, and M v (T, n)."""
    system = SoftRobotSystem(robot, STEP, integrator)
    q, v = np.split(system.rollout(x0, np.zeros((round(SWING / STEP), robot.nu))), 2, axis=1)
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
    """Of a step of the manipulator in a rollout, s."""
    system, times = SoftRobotSystem(cable_manipulator(), 0.01, integrator), []
    us = np.full((50, system.nu), 4.0)
    system.rollout(np.zeros(system.nx), us)
    for _ in range(REPEATS):
        begin = time.perf_counter()
        system.rollout(np.zeros(system.nx), us)
        times.append((time.perf_counter() - begin) / len(us))
    return float(np.median(times))


def integrator_record(integrator: str) -> dict[str, Any]:
    """All of it."""
    return {
        "integrator": integrator, "order": order(integrator), "energy_drift": energy_drift(integrator),
        "momentum_drift": momentum_drift(integrator), "step_time": step_time(integrator),
    }  # fmt: skip
