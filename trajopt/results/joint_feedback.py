"""Stiffness and damping of joints, added to the gains of a plan for contacts that may slip.

    u = us + (K - P) dx,      P = E^+ (kp S_q + kd S_v)

S_q and S_v select the positions and the velocities of the driven joints from a tangent dx, and E^+ converts torques of
joints into the controls that exert them best, by least squares (`trajopt.capabilities.Joints`).  So joints are
pulled towards their planned angles by -kp dq - kd dv, in the form of another K.

Gains of a plan with contacts assume that the contacts hold: they may push joints *away* from the plan wherever held
feet forbid the motion.  When a foot slips nothing forbids it.  The stiffness that the plan's own gains give its joints,
the symmetric part of - E K S_q', then is indefinite.  The default lifts its least eigenvalue lambda over all knots in
contact above zero as far as each joint can bear it,

    kp_j = min(-1.2 lambda, 0.137 m_j/tau^2),      kd_j = min(max(-1.2 delta, 1.28 sqrt(kp_j m_j)), 0.474 m_j/tau)  (1)

with delta the least eigenvalue for the velocities, m_j the least inertia of the joint at the knots with nothing held
(`trajopt.capabilities.Joints.joint_inertias`), and tau the delay between a measurement and the torque made of it, or
the time between two controls if that is longer.

The bounds are those of a joint alone, m q'' = -kp q(t - tau) - kd q'(t - tau).  It is on the limit of stability where a
root is i w: with y = w tau,

    kp tau^2/m = y^2 cos y,      kd tau/m = y sin y

The largest stiffness on this curve is where tan y = 2/y, y = 1.077: kp = 0.549 m/tau^2, with kd = 0.948 m/tau.  (1)
has these for twice the delay, so that a joint bears twice the delay that is stated.  At the bound its damping ratio is
0.64, which is that of all others.  Joints of a limb are lighter together than alone: m_j accounts for it, since springs
w^2 m_j at all of them oscillate at w at most.

The plan's own gains are added to that, and bodies that nothing drives are balanced by moving joints away from the plan,
which stiffness forbids.  So a law is checked before it is returned, in the closed loop with twice the delay
(`trajopt.results.late_feedback`): standing at the end must decay at half the rate of the gains alone at least, and the
last second must not become unstable.  Where (1) fails, its bounds are lowered, to a quarter at last, which is tried
with the delay that is stated, too; if that fails nothing is added, with a warning.  Of given numbers a warning says if
they make the loop with the delay unstable.

The last tenth of a plan does not count for lambda and delta, unless standing still follows it: gains there depend on
the end and grow stiffer from knot to knot.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dynamics.simd.caller import warn
from dynamics.validation import as_number_or_vector
from trajopt.capabilities import Contacts, Joints, capability
from trajopt.interfaces.system import System
from trajopt.results.late_feedback import Growth, LateLoop
from trajopt.results.records import AnySolution, Hold, SolutionData

AUTO = "auto"
MARGIN = 1.2
"""Ratio of the stiffness of the default to the negative one of the gains: the least eigenvalue is lifted beyond zero;
gaits of `experiments.mujoco_gaits` stand with it."""
STIFFEST = 0.137
"""Largest kp tau^2/m: that of a joint alone which is stable up to a delay of `BEARS` tau."""
DAMPING_RATIO = 0.64
"""Damping ratio of a joint alone, with its stiffness and its own inertia, where damping is not given: that with which
the largest stiffness bears the longest delay."""
DAMPED = 2.0 * DAMPING_RATIO * STIFFEST**0.5
"""Largest kd tau/m: that of the largest stiffness."""
BEARS = 2.0
"""Ratio of the delay that the default bears to the one that is stated."""
TRIED = *((BEARS, share) for share in (1.0, 0.7, 0.5, 0.35, 0.25)), (1.0, 0.25)
"""Ratios of the delay in the closed loop to the one that is stated, and shares of the default's bounds, in the order in
which they are tried."""
AS_GIVEN = ((1.0, 1.0),)
"""The same for given numbers."""
ENDING = 0.1
"""Fraction of a plan, at its end, whose gains depend on the end and do not count."""
PERIOD = 1e-3
"""Time between two controls of a policy, s, where nothing says it."""
LATE = 2e-3
"""Seconds by which a control acts later than one period after its measurement, where no delay is given."""


def with_joint_feedback(
    solution: AnySolution, stiffness: Any, damping: Any, standing: Hold | None, delay: float, period: float
) -> tuple[AnySolution, Hold | None]:
    """The solution with stiffness and damping of joints added to its gains, and standing still at the end, if it is
    given, with the same added; for controls that are made every `period` seconds and act `delay` seconds late.

    Raises TypeError for a system without joints that controls drive, ValueError for values that are no numbers,
    negative or of the wrong length.  Warns (RuntimeWarning) if nothing is added by default since it would upset the
    plan, and if given numbers do.
    """
    for name, value in (("joint_stiffness", stiffness), ("joint_damping", damping)):
        if isinstance(value, str) and value != AUTO:
            raise ValueError(f"{name}: got {value!r}, expected None, a number, one number a driven joint, or {AUTO!r}")
    system = solution.problem.system
    known = _driven_joints(system, "joint_stiffness" if stiffness is not None else "joint_damping")
    lasting = np.diff(solution.times) > 0.0
    counted = solution.K[_counted(solution, ENDING if standing is None else 0.0)]
    if standing is not None:
        counted = np.concatenate([counted, standing.K[None]])
    added = _Added(known, solution, stiffness, damping, counted, max(delay, period))

    def sum_of(P: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        K = solution.K.copy()
        K[lasting] -= P
        return K, None if standing is None else standing.K - P

    P = added.gain()
    K, at_rest = sum_of(P)
    if P.any() and counted.any():
        times = 0.0
        for tried, share in TRIED if added.chosen else AS_GIVEN:
            if tried != times:
                times, loop = tried, LateLoop(solution, standing, tried * delay, period)
                alone = loop.growth(solution.K, None if standing is None else standing.K)
            K, at_rest = sum_of(added.gain(share))
            found = loop.growth(K, at_rest)
            if found.keeps(alone):
                break
        else:
            _complain(added, found, alone, delay)
            if added.chosen:
                K, at_rest = sum_of(np.zeros_like(P))
    return replace(solution, K=K), None if standing is None or at_rest is None else standing._replace(K=at_rest)


def _complain(added: _Added, found: Growth, alone: Growth, delay: float) -> None:
    """Warn of stiffness and damping that upset the plan."""
    late = f"with controls {1e3 * delay:.3g} ms late"
    if added.chosen:
        why = found.in_words() if not found.stable else "standing decays less than half as fast as with the gains alone"
        said = f"got {AUTO!r} for a plan that joint stiffness upsets ({late} {why}); none was added"
        warn(f"joint_stiffness, joint_damping: {said}", RuntimeWarning)
    elif not found.stable:
        gains = "" if alone.stable else f"; with the gains alone {alone.in_words()}"
        warn(
            f"joint_stiffness, joint_damping: got numbers with which, {late}, {found.in_words()}{gains}; expected "
            f"smaller ones, {AUTO!r}, or the delay that the robot has (delay=)",
            RuntimeWarning,
        )


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


class _Added:
    """Stiffness and damping of J joints, by default for gains K (M, nu, ndx) and a delay.

    chosen: True if one of them is the default's.
    """

    def __init__(
        self, known: Joints, solution: SolutionData, stiffness: Any, damping: Any, K: np.ndarray, delay: float
    ) -> None:
        self.positions, self.velocities, self.efforts = known.joint_feedback
        assert known.joint_inertias is not None
        m, J = known.joint_inertias(solution.xs).min(axis=0), len(self.positions)
        default_damping = isinstance(damping, str) or (damping is None and isinstance(stiffness, str))
        self.chosen, self.shape = isinstance(stiffness, str) or default_damping, K.shape[1:]
        self.own, self.m = 0.0, m
        if isinstance(stiffness, str):
            self.kp = np.full(J, MARGIN * max(0.0, -_least(self.efforts, K, self.positions)))
        else:
            self.kp = np.zeros(J) if stiffness is None else _numbers("joint_stiffness", stiffness, J)
        self.kd = None if damping is None or isinstance(damping, str) else _numbers("joint_damping", damping, J)
        if default_damping:
            self.own = MARGIN * max(0.0, -_least(self.efforts, K, self.velocities))
        self.stiffest = STIFFEST * m / delay**2 if isinstance(stiffness, str) else np.full(J, np.inf)
        self.damped = DAMPED * m / delay

    def gain(self, share: float = 1.0) -> np.ndarray:
        """The additional gain P (nu, ndx) with this share of the bounds on the stiffness, and the root of it of those
        on the damping."""
        kp, kd = np.minimum(self.kp, share * self.stiffest), self.kd
        if kd is None:
            kd = np.maximum(self.own, 2.0 * DAMPING_RATIO * np.sqrt(kp * self.m))
            kd = np.minimum(kd, share**0.5 * self.damped)
        P, back = np.zeros(self.shape), np.linalg.pinv(self.efforts)
        P[:, self.positions], P[:, self.velocities] = back * kp, back * kd
        return P


def _numbers(name: str, value: Any, joints: int) -> np.ndarray:
    """Numbers (J,), one for each joint; ValueError if one is negative."""
    numbers = np.full(joints, 1.0) * as_number_or_vector(name, value, joints)
    if (numbers < 0.0).any():
        raise ValueError(f"{name}: got {float(numbers.min())}, expected no negative number")
    return numbers
