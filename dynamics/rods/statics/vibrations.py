"""Natural frequencies and shapes of small motions of a soft robot about a shape at rest.

K phi = omega^2 M phi,    K = dr/dq,  phi along changes that keep the chains closed: phi = Z y, Z of A's null space
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigh

from dynamics.printed import in_brief
from dynamics.rods.robot.soft_robot import SoftRobot
from dynamics.rods.statics.equilibrium import is_symmetric, load_path
from dynamics.validation import as_array, as_items, as_kind, as_whole_number, look_up


class VibrationModes(NamedTuple):
    """Vibration modes of a robot, the slowest first, unstable ones before all others.

    Attributes
    ----------
    frequencies : (C,) omega / (2 pi), Hz; negative where omega^2 is: motions along the mode grow at the rate |omega|
    shapes : (C, n) phi, with phi'M phi = 1; zero along prescribed coordinates
    decay_rates : (C,) phi'D phi / 2, 1/s, D = dr/dv: the amplitude of a mode that damping does not couple to others
        decays as exp(- rate t)
    """

    frequencies: np.ndarray
    shapes: np.ndarray
    decay_rates: np.ndarray

    def __repr__(self) -> str:
        return in_brief(self, modes=len(self.frequencies), lowest=self.frequencies[:3])


def vibration_modes(
    robot: SoftRobot,
    q: ArrayLike,
    u: ArrayLike | None = None,
    count: int | None = None,
    wrenches: ArrayLike | None = None,
    prescribed: tuple[str, ...] = (),
) -> VibrationModes:
    """Undamped modes of small motions about an equilibrium.

    Parameters
    ----------
    robot : SoftRobot
    q : (n,) coordinates at rest, for example of `static_equilibrium`, with the chains closed
    u, wrenches : (nu,), (W, 6), which keep it at rest; by default zero
    count : number of modes at most; by default all
    prescribed : names of links whose joints are fixed

    Returns
    -------
    VibrationModes(frequencies, shapes, decay_rates)

    Raises
    ------
    ValueError : a wrong shape, a number that is not finite, an unknown link, a joint that moves no mass.
    NotImplementedError : loads without an energy, such as followers, whose stiffness is not symmetric.
    """
    model, q = as_kind("robot", robot, SoftRobot).model, as_array("q", q, (robot.nq,))
    names = [
        (f"prescribed[{k}]: link with a joint", x) for k, x in enumerate(as_items("prescribed", prescribed, "names"))
    ]
    held = {name: q[look_up(label, name, model.joint_coordinates)] for label, name in names}
    count = robot.nq if count is None else as_whole_number("count", count, 1)
    path, _ = load_path(robot, np.zeros(robot.nu) if u is None else u, wrenches, q, held)
    t, free = path.tangent(q, 1.0), path.held.free
    Z = path.scales[free, None] * t.null_space()
    K = t.stiffness()
    if not is_symmetric(K):
        raise NotImplementedError("modes under loads without an energy, whose stiffness is not symmetric")
    zero = np.zeros(robot.nq)
    rates = robot.residual_derivatives(q, zero, zero, path.inputs(1.0)[: robot.nu], wrenches, t.multipliers)
    M, D = (Z.T @ part[np.ix_(free, free)] @ Z for part in (rates.M, rates.dr_dv))
    C = min(count, len(K))
    if C == 0:
        return VibrationModes(np.zeros(0), np.zeros((0, robot.nq)), np.zeros(0))
    try:
        squares, y = eigh(0.5 * (K + K.T), 0.5 * (M + M.T), subset_by_index=(0, C - 1))
    except np.linalg.LinAlgError:
        raise ValueError(
            "robot: a joint moves no mass here, expected a mass matrix that is positive definite"
        ) from None
    shapes = np.zeros((C, robot.nq))
    shapes[:, free] = (Z @ y).T
    frequencies = np.sign(squares) * np.sqrt(np.abs(squares)) / (2.0 * np.pi)
    return VibrationModes(frequencies, shapes, 0.5 * np.einsum("ik,ij,jk->k", y, D, y))
