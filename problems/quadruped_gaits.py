"""What the gaits of the quadruped share: a plan of steps becomes phases, reference paths, costs and limits.

A plan is a list of phases, each a share of the time and the legs that are in the air meanwhile.  Legs that come down
do so in an impact, a knot without duration; every foot stands still in between (contacts with Baumgarte gains).

Costs: the posture of the start, the centre of mass along its way, torques, and feet in the air along an arch.  At the
end, the posture of the start at rest where the steps lead.  Limits: the motors' torques; contact forces within the
friction cone of the ground, which can only push; feet come down on their footholds.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

import dynamics
import trajopt
from problems.quadruped_model import FEET, quadruped, standing

FRICTION = 0.6
"""Coefficient of friction of the ground."""
GAINS = (0.0, 50.0)
"""Of the contacts, 1/s^2 and 1/s."""
Plan = Sequence[tuple[float, tuple[str, ...]]]
"""Phases: share of the time, legs in the air."""


class Weights(NamedTuple):
    """Weights of a gait's costs."""

    posture: float  # angles of base and joints
    speed: float
    center: tuple[float, float, float]  # the centre of mass along its way
    torque: float
    swing: float  # feet in the air along their arches
    landing: float  # speed of feet at touch-down
    end: float  # the last state


DEFAULT = Weights(
    posture=1.0, speed=1e-2, center=(1e2, 1e2, 1e2), torque=1e-1, swing=1e3, landing=1e-1, end=1e3
)  # fmt: skip


def knots_of(plan: Plan, horizon: int) -> list[int]:
    """Knots of every phase, which fill the horizon with one impact after every phase that ends in a touch-down.

    Raises ValueError if the horizon is too short for a knot in each phase.
    """
    flow = horizon - sum(bool(set(now) - set(after)) for (_, now), (_, after) in pairwise(plan))
    if flow < len(plan):
        raise ValueError(f"horizon is {horizon}; expected at least {horizon - flow + len(plan)} for this gait")
    shares = np.cumsum([share for share, _ in plan])
    spare = np.round((flow - len(plan)) * shares / shares[-1]).astype(int)
    return (1 + np.diff(spare, prepend=0)).tolist()


def smooth(s: np.ndarray) -> np.ndarray:
    """From 0 to 1 with no speed at the ends."""
    return s * s * (3.0 - 2.0 * s)


class Gait:
    """A plan laid out in knots, and the costs and limits that follow from it.

    Parameters
    ----------
    plan : Plan
    stride : (3,), m, by which every leg that has been in the air is moved
    height : of the feet's arches, m
    horizon, dt : knots, and their seconds
    weights : Weights
    """

    def __init__(self, plan: Plan, stride, height: float, horizon: int, dt: float, weights: Weights):
        counts = knots_of(plan, horizon)
        phases = [
            ("+".join(legs) or "stance", [foot for foot in FEET if foot[:2] not in legs], count)
            for (_, legs), count in zip(plan, counts, strict=True)
        ]
        self.model, self.weights, self.stride, self.height = quadruped(), weights, np.array(stride, float), height
        self.system = dynamics.HybridSystem(self.model, dt, phases, gains=GAINS)
        self.times = np.r_[0.0, np.cumsum(self.system.durations)]
        self.start = self.system.state(standing())
        self.lists: list[list[trajopt.Cost]] = [[] for _ in range(self.system.horizon)]
        self.constraints: list = [trajopt.ControlBounds(-self.model.effort_limit[6:], self.model.effort_limit[6:])]
        self.flow = np.flatnonzero(self.system.durations)

    def _at(self, knots, cost: trajopt.Cost) -> None:
        for t in knots:
            self.lists[t].append(cost)

    def _add_way(self, steps: float) -> None:
        """Posture, torques, and the centre of mass along its way, by as many strides as a leg takes on average."""
        w, nv = self.weights, self.model.nv
        posture = np.r_[np.zeros(3), np.full(nv - 3, w.posture), np.full(nv, w.speed)]
        self._at(self.flow, trajopt.StateCost(self.system, self.start, posture))
        self._at(self.flow, trajopt.ControlCost(w.torque))
        center = dynamics.center_of_mass(self.model, standing())
        way = center + smooth(self.times[self.flow] / self.times[-1])[:, None] * (steps * self.stride)
        residual = dynamics.CenterOfMass(self.model, np.zeros(3))
        self._at(self.flow, trajopt.ResidualCost(residual, w.center, reference=way))

    def _add_swing(self, foot: str, hold: np.ndarray, start: int, stop: int) -> None:
        """From the foothold `hold` over knots start ... stop - 1 to the next one, where an impact follows."""
        knots = np.arange(start, stop)
        s = (self.times[knots] - self.times[start]) / (self.times[stop] - self.times[start])
        arch = hold + np.outer(smooth(s), self.stride) + np.outer(np.sin(np.pi * s) ** 2, [0.0, 0.0, self.height])
        place = dynamics.FrameTranslation(self.model, foot, np.zeros(3))
        self._at(knots, trajopt.ResidualCost(place, self.weights.swing, reference=arch))
        landing = np.repeat([self.weights.landing, 0.0], 3)
        self._at([stop], trajopt.ResidualCost(dynamics.FrameVelocity(self.model, foot), landing))
        down = trajopt.ResidualConstraint(
            place, hold + self.stride, hold + self.stride, at=[stop], name=f"{foot} comes down"
        )
        self.constraints.append(down)

    def _add_cones(self) -> None:
        """Friction cones: one constraint for each set of feet, at the knots where it holds."""
        segments = [s for s in self.system.segments if self.system.durations[s.start] > 0 and s.system.contact_frames]
        for system in {id(s.system): s.system for s in segments}.values():
            knots = np.concatenate([np.arange(s.start, s.stop) for s in segments if s.system is system])
            cone = dynamics.FrictionCone(system, FRICTION, facets=None)
            name = f"friction of {', '.join(system.contact_frames)}"
            limits = trajopt.ResidualConstraint(cone, cone.lower, cone.upper, at=knots, name=name)
            self.constraints.append(limits)

    def problem(self, name: str) -> trajopt.Problem:
        """The problem of that name."""
        model, q0, holds = self.model, standing(), {}
        for foot in FEET:
            holds[foot] = dynamics.frame_placement(model, q0, foot).p
        for segment in self.system.segments:
            if self.system.durations[segment.start] > 0:
                for foot in set(FEET) - set(segment.system.contact_frames):
                    self._add_swing(foot, holds[foot], segment.start, segment.stop)
                    holds[foot] = holds[foot] + self.stride
        steps = np.mean([holds[foot] - dynamics.frame_placement(model, q0, foot).p for foot in FEET], axis=0)
        self._add_way(float(steps @ self.stride / (self.stride @ self.stride)))
        self._add_cones()
        goal = self.system.state(np.r_[q0[:3] + steps, q0[3:]])
        end = trajopt.StateCost(self.system, goal, self.weights.end)
        return trajopt.Problem(
            self.system, self.start, self.system.horizon, running_costs=self.lists, terminal_costs=[end],
            constraints=self.constraints, us_init="quasi_static", name=name,
        )  # fmt: skip
