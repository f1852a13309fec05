"""A robot on legs, for problems: where it stands, what holds its feet, how its legs bend for feet to be somewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

import dynamics

FRICTION = 0.6
"""Coefficient of friction of the ground."""
GAINS = 1.0, 1.0
"""Of the contacts, over 1/dt^2 and 1/dt: to first order, a step takes back what the last one drifted."""
NEWTON_STEPS = 8


class Walker(NamedTuple):
    """A robot with a floating base, whose legs are its first limbs and stand on points or on level soles."""

    model: dynamics.RigidBodyModel
    standing: np.ndarray  # (nq,)
    feet: tuple[str, ...]  # frames, in the order of the legs
    joints: int  # of one leg: three, or six with soles
    sole: tuple[float, float] | None = None  # half lengths, m; None for feet that are points

    def leg(self, foot: str) -> slice:
        """Degrees of freedom of the leg with this foot."""
        first = 6 + self.joints * self.feet.index(foot)
        return slice(first, first + self.joints)

    def footholds(self) -> dict[str, np.ndarray]:
        """Where feet are while it stands."""
        return {foot: dynamics.frame_placement(self.model, self.standing, foot).p for foot in self.feet}

    def contacts(
        self, footholds: Mapping[str, np.ndarray], feet: Iterable[str], dt: float
    ) -> list[dynamics.PointContact | dynamics.RigidContact]:
        """Contacts that hold these feet on their footholds, soles level."""
        gains = GAINS[0] / dt**2, GAINS[1] / dt
        if self.sole is None:
            return [dynamics.PointContact(self.model, foot, gains, footholds[foot]) for foot in feet]
        return [dynamics.RigidContact(self.model, foot, gains, (np.eye(3), footholds[foot])) for foot in feet]

    def cones(self, system: dynamics.RigidBodySystem) -> dynamics.FrictionCone | dynamics.WrenchCone:
        """Rows that keep feet where they are: not negative."""
        if self.sole is None:
            return dynamics.FrictionCone(system, FRICTION, facets=None)
        return dynamics.WrenchCone(system, FRICTION, self.sole, inner=True)

    def with_feet_at(self, q: np.ndarray, feet: Mapping[str, np.ndarray]) -> np.ndarray:
        """The configurations q (K, nq), legs bent for feet to be at these places (K, 3) or (3,): Newton's method."""
        for _ in range(NEWTON_STEPS):
            dq = np.zeros((len(q), self.model.nv))
            for foot, place in feet.items():
                leg = self.leg(foot)
                J = dynamics.frame_jacobian(self.model, q, foot)[:, : self.joints, leg]
                R, p = dynamics.frame_placement(self.model, q, foot)
                turn = 0.5 * (R.swapaxes(1, 2) - R)[:, [2, 0, 1], [1, 2, 0]]
                missing = np.hstack([place - p, turn])[:, : self.joints]
                dq[:, leg] = np.linalg.solve(J, missing[..., None])[..., 0]
            q = dynamics.integrate(self.model, q, dq)
        return q

    def states_along(self, q: np.ndarray, durations: np.ndarray) -> np.ndarray:
        """States (N+1, nx) along the configurations q (N+1, nq): at rest first, and after a knot without duration."""
        v, moving = np.zeros((len(q), self.model.nv)), np.flatnonzero(durations)
        v[1:][moving] = dynamics.difference(self.model, q[:-1], q[1:])[moving] / durations[moving, None]
        return np.hstack([q, v])
