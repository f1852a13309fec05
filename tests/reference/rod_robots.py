"""Rods and hybrid robots that tests share, and their inverse dynamics on complex lanes."""

import numpy as np

from dynamics import joints
from dynamics.rods import evaluation
from dynamics.rods.backward_pass import BLOCKS
from dynamics.rods.builder import RodModelBuilder
from dynamics.rods.cross_section import Circular, Elastic, Rectangular
from dynamics.rods.strain_basis import LegendreBasis
from dynamics.simd import LANES, carve, driver, launch

STEP = 1e-30
SILICONE = Elastic(young=1e6, poisson=0.5, density=1000.0, viscosity=1e4)


def manipulator(points=5):
    """The cable-driven manipulator of the paper, 24 coordinates [Mathew 2025, section 4.5]."""
    builder = RodModelBuilder()
    section, basis = Circular(0.03, 0.015), LegendreBasis(4, 4, 4, 2, 2, 2)
    builder.add_rod("arm", "world", 0.5, section, SILICONE, basis, points=points)
    return builder.build()


def _placement(rng):
    R = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    return R * np.linalg.det(R), 0.1 * rng.standard_normal(3)


def hybrid_builder(rng):
    """Three rods, of which two branch off behind a spherical joint, on revolute, prismatic and planar joints."""

    def body(name, parent, joint):
        B = rng.standard_normal((3, 3))
        inertia = 0.005 * B @ B.T + 0.1 * np.eye(3)
        com = 0.1 * rng.standard_normal(3)
        builder.add_body(name, parent, joint, _placement(rng), rng.uniform(0.5, 1.5), com, inertia)

    builder, rubber = RodModelBuilder(base=_placement(rng)), Elastic(1e6, 0.4, 1000.0, 1e3)
    body("shoulder", "world", joints.Revolute([1.0, 2.0, -0.5]))
    upper = LegendreBasis(2, 2, 2, 1, 1, 1)
    builder.add_rod("upper", "shoulder", 0.5, Circular(0.03, 0.015), rubber, upper, placement=_placement(rng), points=3)
    body("ball", "upper", joints.Spherical())
    thin, slide = LegendreBasis(bending_y=3, bending_z=3), joints.Prismatic([0.0, 1.0, 1.0])
    builder.add_rod("finger", "ball", 0.4, Circular(0.02, 0.01), rubber, thin, joint=slide, points=4)
    body("plate", "ball", joints.Planar([0.0, 1.0, 0.3]))
    flat, curved, where = LegendreBasis(1, 2, 0, 0, 0, 0), [0.3, 0.0, 1.0, 1.0, 0.0, 0.0], _placement(rng)
    section = Rectangular(0.02, 0.01)
    builder.add_rod("fin", "plate", 0.4, section, rubber, flat, placement=where, points=3, reference=curved)
    return builder


# ------------------------------------------------------------------------------------------------ complex steps
@driver
def _drive(first, last, work, m, external, level, states, directions, wrenches, tau, A):
    """Slopes of tau and of the blocks A along every direction (K, 4 n) from states (4 n) and wrenches (6 W)."""
    ws = work.reshape(work.shape[0] // 2, 2, LANES)
    n, K = m.numbers[0], directions.shape[0]
    x, w = carve(ws, 4 * n)
    y, w = carve(w, wrenches.size)
    forces, w = carve(w, n)
    blocks, w = carve(w, BLOCKS * n * n)
    for c in range(first, last):
        for i in range(wrenches.size):
            y[i, 0, :], y[i, 1, :] = wrenches[i], 0.0
        for i in range(4 * n):
            for k in range(LANES):
                x[i, 0, k], x[i, 1, k] = states[i], STEP * directions[min(c * LANES + k, K - 1), i]
        evaluation.inverse_dynamics_kernel(m, external, level, x, y, w, forces, blocks)
        for k in range(min(LANES, K - c * LANES)):
            for i in range(n):
                tau[c * LANES + k, i] = forces[i, 1, k] / STEP
            for i in range(A.shape[1]):
                A[c * LANES + k, i] = blocks[i, 1, k] / STEP


def slopes(model, level, states, wrenches=()):
    """Derivatives of tau (n, 4 n), and of dtau/dq, dtau/dv and M (3, n, n, 4 n), along states = [q, v, a, w]."""
    n = model.nq
    tau, A = np.zeros((4 * n, n)), np.zeros((4 * n, 3 * n * n))
    numbers = 2 * evaluation.driver_numbers(model)
    points = np.ravel(states), np.eye(4 * n), np.asarray(wrenches, float).ravel()
    launch(_drive, 4 * n, numbers, model.arrays, model.external, level, *points, tau, A)
    return tau.T, np.moveaxis(A.reshape(4 * n, 3, n, n), 0, -1)
