"""A robot on legs, for problems: where it stands, on which feet, and how the ground holds these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

import dynamics

FRICTION = 0.6
"""Coefficient of friction of the ground."""


class Walker(NamedTuple):
    """A robot with a floating base that stands on points or on level soles."""

    model: dynamics.RigidBodyModel
    standing: np.ndarray  # (nq,)
    feet: tuple[str, ...]  # frames
    sole: tuple[float, float] | None = None  # half lengths, m; None for feet that are points

    def footholds(self) -> dict[str, np.ndarray]:
        """Where feet are while it stands."""
        return {foot: dynamics.frame_placement(self.model, self.standing, foot).p for foot in self.feet}

    def stance(self, dt: float) -> dynamics.RigidBodySystem:
        """The robot on all its feet where it stands."""
        return self.gait([(1, ())], (0.0, 0.0, 0.0), 0.0, dt).system.segments[0].system

    def gait(
        self, plan: Sequence, stride: ArrayLike, height: float, dt: float, base: Callable | None = None
    ) -> dynamics.Gait:
        """A plan of steps from there, as `dynamics.Gait` takes it."""
        return dynamics.Gait(self.model, self.standing, self.feet, plan, stride, height, dt, self.sole, base=base)
