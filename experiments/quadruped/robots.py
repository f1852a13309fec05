"""Robots of example-robot-data in this library."""

import warnings
from typing import Any

import dynamics


def floating(robot: Any) -> dynamics.RigidBodyModel:
    """Our model of a robot of example-robot-data on a floating base.

    Some of their massless bases and feet have inertias that no body has; these are used as given, in both libraries.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="no body can have the inertia given", category=UserWarning)
        return dynamics.load_urdf(robot.urdf, floating_base=True)
