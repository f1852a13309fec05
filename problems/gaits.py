"""Common parts of the gaits of legged robots: a plan of steps (`dynamics.Gait`) with costs and limits.

A plan is a list of phases, each a share of the time and the legs that are in the air meanwhile.  Legs that come down
do so in an impact, a knot without duration, and then stand on their footholds (contacts with Baumgarte gains).

Costs: the posture of the start, the centre of mass along its path, torques, feet in the air along an arch, and at a
touch-down, counted once, the feet's distances from their footholds and their speeds.  At the end, the posture of the
start at rest where the steps lead.  Limits: the motors' torques, and contact forces within the friction cone of the
ground, which can only push; wrenches of soles within the cone in which they do not tilt either.

Steps are those of semi-implicit Euler, as is usual with contacts.  A gait needs feedback: with their gains the motions
end within 0.5 mm of the planned place, with the torques alone a walk falls.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

import dynamics
import trajopt
from dynamics.gait import smooth
from problems.walker import FRICTION, Walker

Plan = Sequence[tuple[float, tuple[str, ...]]]
"""Phases: share of the time, legs in the air."""


class Weights(NamedTuple):
    """Weights of a gait's costs."""

    posture: float  # orientation of the base and angles of joints
    speed: float
    center: tuple[float, float, float]  # the centre of mass along its path
    torque: float | np.ndarray
    swing: float  # feet in the air along their arches
    foothold: float  # positions of feet at touch-down
    landing: float  # speeds of feet at touch-down
    end: float  # the last state


DEFAULT = Weights(
    posture=1.0, speed=1e-2, center=(1e2, 1e2, 1e2), torque=1e-1, swing=1e3, foothold=1e5, landing=1e-1, end=1e3
)  # fmt: skip


def knots_of(plan: Plan, horizon: int) -> list[int]:
    """Knots of every phase, which fill the horizon with one impact after every phase that ends in a touch-down.

    Raises ValueError if the horizon is too short for a knot in each phase.
    """
    flow = horizon - sum(bool(set(now) - set(after)) for (_, now), (_, after) in pairwise(plan))
    if flow < len(plan):
        raise ValueError(f"horizon: got {horizon}, expected at least {horizon - flow + len(plan)} for this gait")
    shares = np.cumsum([share for share, _ in plan])
    spare = np.round((flow - len(plan)) * shares / shares[-1]).astype(int)
    return (1 + np.diff(spare, prepend=0)).tolist()


class Gait:
    """A plan laid out in knots (`dynamics.Gait`), and the costs and limits that follow from it.

    Parameters
    ----------
    walker : Walker
        Plans name its feet, or the legs of feet that are called "<leg>_foot".
    plan : Plan
    stride : (3,), m, by which every leg that has been in the air is moved
    height : height of the feet's arches, m
    horizon, dt : knots, and their seconds
    weights : Weights
    """

    def __init__(
        self,
        walker: Walker,
        plan: Plan,
        stride: ArrayLike,
        height: float,
        horizon: int,
        dt: float,
        weights: Weights,
    ) -> None:
        self.walker, self.weights, self.model = walker, weights, walker.model
        shift = sum(len(legs) for _, legs in plan) / len(walker.feet) * np.array(stride, float)
        steps = [
            (knots, [leg if leg in walker.feet else f"{leg}_foot" for leg in legs])
            for knots, (_, legs) in zip(knots_of(plan, horizon), plan, strict=True)
        ]
        self.plan = walker.gait(
            steps, stride, height, dt, base=lambda times: np.outer(smooth(times / times[-1]), shift)
        )
        self.system, self.start, self.moving = self.plan.system, self.plan.start, self.plan.moving
        self.lists: list[list[trajopt.Cost]] = [[] for _ in range(self.system.horizon)]

    def _at(self, knots, cost: trajopt.Cost) -> None:
        for t in knots:
            self.lists[t].append(cost)

    def _add_way(self) -> None:
        """Add costs of posture, torques, and the centre of mass along its path."""
        w, nv = self.weights, self.model.nv
        posture = np.r_[np.zeros(3), np.full(nv - 3, w.posture), np.full(nv, w.speed)]
        self._at(self.moving, trajopt.StateCost(self.system, self.start, posture))
        self._at(self.moving, trajopt.ControlCost(w.torque))
        center = dynamics.center_of_mass(self.model, self.walker.standing) + self.plan.base_shift[self.moving]
        residual = dynamics.CenterOfMass(self.model, np.zeros(3))
        self._at(self.moving, trajopt.ResidualCost(residual, w.center, reference=center))

    def _add_swing(self, foot: str, start: int, stop: int, path: np.ndarray) -> None:
        """Add costs of a foot along its path over knots start ... stop - 1 to the next foothold, where an impact
        follows."""
        place = dynamics.FrameTranslation(self.model, foot, np.zeros(3))
        self._at(range(start, stop), trajopt.ResidualCost(place, self.weights.swing, reference=path[:-1]))
        self._at([stop], trajopt.ResidualCost(place, self.weights.foothold, reference=path[-1]))
        landing = np.repeat([self.weights.landing, 0.0 if self.walker.sole is None else self.weights.landing], 3)
        self._at([stop], trajopt.ResidualCost(dynamics.FrameVelocity(self.model, foot), landing))
        if self.walker.sole is not None:
            level = dynamics.FrameRotation(self.model, foot, np.eye(3))
            self._at(range(start, stop), trajopt.ResidualCost(level, self.weights.swing))
            self._at([stop], trajopt.ResidualCost(level, self.weights.foothold))

    def _cones(self) -> list[trajopt.ResidualConstraint]:
        """Friction cones: one constraint for each set of feet, at the knots where it holds."""
        inner = {} if self.walker.sole is None else {"inner": True}
        return [
            trajopt.ResidualConstraint(cone, cone.lower, cone.upper, at=knots, name=name)
            for cone, knots, name in self.plan.friction_cones(FRICTION, **inner)
        ]

    def problem(self, name: str) -> trajopt.Problem:
        """The problem of that name."""
        for swing in self.plan.swings:
            self._add_swing(*swing)
        self._add_way()
        end = trajopt.StateCost(self.system, self.plan.end, self.weights.end)
        return trajopt.Problem(
            self.system, self.start, self.system.horizon, running_costs=self.lists, terminal_costs=[end],
            constraints=[trajopt.ControlBounds.from_model(self.system), *self._cones()], us_init="quasi_static",
            xs_init=self.plan.states(), name=name,
        )  # fmt: skip
