"""A plan for other programs: comma-separated values, and the message that ROS 2 takes for joint trajectories.

The message is a plain dict in the form of trajectory_msgs/msg/JointTrajectory; nothing of ROS is needed.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trajopt.capabilities import Coordinates, SingleJoints, StateNames, capability
from trajopt.interfaces.system import System, control_names, tangent_names
from trajopt.results.policy import planned_problem
from trajopt.results.resampled import resample
from trajopt.results.results_files import write_atomically
from trajopt.validation import did_you_mean

if TYPE_CHECKING:
    from trajopt.results.solution import Solution

NANO = 1_000_000_000


def write_csv(solution: Solution, path: str | os.PathLike, dt: float | None = None) -> Path:
    """Write a plan as comma-separated values: a line of names, then time, state and control of each time.

    Parameters
    ----------
    solution : Solution
        With its problem, and with a trajectory.
    path : where to; folders are made as needed
        The file appears complete or not at all.
    dt : float, optional
        Seconds between the lines, as `Solution.resample` has them; by default one for each knot, the states before and
        after an impact both, at the same time.

    Returns
    -------
    path : Path

    Raises
    ------
    TypeError, ValueError
        Naming the argument.
    """
    system = planned_problem(solution).system
    if dt is None:
        times = solution.times
        states, controls = solution.xs, np.concatenate([solution.us, solution.us[-1:]])
    else:
        plan = resample(solution, dt)
        times, states, controls = plan.times, plan.xs, plan.us
    driven = control_names(system) or [f"u[{i}]" for i in range(system.nu)]
    text = StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(["time", *_names_of_states(system), *(f"{name} control" for name in driven)])
    lines.writerows(np.column_stack([times, states, controls]).tolist())
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text.getvalue().encode("utf-8", "replace"))  # halves of surrogate pairs are question marks
    return path


def _names_of_states(system: System) -> list[str]:
    """Names of the numbers of a state: of what they are where the system knows, else their places."""
    tangent, known = list(tangent_names(system)), capability(system, StateNames)
    if tangent and system.nx == system.ndx:
        return tangent
    if known is not None:
        return list(known.state_names)
    return [f"x[{i}]" for i in range(system.nx)]


def trajectory_message(
    solution: Solution, dt: float | None = None, joints: Sequence[str] | None = None
) -> dict[str, Any]:
    """A plan as a dict in the form of ROS 2's trajectory_msgs/msg/JointTrajectory.

    Parameters
    ----------
    solution : Solution
        With its problem, and with a trajectory.
    dt : float, optional
        Seconds between the points, as `Solution.resample` has them; by default the plan's.
    joints : sequence of str, optional
        Which joints, in this order; by default all that have one degree of freedom.

    Returns
    -------
    message : dict
        header (stamp of zero, no frame), joint_names, and points: positions, velocities, accelerations (empty if the
        system has none), effort, the joints' own of the planned control, and time_from_start.  Numbers are floats and
        ints of Python.

    Raises
    ------
    TypeError
        If the system has no joints, or joints is no sequence of names.
    ValueError
        If there is no joint of one degree of freedom, or not the one asked for; as `Solution.resample`.
    """
    system = planned_problem(solution).system
    known = capability(system, SingleJoints)
    if known is None:
        raise TypeError(f"system: {type(system).__name__} has no joints, wanted a robot")
    every = known.single_joints
    names = _chosen(every, joints)
    plan = resample(solution, system.dt if dt is None else dt)
    q, v = (np.array([every[name][i] for name in names]) for i in (0, 1))
    columns = {
        "positions": plan.xs[:, q].tolist(),
        "velocities": plan.xs[:, v].tolist(),
        "accelerations": [[]] * len(plan.times),
        "effort": known.joint_efforts(plan.us)[:, [list(every).index(name) for name in names]].tolist(),
        "time_from_start": [_stamp(t) for t in plan.times],
    }
    coordinates = capability(system, Coordinates)
    if coordinates is not None and plan.accelerations is not None:
        columns["accelerations"] = plan.accelerations[:, v - coordinates.nq].tolist()
    points = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return {"header": {"stamp": _stamp(0.0), "frame_id": ""}, "joint_names": names, "points": points}


def _chosen(every: dict[str, tuple[int, int]], joints: Sequence[str] | None) -> list[str]:
    if not every:
        raise ValueError("system: got a robot without a joint of one degree of freedom, wanted at least one")
    if joints is None:
        return list(every)
    if not isinstance(joints, (list, tuple)) or not all(isinstance(name, str) for name in joints):
        raise TypeError(f"joints: got {joints!r}, wanted a list of names")
    if not joints or len(set(joints)) < len(joints):
        raise ValueError(f"joints: got {list(joints)}, wanted at least one, each once")
    for name in joints:
        if name not in every:
            wanted = f"wanted some of {', '.join(map(repr, every))}, which have one degree of freedom"
            raise ValueError(f"joints: got {name!r}, {wanted}{did_you_mean(name, every)}")
    return list(joints)


def _stamp(seconds: float) -> dict[str, int]:
    whole, nano = divmod(round(seconds * NANO), NANO)
    return {"sec": whole, "nanosec": nano}
