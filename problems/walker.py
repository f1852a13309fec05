"""A legged robot for problems: its standing configuration, its feet, and their contacts with the ground."""

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
        """Positions (3,) of the feet in the standing configuration."""
        return {foot: dynamics.frame_placement(self.model, self.standing, foot).p for foot in self.feet}

    def stance(self, dt: float) -> dynamics.RigidBodySystem:
        """The robot with all its feet in contact at their footholds."""
        return self.gait([(1, ())], (0.0, 0.0, 0.0), 0.0, dt).system.segments[0].system

    def gait(
        self, plan: Sequence, stride: ArrayLike, height: float, dt: float, base: Callable | None = None
    ) -> dynamics.Gait:
        """A plan of steps from the standing configuration, in the form of `dynamics.Gait`."""
        return dynamics.Gait(self.model, self.standing, self.feet, plan, stride, height, dt, self.sole, base=base)
