"""Wrench cones: how far a flat rectangular foot is from sliding, tilting and turning on the ground.

A foot of half lengths X, Y along the x and y axes of its frame touches the ground with the four corners of its sole.
Forces at these, each within its friction pyramid |f_x|, |f_y| <= mu f_z, add up to a force f and a moment
m_c = m - c x f about the centre c of the sole if and only if, with a, b = +-1,

    mu f_z -+ f_x >= 0        mu f_z -+ f_y >= 0                                           it does not slide
    Y f_z -+ m_x >= 0         X f_z -+ m_y >= 0                                            it does not tilt
    mu (X + Y) f_z - a Y f_x - b X f_y +- (a mu m_x + b mu m_y + m_z) >= 0                 it does not turn

so that f_z >= 0.  The centre of pressure, (-m_y, m_x)/f_z, is on the sole by the second line.     [Caron et al. 2015]
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from dynamics.residuals.contact_residual import (
    FORCES,
    ContactResidual,
    ForceMap,
    Frames,
    feet_of,
    in_axes_of_frames,
    moment_blocks,
    normal_limits,
)
from dynamics.validation import as_array, as_flag, as_positive

if TYPE_CHECKING:
    from dynamics.residuals.contact_residual import InContact


class _Sole(ContactResidual):
    """Rows A [f; m_c] of rigid feet, axes of their frames, the limits of each in `lower` and `upper`."""

    half_lengths: np.ndarray
    center: np.ndarray
    lower: np.ndarray
    upper: np.ndarray

    def _stand(self, system: InContact, contact: np.ndarray, A: np.ndarray, center: ArrayLike) -> None:
        """A (S, rows, 6)."""
        center = _per_foot("center", center, 3, len(contact))
        x, y, z = center.T
        zero = np.zeros_like(x)
        minus_cross = np.array([[zero, z, -y], [-z, zero, x], [y, -x, zero]]).transpose(2, 0, 1)
        A = np.concatenate([A[:, :, :3] + A[:, :, 3:] @ minus_cross, A[:, :, 3:]], axis=2)
        blocks = np.stack([contact, moment_blocks(system.contacts, contact)], axis=1)
        forces = ForceMap(blocks, A, np.zeros(A.shape[:2]), np.zeros(3), 0.0)
        self._set(center=center)
        self._prepare(system, contact, in_axes_of_frames(system, True), forces)


class WrenchCone(_Sole):
    """Rows that are not negative while rigid feet on rectangular soles neither slide nor tilt nor turn; N and N m.

    Per foot the 16 rows of the equations above, in their order, each -+ first with minus, (a, b) = (1, 1), (1, -1),
    (-1, 1), (-1, -1), and then f_z if that has limits.  They stay inside as
    ``trajopt.ResidualConstraint(cone, cone.lower, cone.upper)``, or softly as
    ``trajopt.ResidualCost(cone, weight, trajopt.QuadraticBarrier(cone.lower, cone.upper))``.

    Parameters
    ----------
    system : RigidBodySystem or Impact, with `RigidContact`s, whose frames have z out of the ground
    mu : coefficient of friction, positive
    half_lengths : (2,) or (S, 2), m, positive: X, Y of the sole along the frame's axes, of all feet or of each
    frames : None (all rigid contacts, in the system's order), the name of a frame so held, or a list of them
    center : (3,) or (S, 3), m, of the sole, from the frame's origin along its axes
    inner : whether the corners' pyramids are those inside the friction cones, with mu/sqrt(2) for mu
    min_normal_force, max_normal_force : limits of f_z, N; None for none but those of the other rows

    Attributes
    ----------
    lower, upper : (nr,), limits of the rows
    half_lengths, center : (S, 2) and (S, 3)

    Raises
    ------
    ValueError : a system without contacts, a frame unknown (with the nearest matches), not in contact, held at a point
        or named twice, and a number or array out of its range or of a wrong shape; limits in the wrong order.
    TypeError : a system of another kind.

    Notes
    -----
    nr = 16 S, or 17 S.  Of forces it depends on the controls, so it has no value at the terminal knot.
    """

    kernels = FORCES
    mu: float

    def __init__(
        self,
        system: InContact,
        mu: float,
        half_lengths: ArrayLike,
        frames: Frames = None,
        center: ArrayLike = (0.0, 0.0, 0.0),
        inner: bool = False,
        min_normal_force: float | None = None,
        max_normal_force: float | None = None,
    ) -> None:
        contact, mu = feet_of(system, frames), as_positive("mu", mu)
        S, friction = len(contact), mu / np.sqrt(2.0) if as_flag("inner", inner) else mu
        half_lengths = _half_lengths(half_lengths, S)
        A = np.concatenate([_sliding(friction, S), _pressing(half_lengths), _turning(friction, half_lengths)], axis=1)
        lower, upper = np.zeros((S, A.shape[1])), np.full((S, A.shape[1]), np.inf)
        if min_normal_force is not None or max_normal_force is not None:
            least, most = normal_limits(min_normal_force, max_normal_force)
            A = np.concatenate([A, np.broadcast_to(np.eye(6)[2], (S, 1, 6))], axis=1)
            lower, upper = np.insert(lower, 16, least, axis=1), np.insert(upper, 16, most, axis=1)
        super().__init__(system.model, "wrench cones")
        self._set(mu=mu, half_lengths=half_lengths, lower=lower.ravel(), upper=upper.ravel())
        self._stand(system, contact, A, center)


class CenterOfPressure(_Sole):
    """Rows Y f_z -+ m_x and X f_z -+ m_y of rigid feet, not negative while their centres of pressure are on the soles.

    They are moments, N m, about the sole's edges, and so have values where nothing presses, where the centre of
    pressure, (-m_y, m_x)/f_z, has none.  Of a smaller sole they keep that far from the edges.  Limits and the other
    parameters are those of `WrenchCone`, of whose rows they are four.

    Parameters
    ----------
    system : RigidBodySystem or Impact, with `RigidContact`s, whose frames have z out of the ground
    half_lengths : (2,) or (S, 2), m, positive
    frames : None (all rigid contacts, in the system's order), the name of a frame so held, or a list of them
    center : (3,) or (S, 3), m

    Attributes
    ----------
    lower, upper : (nr,), limits of the rows, zero and infinity
    half_lengths, center : (S, 2) and (S, 3)

    Raises
    ------
    ValueError, TypeError : as `WrenchCone`.

    Notes
    -----
    nr = 4 S.  Of forces it depends on the controls, so it has no value at the terminal knot.
    """

    kernels = FORCES

    def __init__(
        self,
        system: InContact,
        half_lengths: ArrayLike,
        frames: Frames = None,
        center: ArrayLike = (0.0, 0.0, 0.0),
    ) -> None:
        contact = feet_of(system, frames)
        half_lengths = _half_lengths(half_lengths, len(contact))
        A = _pressing(half_lengths)
        super().__init__(system.model, "centres of pressure")
        rows = A.shape[0] * A.shape[1]
        self._set(half_lengths=half_lengths, lower=np.zeros(rows), upper=np.full(rows, np.inf))
        self._stand(system, contact, A, center)


def _per_foot(name: str, value: ArrayLike, length: int, S: int) -> np.ndarray:
    array = as_array(name, value)
    if array.shape not in ((length,), (S, length)):
        raise ValueError(f"{name}: got shape {array.shape}, expected ({length},) or ({S}, {length})")
    return np.array(np.broadcast_to(array, (S, length)))


def _half_lengths(value: ArrayLike, S: int) -> np.ndarray:
    lengths = _per_foot("half_lengths", value, 2, S)
    if (lengths <= 0.0).any():
        raise ValueError(f"half_lengths: got {lengths.min()}, expected positive numbers")
    return lengths


# ------------------------------------------------------------------------------------------------ rows (S, rows, 6)
def _sliding(mu: float, S: int) -> np.ndarray:
    rows = [(-1, 0, mu, 0, 0, 0), (1, 0, mu, 0, 0, 0), (0, -1, mu, 0, 0, 0), (0, 1, mu, 0, 0, 0)]
    return np.tile(np.array(rows, dtype=float), (S, 1, 1))


def _pressing(half_lengths: np.ndarray) -> np.ndarray:
    rows = [[(0, 0, Y, -1, 0, 0), (0, 0, Y, 1, 0, 0), (0, 0, X, 0, -1, 0), (0, 0, X, 0, 1, 0)] for X, Y in half_lengths]
    return np.array(rows, dtype=float)


def _turning(mu: float, half_lengths: np.ndarray) -> np.ndarray:
    rows = [
        [
            (-a * Y, -b * X, mu * (X + Y), s * a * mu, s * b * mu, s)
            for a, b in product((1, -1), repeat=2)
            for s in (-1, 1)
        ]
        for X, Y in half_lengths
    ]
    return np.array(rows, dtype=float)
