"""Perturbed starts: another initial state and other initial controls for the problem of a fully actuated robot.

A start is mild or hard.  The initial configuration and velocity are moved by normal noise; the initial controls hold
the new posture instead of the old one, plus M times accelerations of normal noise, held for a tenth of the horizon at
a time.  (Noise in the torques themselves would spin the light wrist of an arm and leave its shoulder at rest.)  Starts
are functions of the seed and their number alone.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

import dynamics
import trajopt

PIECES = 10
HARD = (3, 4)
"""Of five starts in a row these are hard: thirty mild and twenty hard ones of fifty."""


class Noise(NamedTuple):
    """Standard deviations: configuration [rad], velocity [rad/s], acceleration [rad/s^2]."""

    position: float
    velocity: float
    acceleration: float


KINDS = {"mild": Noise(0.1, 0.1, 1.0), "hard": Noise(0.3, 0.5, 5.0)}


def kind_of(number: int) -> str:
    """Whether the start of that number is "mild" or "hard"."""
    return "hard" if number % 5 in HARD else "mild"


def perturbed(problem: trajopt.Problem, number: int, seed: int = 0) -> trajopt.Problem:
    """The problem from start `number`."""
    noise, system = KINDS[kind_of(number)], problem.system
    robot, n = system.model, system.model.nv
    rng = np.random.default_rng([seed, number])
    moved = rng.standard_normal(2 * n) * np.repeat([noise.position, noise.velocity], n)
    x0 = system.integrate(problem.x0, moved)
    q_old, q_new = problem.x0[: robot.nq], x0[: robot.nq]
    accelerations = noise.acceleration * rng.standard_normal((PIECES, n))
    torques = accelerations @ dynamics.mass_matrix(robot, q_new)
    torques += dynamics.gravity_forces(robot, q_new) - dynamics.gravity_forces(robot, q_old)
    piece = np.arange(problem.horizon) * PIECES // problem.horizon
    return replace(problem, x0=x0, us_init=problem.us_init + torques[piece])
