"""The inertia of a moving body: sums of links, and tests whether it is physical and a joint can move it."""

from typing import NamedTuple, Self

import numpy as np

from dynamics.model.joints import Joint

TOLERANCE = 1e-6  # relative to the largest entry: published, rounded inertias pass
SINGULAR = 1e-12  # scaled inertia along the dofs of a leaf: anything below is rounding of zero


class BodyInertia(NamedTuple):
    """Mass, first moment m c and rotational inertia about the origin, all in one frame."""

    mass: float
    first_moment: np.ndarray  # (3,)
    about_origin: np.ndarray  # (3, 3)

    @classmethod
    def zero(cls) -> Self:
        """Zero inertia."""
        return cls(0.0, np.zeros(3), np.zeros((3, 3)))

    @classmethod
    def of_link(cls, mass: float, com: np.ndarray, about_com: np.ndarray) -> Self:
        """Inertia from the centre of mass and the inertia about it, by the parallel axis theorem."""
        return cls(mass, mass * com, about_com + mass * _parallel_axis(com))

    def plus(self, other: "BodyInertia") -> "BodyInertia":
        """Sum of both inertias, which are in the same frame."""
        return BodyInertia(
            self.mass + other.mass, self.first_moment + other.first_moment, self.about_origin + other.about_origin
        )

    def placed(self, R: np.ndarray, p: np.ndarray) -> "BodyInertia":
        """The same inertia in a frame in which the present one is placed at (R, p)."""
        return self.of_link(self.mass, R @ self.com() + p, R @ self.about_com() @ R.T)

    def is_finite(self) -> bool:
        """True if all its numbers are finite."""
        return all(np.isfinite(part).all() for part in self)

    def com(self) -> np.ndarray:
        """Centre of mass (3,); the origin without mass."""
        return np.zeros(3) if self.mass == 0.0 else self.first_moment / self.mass

    def about_com(self) -> np.ndarray:
        """Rotational inertia (3, 3) about the centre of mass; rounding errors of the subtraction are set to zero."""
        if self.mass == 0.0:
            return self.about_origin
        central = self.about_origin - self.mass * _parallel_axis(self.first_moment / self.mass)
        rounding = 1e-14 * np.abs(self.about_origin).max()
        return np.where(np.abs(central) > rounding, central, 0.0)


def inertia_defect(mass: float, about_com: np.ndarray) -> str | None:
    """Reason why no rigid body has this mass and symmetric inertia (3, 3) about its centre of mass; None if one may.

    The principal moments must not be negative, and none may exceed the sum of the other two, within a relative 1e-6.
    """
    scale = np.abs(about_com).max()
    if scale == 0.0:
        return None
    if mass == 0.0:
        return "got a nonzero inertia with zero mass, expected zero inertia or a positive mass"
    moments = np.linalg.eigvalsh(about_com / scale)  # ascending
    shown = ", ".join(f"{moment:.6g}" for moment in moments)
    if moments[0] < -TOLERANCE:
        return f"got principal moments {shown} times {scale:.6g} kg m^2, expected none negative"
    if moments[2] > moments[0] + moments[1] + TOLERANCE:
        return (
            f"got principal moments {shown} times {scale:.6g} kg m^2, "
            "expected the largest not to exceed the sum of the other two (triangle inequality)"
        )
    return None


def nearest_physical(inertia: BodyInertia) -> BodyInertia:
    """The nearest inertia that a rigid body of this mass and centre of mass can have.             [Wensing et al. 2018]

    About the centre of mass, I = tr(S) 1 - S with the second moments of mass S = int x x' dm, which are positive
    semidefinite.  The nearest S in the Frobenius norm has the negative eigenvalues of S set to zero: of three principal
    moments, the largest stays where it exceeds the sum of the other two, and these grow equally.  Zero without mass.
    """
    if inertia.mass == 0.0:
        return BodyInertia.zero()
    scale = np.abs(inertia.about_com()).max() or 1.0
    about_com = inertia.about_com() / scale
    moments, axes = np.linalg.eigh(0.5 * np.trace(about_com) * np.eye(3) - about_com)
    second = scale * axes * np.maximum(moments, 0.0) @ axes.T
    return BodyInertia.of_link(inertia.mass, inertia.com(), np.trace(second) * np.eye(3) - second)


def leaf_defect(joint: Joint, inertia: BodyInertia, armature: np.ndarray) -> str | None:
    """Reason why a body without moving children cannot be moved by its joint; None if it can.

    It must have mass or inertia, and the inertia along the joint, S' I S + diag(armature), positive definite; else the
    mass matrix of the robot is singular everywhere.
    """
    if inertia.mass == 0.0 and not inertia.about_origin.any():
        return "mass: got zero mass on a moving body that carries no other moving body, expected a positive mass"
    along = _inertia_along(joint, inertia) + np.diag(armature)
    reference = np.where(joint.motion_subspace()[1], np.trace(inertia.about_origin), inertia.mass) + armature
    diagonal = np.diag(along)
    movable = (diagonal > SINGULAR * reference).all()
    if movable:
        scale = 1.0 / np.sqrt(diagonal)
        movable = np.linalg.eigvalsh(along * scale * scale[:, np.newaxis])[0] > SINGULAR
    if movable:
        return None
    return (
        f"inertia: got none along some motion of its {joint.type_name} joint, on a moving body that carries no other "
        "moving body, expected a rotational inertia or an offset centre of mass there, or a positive armature"
    )


def _inertia_along(joint: Joint, inertia: BodyInertia) -> np.ndarray:
    """Inertia (nv, nv) of the body, its parent at rest, along the motions of its joint."""
    axes, angular = joint.motion_subspace()
    linear_part = np.where(angular[:, np.newaxis], 0.0, axes)
    angular_part = axes - linear_part
    coupling = linear_part @ np.cross(angular_part, inertia.first_moment).T  # of v . (w x m c)
    return (
        inertia.mass * linear_part @ linear_part.T
        + coupling
        + coupling.T
        + angular_part @ inertia.about_origin @ angular_part.T
    )


def _parallel_axis(com: np.ndarray) -> np.ndarray:
    """Inertia (3, 3) about the origin of a unit mass at `com`."""
    return com @ com * np.eye(3) - np.outer(com, com)
