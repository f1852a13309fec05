"""A soft robot with inputs, in the form of `dynamics.rods.stepping.simulation.simulate`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from numpy.typing import ArrayLike

from dynamics.rods.robot.soft_robot import SoftRobot


@dataclass(frozen=True)
class RodExample:
    """A soft robot with its inputs.

    Attributes
    ----------
    name : str
    robot : SoftRobot
    controls : function of t [s] that returns u (nu,), N and N m
    wrenches : function of t that returns (W, 6), [moment; force] of the external loads that take one; or None
    prescribed : mapping of a link to a function of t that returns angle, rate and acceleration of its joint; or None
    title : title in tables and figures
    """

    name: str
    robot: SoftRobot
    controls: Callable[[float], ArrayLike]
    wrenches: Callable[[float], ArrayLike] | None
    prescribed: Mapping[str, Callable[[float], tuple[float, float, float]]] | None
    title: str
