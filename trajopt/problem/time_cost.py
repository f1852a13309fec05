"""The cost of time."""

import numpy as np

from trajopt.interfaces.system import System
from trajopt.problem.free_duration import FreeDurationSystem
from trajopt.problem.stretched_cost import StretchedCost
from trajopt.validation import float_array


class TimeCost(StretchedCost):
    """The time that a trajectory takes, times a weight: a running cost.

    Parameters
    ----------
    system : FreeDurationSystem
    weight : number, 1/s, not negative
    """

    def __init__(self, system: FreeDurationSystem, weight: float = 1.0) -> None:
        if not isinstance(system, FreeDurationSystem):
            raise TypeError(f"system: got {type(system).__name__}, wanted a trajopt.FreeDurationSystem")
        self.weight = float(float_array("weight", weight, ()))
        if self.weight < 0.0:
            raise ValueError(f"weight: got {self.weight}, wanted a number that is not negative")
        super().__init__(system, _Constant(self.weight))
        self.name = "time"


class _Constant:
    """The cost of a unit of time."""

    def __init__(self, weight: float) -> None:
        self.weight = weight

    def check(self, system: System, terminal: bool) -> None:
        if terminal:
            raise ValueError("terminal_costs: got a TimeCost, wanted costs of the state")

    def value(self, xs, us):
        return np.full(len(xs), self.weight)

    def accumulate(self, xs, us, scale, target):
        pass

    accumulate_curvature = accumulate
