"""Stiffness and damping of joints, added to the gains of a plan for contacts that may slip.

    u = us + (K - P) dx,      P = E^+ (kp S_q + kd S_v)

S_q and S_v select the positions and the velocities of the driven joints from a tangent dx, and E^+ converts torques of
joints into the controls that exert them best, by least squares (`trajopt.capabilities.Joints`).  So joints are
pulled towards their planned angles by -kp dq - kd dv, in the form of another K.

Gains of a plan with contacts assume that the contacts hold: they may push joints *away* from the plan wherever held
feet forbid the motion.  When a foot slips nothing forbids it.  The stiffness that the plan's own gains give its joints,
the symmetric part of - E K S_q', then is indefinite, and the default lifts the least eigenvalue lambda above zero,

    kp = -1.2 lambda,      kd = max(-1.2 delta, 2 zeta sqrt(kp m)),      kd <= m / (2 T),

over all knots in contact: delta is the least eigenvalue for the velocities, m the inertia of each joint with nothing
held, which bounds the damping at sampling intervals T.  The last tenth of a plan does not count, unless standing still
follows it: gains there depend on the end and grow stiffer from knot to knot.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dynamics.validation import as_number_or_vector
from trajopt.capabilities import Contacts, Joints, capability
from trajopt.interfaces.system import System
from trajopt.results.records import AnySolution, SolutionData

AUTO = "auto"
MARGIN = 1.2
"""Ratio of the stiffness of the default to the negative one of the gains: the least eigenvalue is lifted beyond zero;
gaits of `experiments.mujoco_gaits` stand with it."""
DAMPING_RATIO = 0.5
"""Damping ratio of a joint alone, with its stiffness and its own inertia, where damping is not given."""
ENDING = 0.1
"""Fraction of a plan, at its end, whose gains depend on the end and do not count."""
PERIOD = 1e-3
"""Sampling interval of a controller, s, for which the damping of the default is stable."""


def with_joint_feedback(
    solution: AnySolution, stiffness: Any, damping: Any, standing: np.ndarray | None = None
) -> tuple[AnySolution, np.ndarray | None]:
    """The solution with stiffness and damping of joints added to its gains, and the gain (nu, ndx) of standing still at
    the end, if it is given, with the same added.

    Raises TypeError for a system without joints that controls drive, ValueError for values that are no numbers,
    negative or of the wrong length.
    """
    if stiffness is None and damping is None:
        return solution, standing
    for name, value in (("joint_stiffness", stiffness), ("joint_damping", damping)):
        if isinstance(value, str) and value != AUTO:
            raise ValueError(f"{name}: got {value!r}, expected None, a number, one number a driven joint, or {AUTO!r}")
    system = solution.problem.system
    known = _driven_joints(system, "joint_stiffness" if stiffness is not None else "joint_damping")
    lasting = np.diff(solution.times) > 0.0
    K = solution.K.copy()
    counted = K[_counted(solution)] if standing is None else np.stack([*K[_counted(solution, 0.0)], standing])
    P = _feedback(known, solution, stiffness, damping, counted)
    K[lasting] -= P
    return replace(solution, K=K), None if standing is None else standing - P


def _driven_joints(system: System, argument: str) -> Joints:
    """The system's joint feedback; TypeError naming the argument for a system without driven joints."""
    known = capability(system, Joints)
    if not len(known.joint_feedback[0]):
        raise TypeError(
            f"{argument}: got one for a {type(system).__name__}, which has no joints that controls drive; expected "
            "None, or a robot with such joints (trajopt.capabilities.Joints)"
        )
    return known


def least_stiffness(solution: SolutionData) -> float:
    """Least stiffness, N m/rad or N/m, that the gains of a plan give its joints in any direction, over the knots that
    the default counts: negative where joints are pushed away from the plan if contacts yield; zero for a system without
    driven joints."""
    positions, _, efforts = capability(solution.problem.system, Joints).joint_feedback
    if not len(positions):
        return 0.0
    return _least(efforts, solution.K[_counted(solution)], positions)


def in_contact(solution: SolutionData) -> np.ndarray:
    """True for the knots (N,) at which forces act on contacts."""
    contact_forces = capability(solution.problem.system, Contacts).contact_forces
    if contact_forces is None:
        return np.zeros(len(solution.us), dtype=bool)
    return np.abs(contact_forces(solution.xs, solution.us)).max(axis=(1, 2), initial=0.0) > 0.0


def _counted(solution: SolutionData, ending: float = ENDING) -> np.ndarray:
    """True for the knots (N,) that the default counts: those in contact, of plans without contacts all that take time,
    except this fraction of the plan at its end, unless none is left."""
    held, lasting, times = in_contact(solution), np.diff(solution.times) > 0.0, solution.times
    held = held if held.any() else lasting
    early = held & (times[:-1] < (1.0 - ending) * times[-1])
    return early if early.any() else held


def _least(efforts: np.ndarray, K: np.ndarray, columns: np.ndarray) -> float:
    """Least eigenvalue of the symmetric parts of the joint stiffness that gains K (M, nu, ndx) cause."""
    block = -(efforts @ K[:, :, columns])
    return float(np.linalg.eigvalsh(0.5 * (block + block.swapaxes(1, 2))).min())


def _feedback(known: Joints, solution: SolutionData, stiffness: Any, damping: Any, K: np.ndarray) -> np.ndarray:
    """The additional gain P (nu, ndx), by default for these gains K (M, nu, ndx)."""
    positions, velocities, efforts = known.joint_feedback
    J, own = len(positions), 0.0
    assert known.joint_inertias is not None
    inertias = known.joint_inertias(solution.xs).min(axis=0)
    if isinstance(stiffness, str):
        kp = np.full(J, MARGIN * max(0.0, -_least(efforts, K, positions)))
    else:
        kp = np.zeros(J) if stiffness is None else _numbers("joint_stiffness", stiffness, J)
    if damping is None or isinstance(damping, str):
        if isinstance(stiffness, str) or isinstance(damping, str):
            own = MARGIN * max(0.0, -_least(efforts, K, velocities))
        kd = np.maximum(own, 2.0 * DAMPING_RATIO * np.sqrt(kp * inertias))
        kd = np.minimum(kd, 0.5 * inertias / PERIOD)
    else:
        kd = _numbers("joint_damping", damping, J)
    P, back = np.zeros((K.shape[1], K.shape[2])), np.linalg.pinv(efforts)
    P[:, positions], P[:, velocities] = back * kp, back * kd
    return P


def _numbers(name: str, value: Any, joints: int) -> np.ndarray:
    """Numbers (J,), one for each joint; ValueError if one is negative."""
    numbers = np.full(joints, 1.0) * as_number_or_vector(name, value, joints)
    if (numbers < 0.0).any():
        raise ValueError(f"{name}: got {float(numbers.min())}, expected no negative number")
    return numbers
