"""Soft robots for the tests, their stored numbers, and kernels of theirs on complex lanes."""

import json
from functools import cache
from pathlib import Path

import numpy as np
from scipy.linalg import expm

from dynamics import Fixed, FreeFlyer, Planar, Prismatic, Revolute, Spherical, Translation
from dynamics.rods.algorithms.equation_of_motion import (
    accelerations_kernel,
    residual_kernel,
    residual_work,
    result_size,
)
from dynamics.rods.loads.tendons import Chamber, Tendon
from dynamics.rods.model.arrays import END, FORCES, SEGMENT
from dynamics.rods.model.cross_section import Circular, Elastic, Rectangular
from dynamics.rods.model.segment_list import Helical
from dynamics.rods.model.strain_basis import LegendreBasis
from dynamics.rods.robot.builder import RodModelBuilder
from dynamics.rods.robot.soft_robot import SoftRobot
from dynamics.simd import LANES, aligned_zeros
from problems.rods.cable_manipulator import cable_manipulator

REFERENCE = json.loads((Path(__file__).parent / "rods" / "reference.json").read_text())
SOFT = Elastic(young=1e6, poisson=0.5, density=1000.0, viscosity=1e4)
STEP = 1e-30


# ------------------------------------------------------------------------------------------------ robots
def manipulator(gravity=(0.0, 0.0, -9.81), viscosity: float = 1e4) -> SoftRobot:
    """The tapered manipulator of 24 coordinates and five tendons of Mathew et al. 2025, section 4.5."""
    return cable_manipulator(gravity=gravity, viscosity=viscosity)


def cantilever(case: dict, points: int, basis: LegendreBasis, gravity=(0.0, 0.0, -9.81)) -> SoftRobot:
    """A uniform circular rod along x, clamped: a case of the stored frequencies."""
    builder = RodModelBuilder(gravity)
    material = Elastic(case["E"], case["nu"], case["rho"])
    builder.add_rod("rod", "world", case["L"], Circular(case["r"]), material, basis, points=points)
    return SoftRobot(builder.build())


def hybrid_builder(depth_first: bool = True) -> RodModelBuilder:
    """Rods and rigid links with revolute, spherical, prismatic and planar joints, offsets and two branches; numbered
    depth-first, or with the branches in turn."""
    tilt = expm(np.cross(np.eye(3), [0.3, -0.2, 0.4]))
    builder = RodModelBuilder(base=(tilt, [0.1, 0.0, -0.2]))
    inertia = np.array([[0.02, 0.001, 0.002], [0.001, 0.03, -0.002], [0.002, -0.002, 0.025]])
    rigid = {"mass": 0.7, "com": (0.1, 0.02, -0.01), "inertia": inertia}
    builder.add_body("shoulder", "world", Revolute((1.0, 2.0, 3.0)), **rigid, damping=0.1, stiffness=0.2)
    section = Circular(0.02, 0.01)
    basis = LegendreBasis(torsion=0, bending_y=2, bending_z=1, stretch=1)
    builder.add_rod("trunk", "shoulder", 0.4, section, SOFT, basis, placement=(tilt.T, [0.2, 0.05, 0.0]), points=3)

    def first_branch():
        builder.add_rod(
            "flap", "trunk", 0.3, Rectangular(0.02, 0.03), SOFT, LegendreBasis(bending_z=2), joint=Spherical(),
            placement=(tilt, [0.0, 0.03, 0.0]), points=3, reference=(0.5, 0.2, 0.1, 1.0, 0.0, 0.0),
        )  # fmt: skip
        builder.add_body("weight", "flap", Prismatic((0.0, 1.0, 1.0)), **rigid, stiffness=30.0)

    builder.add_body("plate", "trunk", Planar(), placement=(tilt.T, [0.05, 0.0, 0.0]), **rigid)
    if depth_first:
        builder.add_rod("tail", "plate", 0.2, Circular(0.01), SOFT, LegendreBasis(0, 1, 1), points=2)
        first_branch()
    else:
        first_branch()
        builder.add_rod("tail", "plate", 0.2, Circular(0.01), SOFT, LegendreBasis(0, 1, 1), points=2)
    return builder


def hybrid(depth_first: bool = True) -> SoftRobot:
    """That robot with tendons and driven joints."""
    tendons = (
        Tendon("flap", lambda X: 0.01 - 0.02 * X, 0.005, name="inner"),
        Tendon.helix("trunk", 0.01, turns=1.0),
        Tendon.straight("trunk", 0.0, -0.008),
    )
    return SoftRobot(hybrid_builder(depth_first).build(), tendons, torques=("weight", "shoulder"))


def finger() -> SoftRobot:
    """Four rods behind each other, with a tilted cuff, a hinge and a slider between them, and tendons and chambers
    through several; areas are so large that units of all controls do alike."""
    tilt = expm(np.cross(np.eye(3), [0.1, -0.2, 0.15]))
    builder, basis = RodModelBuilder(), LegendreBasis(torsion=0, bending_y=1, bending_z=1, stretch=0)
    builder.add_body("table", "world", Revolute("z"), mass=1.0, inertia=0.01 * np.eye(3), damping=0.1)
    builder.add_rod("lower", "table", 0.2, Circular(0.02), SOFT, basis, points=3)
    builder.add_body("cuff", "lower", Fixed(), placement=(tilt, [0.02, 0.0, 0.005]), mass=0.1, inertia=1e-3 * np.eye(3))
    builder.add_rod("upper", "cuff", 0.15, Circular(0.02, 0.015), SOFT, basis, placement=(tilt.T, [0.01, 0.0, 0.0]))
    hinge = {"mass": 0.2, "com": (0.01, 0.0, 0.0), "inertia": 1e-3 * np.eye(3), "stiffness": 0.3, "damping": 0.05}
    builder.add_body("hinge", "upper", Revolute((0.1, 1.0, 0.3)), placement=(tilt, [0.03, 0.002, 0.0]), **hinge)
    builder.add_rod("hand", "hinge", 0.1, Circular(0.015), SOFT, basis, placement=(tilt.T, [0.03, 0.0, 0.0]), points=3)
    builder.add_rod(
        "tip", "hand", 0.1, Circular(0.015, 0.008), SOFT, LegendreBasis(bending_z=1), joint=Prismatic((1.0, 0.2, 0.0)),
        placement=(tilt, [0.5, 0.0, 0.0]), points=3,
    )  # fmt: skip
    rods = ("lower", "upper", "hand", "tip")
    tendons = (
        Tendon(rods, lambda X: 0.008 - 0.01 * X, lambda X: 0.003 + 0.01 * X * X, name="long"),
        Tendon(rods[1:3], (-0.01, lambda X: 0.1 * X - 0.01), 0.002),
    )
    chambers = (
        Chamber("tip", 0.0, lambda s: 0.004 * s, area=0.7, normalized=True),
        Chamber(rods[:2], lambda X: 0.005 - 0.01 * X, (-0.01, -0.005), area=lambda X: 0.4 + X, name="bellows"),
    )
    return SoftRobot(builder.build(), tendons, ("table",), chambers)


def driven_builder() -> RodModelBuilder:
    """A rod on a body that floats; bodies that turn, glide in a plane and screw at its tip, and shift along its way."""
    tilt = expm(np.cross(np.eye(3), [0.2, 0.3, -0.1]))
    rigid = {"mass": 0.5, "com": (0.02, -0.01, 0.03), "inertia": 0.01 * np.diag([1.0, 2.0, 2.5])}
    builder = RodModelBuilder()
    builder.add_body("base", "world", FreeFlyer(), (tilt, [0.1, 0.0, 0.2]), **rigid)
    basis = LegendreBasis(torsion=0, bending_y=1, bending_z=0)
    builder.add_rod("rod", "base", 0.2, Circular(0.02), SOFT, basis, placement=(tilt.T, [0.05, 0.0, 0.0]), points=3)
    builder.add_body("ball", "rod", Spherical(), (tilt, [0.02, 0.01, 0.0]), **rigid)
    builder.add_body("puck", "ball", Planar((1.0, 2.0, -1.0)), (tilt, [0.0, 0.03, 0.0]), **rigid)
    builder.add_body("shift", "rod", Translation(), (tilt, [0.0, 0.0, 0.02]), **rigid, at=0.4)
    builder.add_body("wheel", "shift", Revolute("y"), **rigid)
    builder.add_body("nut", "ball", Helical((1.0, 0.5, 2.0), -0.07), (tilt, [0.0, 0.0, 0.05]), **rigid)
    return builder


def driven_joints() -> SoftRobot:
    """That robot, all of whose joints are driven."""
    tendons = (Tendon.straight("rod", 0.01, 0.0),)
    return SoftRobot(driven_builder().build(), tendons, ("puck", "wheel", "base", "shift", "ball"))


ROBOTS = {"manipulator": cache(manipulator), "hybrid": cache(hybrid), "finger": cache(finger)}
ROBOTS["joints"] = cache(driven_joints)


def random_state(robot: SoftRobot, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """q, v, a, w, u."""
    q, v, a, w = rng.uniform(-1.0, 1.0, (4, robot.nq))
    return q, v, a, w, rng.uniform(0.0, 10.0, robot.nu)


# ------------------------------------------------------------------------------------------------ complex lanes
def complex_steps(robot: SoftRobot, level: int, state, accelerations: bool = False):
    """Derivatives of the results of `residual_kernel`, or of `accelerations_kernel`, along the whole state (size,) q,
    v, a, w, u, wrenches, numbers of closed chains: of r or a (n, size), and of A (., size)."""
    n, size = robot.nq, len(state)
    m, e = robot.model.arrays, robot.arrays
    work, x = aligned_zeros(residual_work(robot.model.arrays, robot.arrays), 2, LANES), aligned_zeros(size, 2, LANES)
    r, A = aligned_zeros(n, 2, LANES), aligned_zeros(result_size(m, e), 2, LANES)
    L = aligned_zeros(n * n, 2, LANES)
    dr, dA = np.empty((n, size)), np.empty((len(A), size))
    for first in range(0, size, LANES):
        columns = np.arange(first, min(first + LANES, size))
        x[:] = 0.0
        x[:, 0] = state[:, None]
        x[columns, 1, columns - first] = STEP
        if accelerations:
            accelerations_kernel(m, e, level, x, L, work, r, A)
        else:
            residual_kernel(m, e, level, x, work, r, A)
        out = x[2 * n : 3 * n] if accelerations else r
        dr[:, columns], dA[:, columns] = (y[:, 1, : len(columns)] / STEP for y in (out, A))
    return dr, dA


def complex_residual(robot: SoftRobot, level: int, states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """r (K, n) and A (K, .) of `residual_kernel` for complex states (K, size), their imaginary parts tiny."""
    m, e = robot.model.arrays, robot.arrays
    numbers = states.shape[1], residual_work(m, e), robot.nq, result_size(m, e)
    out = [np.empty((len(states), size), complex) for size in numbers[2:]]
    for t in range(0, len(states), LANES):
        x, work, *results = (aligned_zeros(size, 2, LANES) for size in numbers)
        own = states[t : t + LANES].T
        x[:, 0], x[:, 1, : own.shape[1]] = own.real[:, :1], own.imag
        x[:, 0, : own.shape[1]] = own.real
        residual_kernel(m, e, level, x, work, *results)
        for rows, y in zip(out, results, strict=True):
            rows[t : t + LANES] = (y[:, 0] + 1j * y[:, 1]).T[: own.shape[1]]
    return out[0], out[1]


# ------------------------------------------------------------------------------------------------ poses
def tip(robot: SoftRobot, name: str, q: np.ndarray) -> np.ndarray:
    """Placement (4, 4) of a link's frame, a rod's tip, as the kernel leaves it in its workspace."""
    n, work, place = robot.nq, np.empty(residual_work(robot.model.arrays, robot.arrays)), np.eye(4)
    state = np.concatenate([q, np.zeros(3 * n + robot.nu + int(robot.arrays.counts[1]))])
    r, A = np.empty(n), np.empty(result_size(robot.model.arrays, robot.arrays))
    residual_kernel(robot.model.arrays, robot.arrays, FORCES, state, work, r, A)
    pose = work[robot.model.link_segments[name] * SEGMENT + END :][:12]
    place[:3, :3], place[:3, 3] = pose[:9].reshape(3, 3), pose[9:]
    return place
