"""Steps of soft robots on complex lanes."""

from typing import NamedTuple

import numpy as np

from dynamics.rods.model.arrays import FIRST
from dynamics.rods.stepping.soft_expansions import SoftExpansion, expand_kernel
from dynamics.rods.stepping.soft_steps import INTEGRATORS, StepScratch, slice_stage, step_kernel
from dynamics.rods.stepping.soft_system import SoftRobotSystem
from dynamics.simd import LANES, aligned_zeros, kernel
from dynamics.simd.lane_blocks import lanes, part, size_of, slicing
from tests.reference.rod_robots import STEP


class Both(NamedTuple):
    """Scratch of a step and of its expansion."""

    expansion: SoftExpansion = part(SoftExpansion)
    step: np.ndarray = lanes(size_of(StepScratch))


slice_both, both_size = slicing(Both)


@kernel
def _step_and_expansion(m, e, integrator, h, z, work, x_next, F, H):
    level, nx = np.int64(FIRST), x_next.shape[0]
    x, u = z[:nx], z[nx:]
    (p, step), _ = slice_both(m, e, work)
    s = slice_stage(m, e, step)
    step_kernel(m, e, integrator, h, x, u, s, x_next)
    expand_kernel(m, e, integrator, h, level, x, u, x, s, p, F, H)


def complex_step_derivatives(system: SoftRobotSystem, x, u) -> tuple[np.ndarray, np.ndarray]:
    """Derivatives along z = (x, u) of x+ (2 n, nz), and of F = dx+/dz, (2 n, nz, nz), by complex steps."""
    nx, nz = system.nx, system.nx + system.nu
    plant = system.model.arrays, system.robot.arrays, INTEGRATORS.index(system.integrator), system.dt
    numbers = nz, both_size(*plant[:2]), nx, nx * nz, nz * nz
    z, work, x_next, F, H = (aligned_zeros(count, 2, LANES) for count in numbers)
    dx, dF = np.empty((nx, nz)), np.empty((nx, nz, nz))
    for first in range(0, nz, LANES):
        columns = np.arange(first, min(first + LANES, nz))
        z[:] = 0.0
        z[:, 0] = np.concatenate([x, u])[:, None]
        z[columns, 1, columns - first] = STEP
        _step_and_expansion(*plant, z, work, x_next, F, H)
        dx[:, columns] = x_next[:, 1, : len(columns)] / STEP
        dF[..., columns] = F.reshape(nx, nz, 2, LANES)[:, :, 1, : len(columns)] / STEP
    return dx, dF
