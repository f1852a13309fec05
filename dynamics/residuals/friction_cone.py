"""Friction cones: how far contact forces are from sliding, and from letting go.

With n the normal and f_t the part of the force f along the plane, a foot does not slide while |f_t| <= mu n.f.

    linearised       mu n.f - t_i.f                       t_i at the angles 2 pi i/facets in the plane
    second order     mu n.f - sqrt(|f_t|^2 + delta^2)     smooth at f_t = 0, and inside of the cone

The linearised cone is a pyramid around the cone, whose edges let tangential forces of up to mu n.f / cos(pi/facets)
pass; with mu cos(pi/facets) for mu it is the one inside.                        [Trinkle et al. 1997; Lobo et al. 1998]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from dynamics.residuals.contact_residual import (
    FORCES,
    ContactResidual,
    ForceMap,
    Frames,
    contacts_of,
    in_axes_of_frames,
    normal_limits,
)
from dynamics.validation import as_array, as_flag, as_positive

if TYPE_CHECKING:
    from dynamics.residuals.contact_residual import InContact

SMOOTHING, SMOOTHING_OF_IMPULSES = 1e-3, 1e-5
"""N, and N s: what a force of the first lasts for in 10 ms."""
ALONG = 1e-6
"""Sine of the angle to the x axis below which a normal counts as along it."""


class FrictionCone(ContactResidual):
    """Rows that are not negative while forces, or impulses, keep to their friction cones; N or N s, world axes.

    Per contact `facets` rows mu n.f - t_i.f, or one row mu n.f - sqrt(|f_t|^2 + smoothing^2), and then a row n.f.  They
    stay inside as ``trajopt.ResidualConstraint(cone, cone.lower, cone.upper)``, or softly as
    ``trajopt.ResidualCost(cone, weight, trajopt.QuadraticBarrier(cone.lower, cone.upper))``.

    Parameters
    ----------
    system : RigidBodySystem, with contacts, or Impact
        At an impact f are the impulses on all frames that it holds, those that stood before it too.
    mu : coefficient of friction, positive
    frames : None (all contacts, in the system's order), the name of a frame in contact, or a list of them
    normal : (3,), of any length but zero, world axes: out of the ground
    facets : an even number of at least 4 for a linearised cone, None for the second-order one
        t_0 is the x axis along the plane, or the y axis where the normal is along x.
    min_normal_force, max_normal_force : limits of n.f, N or N s; zero and none by default
    inner : whether the linearised cone is the one inside, with mu cos(pi/facets) for mu
    smoothing : delta of the second-order cone, N or N s, positive; None for 1e-3 N, of impulses 1e-5 N s
        It takes less than delta of the tangential force at the cone's surface, and makes n.f of delta/mu the least.

    Attributes
    ----------
    lower, upper : (nr,), limits of the rows
    normal : (3,), unit vector

    Raises
    ------
    ValueError : a system without contacts, a frame unknown (with the nearest matches), not in contact or named twice,
        and a number or vector out of its range or of a wrong shape; limits of the normal force in the wrong order.
    TypeError : a system of another kind.

    Notes
    -----
    nr = S (facets + 1), or 2 S.  Of forces it depends on the controls, so it has no value at the terminal knot; of
    impulses it depends on the state before the impact alone.
    """

    kernels = FORCES
    mu: float
    facets: int | None
    normal: np.ndarray
    lower: np.ndarray
    upper: np.ndarray

    def __init__(
        self,
        system: InContact,
        mu: float,
        frames: Frames = None,
        normal: ArrayLike = (0.0, 0.0, 1.0),
        facets: int | None = 4,
        min_normal_force: float | None = None,
        inner: bool = False,
        smoothing: float | None = None,
        max_normal_force: float | None = None,
    ) -> None:
        contact = contacts_of(system, frames)
        mu, normal = as_positive("mu", mu), _unit("normal", normal)
        _check_facets(facets, as_flag("inner", inner))
        least, most = normal_limits(min_normal_force, max_normal_force)
        if facets is None:
            if smoothing is None:
                smoothing = SMOOTHING if system.restitution is None else SMOOTHING_OF_IMPULSES
            smoothing, A = as_positive("smoothing", smoothing), np.array([mu * normal, normal])
        else:
            smoothing = 0.0
            A = np.vstack([(mu * np.cos(np.pi / facets) if inner else mu) * normal - _tangents(normal, facets), normal])
        S, rows = len(contact), len(A)
        super().__init__(system.model, "friction cones")
        self._set(mu=mu, facets=facets, normal=normal, upper=np.tile(np.r_[np.full(rows - 1, np.inf), most], S))
        self._set(lower=np.tile(np.r_[np.zeros(rows - 1), least], S))
        forces = ForceMap(contact[:, None], np.tile(A, (S, 1, 1)), np.zeros((S, rows)), normal.copy(), smoothing)
        self._prepare(system, contact, in_axes_of_frames(system, False), forces)


def _unit(name: str, value: ArrayLike) -> np.ndarray:
    vector = as_array(name, value, (3,))
    length = np.linalg.norm(vector)
    if length == 0.0:
        raise ValueError(f"{name}: got zeros, expected a vector of any length but zero")
    return vector / length


def _check_facets(facets: int | None, inner: bool) -> None:
    if facets is None:
        if inner:
            raise ValueError("inner: got True with facets=None, expected a number of facets: the cone has one side")
        return
    if isinstance(facets, bool) or not isinstance(facets, (int, np.integer)) or facets < 4 or facets % 2:
        raise ValueError(f"facets: got {facets!r}, expected an even number of at least 4, or None")


def _tangents(normal: np.ndarray, facets: int) -> np.ndarray:
    """t_i (facets, 3)."""
    x = np.eye(3)[0 if np.linalg.norm(normal[1:]) > ALONG else 1]
    first = _unit("normal", x - (x @ normal) * normal)
    angle = 2.0 * np.pi * np.arange(facets)[:, None] / facets
    return np.cos(angle) * first + np.sin(angle) * np.cross(normal, first)
