"""The examples by name, and random inputs of their equilibria."""

import importlib
from typing import Any

import numpy as np

from experiments.rods.paper import TABLE
from problems.rods.cable_manipulator import LENGTH
from problems.rods.example import RodExample
from problems.rods.manipulator_motion import WALL

MAKERS = {
    "cable_manipulator": ("manipulator_motion", "manipulator_motion"),
    "serial_arm": ("serial_arm", "serial_arm"),
    "fin_ray_finger": ("fin_ray_finger", "fin_ray_finger"),
    "parallel_robot": ("parallel_robot", "parallel_robot"),
    "contact": ("manipulator_motion", "manipulator_in_cylinder"),
    "underwater_vehicle": ("underwater_vehicle", "underwater_vehicle"),
}
"""Module of `problems.rods` and function, in the order of the paper's table."""
NAMES = tuple(TABLE)


def make(name: str) -> RodExample:
    """The example of that name."""
    module, function = MAKERS[name]
    return getattr(importlib.import_module(f"problems.rods.{module}"), function)()


def scenery(name: str) -> list[np.ndarray]:
    """Curves (P, 3) of what stands around the robot."""
    if name != "contact":
        return []
    angle = np.linspace(0.0, 2.0 * np.pi, 60)
    around = WALL.radius * np.stack([np.cos(angle), np.sin(angle), 0.0 * angle], axis=1)
    rings = [around + [0.0, 0.0, z] for z in (0.0, -0.5 * LENGTH, -LENGTH)]
    return [*rings, *(np.stack([rings[0][k], rings[-1][k]]) for k in range(0, 59, 10))]


def static_inputs(example: RodExample, rng: np.random.Generator) -> dict[str, Any] | None:
    """Random arguments of `static_equilibrium` in the paper's ranges; None where it has no statics."""
    if example.name == "cable_manipulator":
        return {"u": rng.uniform(0.0, 100.0, 5)}
    if example.name == "serial_arm":
        angles = rng.uniform(-0.25 * np.pi, 0.25 * np.pi, 7)
        return {"u": np.zeros(0), "prescribed": dict(zip(example.prescribed or (), angles, strict=True))}
    if example.name == "parallel_robot":
        wrench = np.concatenate([rng.uniform(-0.05, 0.05, 3), rng.uniform(-0.5, 0.5, 3)])
        return {"u": np.zeros(example.robot.nu), "wrenches": wrench[None]}
    return None
