"""Steps of soft robots on complex lanes."""

import numpy as np

from dynamics.rods.model.arrays import FIRST
from dynamics.rods.stepping.soft_expansions import expand_kernel, expansion_size, slice_expansion
from dynamics.rods.stepping.soft_steps import INTEGRATORS, motion_size, slice_motion, step_kernel
from dynamics.rods.stepping.soft_system import SoftRobotSystem
from dynamics.simd import LANES, aligned_zeros, kernel
from tests.reference.rod_robots import STEP


@kernel
def _step_and_expansion(m, e, integrator, h, z, work, x_next, F, H):
    level, nx = np.int64(FIRST), x_next.shape[0]
    x, u = z[:nx], z[nx:]
    p, w = slice_expansion(m, e, work)
    d = slice_motion(m, e, w)
    step_kernel(m, e, integrator, h, x, u, d, x_next)
    expand_kernel(m, e, integrator, h, level, x, u, x, d, p, F, H)


def complex_step_derivatives(system: SoftRobotSystem, x, u) -> tuple[np.ndarray, np.ndarray]:
    """Derivatives along z = (x, u) of x+ (2 n, nz), and of F = dx+/dz, (2 n, nz, nz), by complex steps."""
    nx, nz = system.nx, system.nx + system.nu
    plant = system.model.arrays, system.robot.arrays, INTEGRATORS.index(system.integrator), system.dt
    scratch = expansion_size(system.model, system.nu) + motion_size(system.model, system.robot.arrays)
    numbers = nz, scratch, nx, nx * nz, nz * nz
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
