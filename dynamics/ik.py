"""Inverse kinematics: a configuration at which frames are at their targets.

Coordinates y are one number per degree of freedom: angles, displacements, and of free and spherical joints the rotation
vector w from the start, R = R_0 exp(w).  With e the errors of frames from their targets, positions (m) and rotation
vectors (rad), and c the errors of constraints, gaps of loops, sums of coupled joints and violations of limits of
residuals, max(0, lower - r) and max(0, r - upper),

    1.   min  |e|^2 + W_1^2 |c|^2 + eps_1^2 |y - y_0|^2    lower <= y <= upper      from y_0, or a random start
    2.   min  |e|^2 + W_2^2 |c|^2 + eps_2^2 |y - y_1|^2    lower <= y <= upper      from the first's y_1, if e is small
    3.   min  |c|^2 + eps_2^2 |y - y_2|^2                  lower <= y <= upper      where targets are out of reach

are nonlinear least squares within bounds with exact Jacobians.  Targets of frames alone are sought by compiled damped
least squares from several starts at once (`dynamics.damped_least_squares`); where these do not arrive, and where there
are other rows, by a trust region [Branch, Coleman and Li 1999; scipy's `trf`].  Of all solutions, the small eps_1
chooses one close to y_0; the second, with a much smaller eps_2 about its own start, removes the small error that eps_1
causes, and the third closes the loops that targets out of reach have pulled open.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import least_squares
from scipy.spatial.transform import Rotation

from dynamics.algorithms.configuration import neutral, random_configuration
from dynamics.algorithms.frames import FRAME, frame_numbers
from dynamics.contacts.loop_constraint import LoopConstraint, loop_gap, pair_motion
from dynamics.damped_least_squares import POSITION, ROTATION, search
from dynamics.model.actuation import joint_row
from dynamics.model.joints import FREE_FLYER, PLANAR, REVOLUTE, SPHERICAL
from dynamics.model.model import RigidBodyModel, check_configuration, check_model
from dynamics.printed import in_brief
from dynamics.residuals.frame_rotation import FrameRotation
from dynamics.residuals.frame_translation import FrameTranslation
from dynamics.residuals.robot_residual import RobotResidual
from dynamics.validation import (
    as_array,
    as_flag,
    as_items,
    as_kind,
    as_name,
    as_placement,
    as_whole_number,
    unknown_name,
)

REACHED = 1e-6
"""Tolerance, m or rad, within which a frame counts as at its target and a constraint as satisfied."""
NEAR_START, NEAR_BEFORE = 1e-3, 1e-6
"""eps_1 and eps_2: weights of a joint's displacement, rad or m, relative to an error of a frame."""
HOLDING, HELD = 30.0, 1e4
"""Weights W_1 and W_2 of the constraints."""
SMALL = 3e-2
"""Norm of e after the first solve below which the second one follows."""
NEARER = 0.99
"""Fraction of the best error so far below which another start counts as better."""
LARGEST = 1e9
"""Largest entry of positions and of q0, m or rad, for squares that do not overflow."""
CERTAIN = 0.1
"""Fraction of `REACHED` within which a target is reached whatever the rounding."""
AT_ONCE = 8
"""Random starts of damped least squares at once, of which the nearest solution is taken."""
EVALUATIONS = 100
"""Most function evaluations of a solve."""


class Miss(NamedTuple):
    """Error of a target, a loop, a coupling or a limit: a distance, m or the row's unit, and an angle, rad."""

    distance: float
    angle: float = 0.0

    def __str__(self) -> str:
        sizes = {"m": self.distance, "rad": self.angle}
        return " and ".join(f"{size:.3g} {unit}" for unit, size in sizes.items() if size > REACHED)

    def __repr__(self) -> str:
        return f"Miss({self})"


@dataclass(frozen=True, eq=False, repr=False)
class InverseKinematics:
    """Result of `inverse_kinematics`.

    Attributes
    ----------
    q : (nq,), the configuration
    reached : True if no error exceeds 1e-6 m or rad
    missed : mapping of names to (distance, angle), m and rad: frames that are not at their targets, loops that are open
        ("frame1 - frame2"), couplings ("joint - joint") and rows of `avoid` ("shape - shape") that do not hold; empty
        where all is reached
    tries : number of tries, of which the first is from q0
    """

    q: np.ndarray
    reached: bool
    missed: dict[str, Miss]
    tries: int

    def __repr__(self) -> str:
        words = ", ".join(f"{name} by {miss}" for name, miss in self.missed.items())
        return in_brief(self, "tries", "q", reached=self.reached, **({"missed": words} if words else {}))


def inverse_kinematics(
    model: RigidBodyModel,
    targets: Mapping[str, ArrayLike | tuple],
    q0: ArrayLike | None = None,
    *,
    fixed: Iterable[str] = (),
    limits: bool = True,
    avoid: RobotResidual | Iterable[RobotResidual] | None = None,
    loops: Sequence[LoopConstraint] = (),
    tries: int = 20,
    rng: np.random.Generator | None = None,
) -> InverseKinematics:
    """A configuration at which frames are at their targets, within the limits of joints and near q0.

    Loops, couplings and mimic joints of the model are satisfied.  Where targets leave freedom, the configuration is
    close to q0, in the sum of squares of joint displacements, rad and m.  Where a start ends short of the targets,
    others are drawn; remaining errors are returned, not raised, and have the least sum of squares over all targets, m
    and rad, with loops and couplings closed.

    Parameters
    ----------
    model : RigidBodyModel
    targets : mapping of names of frames to targets in the world
        A target is a position (3,), m; or (R, p), a rotation (3, 3) and a position (3,); or (R, None), a rotation.
    q0 : (nq,), start, to which the result stays close; by default the neutral configuration, moved into the limits
    fixed : names of joints that stay as in q0, such as a floating base, which moves unless it is named here
    limits : True to keep joints within `lower_position` and `upper_position`; fixed joints stay where they are, and
        quaternions have no limits
    avoid : a residual of the robot's state, or several, with `lower` and `upper`, such as `Collisions`, whose rows are
        kept between these
    loops : `LoopConstraint` to be closed beside the model's own
    tries : most tries, the first from q0 and each other one from random configurations, eight at once where frames have
        targets and nothing else is asked for, otherwise one; free joints always start as in q0
    rng : numpy.random.Generator that draws the starts; by default the same ones in every call

    Returns
    -------
    InverseKinematics : q, reached, missed, tries; q is the best of all tries where none reaches the targets

    Raises
    ------
    ValueError : an unknown frame or joint, a wrong shape, a matrix that is no rotation, a quaternion that is not of
        unit length, limits that cross, entries of more than 1e9, residuals or loops of another model, no joint left to
        move.
    TypeError : targets that are no mapping, a residual without limits or with controls, an rng that is no generator.

    Examples
    --------
    >>> robot = dynamics.load_urdf(problems.model_path("arm6"))
    >>> found = dynamics.inverse_kinematics(robot, {"tool": [0.4, 0.5, 0.3]}, q0=[0.0, -1.2, 1.6, -1.9, -1.6, 0.0])
    >>> found.reached, dynamics.frame_placement(robot, found.q, "tool").p.round(6)
    (True, array([0.4, 0.5, 0.3]))
    >>> dynamics.inverse_kinematics(robot, {"tool": [0.4, 0.5, 3.0]}).missed["tool"].distance > 1.0
    True
    """
    check_model(model)
    rng = np.random.default_rng(0) if rng is None else rng
    as_kind("rng", rng, np.random.Generator, "a numpy.random.Generator")
    tries = as_whole_number("tries", tries, 1)
    places = _places(model, targets)
    held = _residuals(model, avoid)
    closed = _loops(model, loops)
    lower, upper = _limits(model, as_flag("limits", limits))
    if q0 is None:
        q = np.clip(neutral(model), lower, upper)
    else:
        q = _not_huge("q0", as_array("q0", q0, (model.nq,), copy=True))
        check_configuration(model, q, "q0")
    chart = _Chart(model, q, lower, upper, fixed)
    rows = _Rows(chart, places, held, closed)
    starts = _Starts(chart, rng)
    found = _damped(chart, rows, starts, tries)
    if found is not None:
        return found
    best, cost, count = chart.start, np.inf, 0
    for count in range(1, tries + 1):
        begin = starts[count - 1]
        y = rows.solve(begin, HOLDING, NEAR_START, chart.start)
        if np.linalg.norm(rows.of_targets(y)) < SMALL:
            y = rows.solve(y, HELD, NEAR_BEFORE, y)
        left = float(np.linalg.norm(np.concatenate([rows.of_targets(y), HOLDING * rows.of_the_rest(y)])))
        if left < NEARER * cost:
            best, cost = y, left
        if not rows.missed(best):
            break
    if rows.missed(best):
        best = rows.solve(best, HELD, NEAR_BEFORE, best)
        if rows.of_the_rest(best).size:
            best = rows.solve(best, 1.0, NEAR_BEFORE, best, targets=False)
    missed = rows.missed(best)
    return InverseKinematics(chart.configuration(best), not missed, missed, count)


class _Starts:
    """Starts y (nv,) by number: the chart's own, then random ones, which are drawn when they are first asked for."""

    def __init__(self, chart: _Chart, rng: np.random.Generator) -> None:
        self._chart, self._rng, self._drawn = chart, rng, [chart.start]

    def __getitem__(self, number: int) -> np.ndarray:
        while len(self._drawn) <= number:
            self._drawn.append(self._chart.drawn(self._rng))
        return self._drawn[number]


def _damped(chart: _Chart, rows: _Rows, starts: _Starts, tries: int) -> InverseKinematics | None:
    """What compiled damped least squares find from the first start, or else the nearest from the next `AT_ONCE`, and so
    on in each try; None where they do not reach the targets, or do not serve."""
    targets, moving = rows.frames(), chart.single_coordinates()
    if targets is None or moving is None or not chart.steady(rows.places):
        return None
    full, limits = chart.model.full, (chart.lower[chart.free], chart.upper[chart.free])
    own = chart.start[chart.free]
    for attempt in range(tries):
        numbers = range((attempt - 1) * AT_ONCE + 1, attempt * AT_ONCE + 1) if attempt else range(1)
        q = np.repeat(chart.whole_start[None], len(numbers), axis=0)
        q[:, moving[0]] = [starts[number][chart.free] for number in numbers]
        q, errors = search(full, targets, moving, limits, (NEAR_START, NEAR_BEFORE), SMALL, chart.whole_start, q)
        ends = q[:, moving[0]]
        reached = np.flatnonzero(errors < CERTAIN * REACHED)
        if reached.size:
            y = chart.start.copy()
            y[chart.free] = min(ends[reached], key=lambda z: float(np.square(z - own).sum()))
            return InverseKinematics(chart.configuration(y), True, {}, attempt + 1)
    return None


class _Chart:
    """Coordinates y (nv,) of configurations about q0 (nq,), and the subset z = y[free] that may move."""

    def __init__(
        self, model: RigidBodyModel, q0: np.ndarray, lower: np.ndarray, upper: np.ndarray, fixed: Iterable[str]
    ) -> None:
        self.model, self.q0 = model, q0
        self.turns: list[tuple[int, int]] = []  # offsets of quaternions in q, of rotation vectors in y
        self.planes: list[tuple[int, int]] = []  # offsets of planar joints in q and y
        self.bases: list[tuple[int, int]] = []  # offsets of positions of free joints in q and y
        self.angles: list[int] = []  # entries of y of revolute joints
        plain_q, plain_v = [], []  # entries of q that are entries of y
        for joint, i, k in zip(model.joints, model.q_index, model.v_index, strict=True):
            if joint.code == SPHERICAL:
                self.turns.append((i, k))
                continue
            if joint.code == FREE_FLYER:
                self.turns.append((i + 3, k + 3))
                self.bases.append((i, k))
            elif joint.code == PLANAR:
                self.planes.append((i, k))
            elif joint.code == REVOLUTE:
                self.angles.append(k)
            count = 3 if joint.code == FREE_FLYER else joint.nq
            plain_q += range(i, i + count)
            plain_v += range(k, k + count)
        self.plain_q, self.plain_v = np.array(plain_q, dtype=int), np.array(plain_v, dtype=int)
        y, self.lower, self.upper = self.coordinates(q0), np.full(model.nv, -np.inf), np.full(model.nv, np.inf)
        self.lower[self.plain_v], self.upper[self.plain_v] = lower[self.plain_q], upper[self.plain_q]
        free = np.ones(model.nv, dtype=bool)
        fixed = as_items("fixed", fixed, "names of joints")
        for name in fixed:
            if name not in model.joint_names:
                raise unknown_name("fixed", name, model.joint_names)
            i = model.joint_index(name)
            free[model.v_index[i] : model.v_index[i] + model.joint_nv[i]] = False
        self.start = np.where(free, np.clip(y, self.lower, self.upper), y)
        self.free = np.flatnonzero(free & (self.lower < self.upper))
        self._moving = set(self.free.tolist())
        if not self.free.size:
            if not free.any():
                raise ValueError(f"fixed: got {list(fixed)!r}, expected a joint that may move, got all of them")
            names = ", ".join(map(repr, (name for name in model.joint_names if name not in fixed)))
            raise ValueError(
                f"limits: got ranges of zero, lower_position = upper_position, for {names}, expected a joint that may "
                "move; limits=False leaves limits out of account"
            )

    @cached_property
    def whole_start(self) -> np.ndarray:
        """The start as a configuration of the model with mimic joints."""
        return np.array(self.model.full_configuration(self.configuration(self.start)))

    def single_coordinates(self) -> tuple[np.ndarray, np.ndarray] | None:
        """The entries of q and of v, of the model with mimic joints, of the coordinates that may move; None where one
        is no number of its own, as those of rotations."""
        model, full, q, v = self.model, self.model.full, [], []
        for name, joint, start in zip(model.joint_names, model.joints, model.v_index, strict=True):
            moves = [k for k in range(joint.nv) if start + k in self._moving]
            if moves and joint.code in (SPHERICAL, FREE_FLYER, PLANAR):
                return None
            i = full.joint_index(name)
            q += [full.q_index[i] + k for k in moves]
            v += [full.v_index[i] + k for k in moves]
        return np.array(q, dtype=np.int64), np.array(v, dtype=np.int64)

    def steady(self, frames: Iterable[str]) -> bool:
        """True if no frame is moved by a mimic joint."""
        full, followers = self.model.full, {mimic.joint for mimic in self.model.mimics}
        for frame in frames if followers else ():
            body = full.frames[frame].body
            while body >= 0:
                if full.joint_names[body] in followers:
                    return False
                body = full.arrays.parent[body]
        return True

    def coordinates(self, q: np.ndarray) -> np.ndarray:
        """Coordinates y of q (nq,); rotation vectors are at most pi long."""
        y = np.zeros(self.model.nv)
        y[self.plain_v] = q[self.plain_q]
        for i, k in self.turns:
            begin, now = (Rotation.from_quat(x[i : i + 4]) for x in (self.q0, q))
            y[k : k + 3] = (begin.inv() * now).as_rotvec()
        return y

    def configuration(self, y: np.ndarray) -> np.ndarray:
        """Configuration q (nq,) of y; quaternions that do not move are those of q0."""
        q = self.q0.copy()
        q[self.plain_q] = y[self.plain_v]
        for i, k in self.turns:
            if y[k : k + 3].any():
                turn = Rotation.from_quat(self.q0[i : i + 4]) * Rotation.from_rotvec(y[k : k + 3])
                q[i : i + 4] = turn.as_quat()
        return q

    def drawn(self, rng: np.random.Generator) -> np.ndarray:
        """A random start y (nv,); free and fixed joints are as in q0."""
        y, drawn = self.start.copy(), self.coordinates(random_configuration(self.model, rng))
        for _, k in self.bases:
            drawn[k : k + 6] = y[k : k + 6]
        for k in self.angles:  # the angle, up to full turns, nearest to the start's
            near = drawn[k] - 2.0 * np.pi * np.round((drawn[k] - y[k]) / (2.0 * np.pi))
            drawn[k] = near if self.lower[k] <= near <= self.upper[k] else drawn[k]
        y[self.free] = np.clip(drawn, self.lower, self.upper)[self.free]
        return y

    def velocities(self, y: np.ndarray) -> np.ndarray:
        """Matrix V (nv, nv) of v = V dy/dt, which maps Jacobians along the tangent to those in y."""
        V = np.eye(self.model.nv)
        for _, k in self.planes:
            c, s = np.cos(y[k + 2]), np.sin(y[k + 2])
            V[k : k + 2, k : k + 2] = [[c, s], [-s, c]]
        for i, k in self.bases:
            turn = Rotation.from_quat(self.q0[i + 3 : i + 7]) * Rotation.from_rotvec(y[k + 3 : k + 6])
            V[k : k + 3, k : k + 3] = turn.as_matrix().T
        for _, k in self.turns:
            V[k : k + 3, k : k + 3] = _right_jacobian(y[k : k + 3])
        return V


def _right_jacobian(w: np.ndarray) -> np.ndarray:
    """Right Jacobian of exp(w), body angular velocity J dw/dt:  J = 1 - (1 - cos t)/t^2 w^ + (t - sin t)/t^3 w^2."""
    t = float(np.linalg.norm(w))
    W = np.array([[0.0, -w[2], w[1]], [w[2], 0.0, -w[0]], [-w[1], w[0], 0.0]])
    half = 0.5 * np.sinc(0.5 * t / np.pi) ** 2
    third = 1.0 / 6.0 - t * t / 120.0 if t < 1e-2 else (t - np.sin(t)) / t**3
    return np.eye(3) - half * W + third * W @ W


class _Rows:
    """The rows e and c, and their Jacobians, as functions of the coordinates of a chart."""

    def __init__(
        self,
        chart: _Chart,
        places: dict[str, list[RobotResidual]],
        held: list[RobotResidual],
        loops: list[LoopConstraint],
    ) -> None:
        self.chart, self.places, self.held, self.loops = chart, places, held, loops
        self.couplings = list(chart.model.couplings)

    def frames(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None:
        """The targets for `search`; None where there are other rows."""
        if self.loops or self.held or self.couplings:
            return None
        model, wanted = self.chart.model.full, np.zeros((len(self.places), FRAME))
        bodies, placements = zip(*(frame_numbers(model, frame) for frame in self.places), strict=True)
        parts = np.zeros(len(self.places), dtype=np.int64)
        for f, residuals in enumerate(self.places.values()):
            for residual in residuals:
                turns = isinstance(residual, FrameRotation)
                parts[f] += ROTATION if turns else POSITION
                wanted[f, slice(0, 9) if turns else slice(9, FRAME)] = np.ravel(cast(Any, residual).target)
        return np.array(bodies, dtype=np.int64), parts, np.array(placements), wanted

    def of_targets(self, y: np.ndarray) -> np.ndarray:
        """Errors e of the targets."""
        return self._targets(self.chart.configuration(y))[0]

    def of_the_rest(self, y: np.ndarray) -> np.ndarray:
        """Errors c of the constraints."""
        return self._rest(self.chart.configuration(y))[0]

    def at(self, y: np.ndarray, weight: float, targets: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """[e; weight c], or weight c alone without `targets`, and its Jacobian in the coordinates that may move."""
        q, V = self.chart.configuration(y), self.chart.velocities(y)[:, self.chart.free]
        c, J = self._rest(q)
        r, J = weight * c, weight * J
        if targets:
            e, J_e = self._targets(q)
            r, J = np.concatenate([e, r]), np.concatenate([J_e, J])
        return r, J @ V

    def solve(self, y: np.ndarray, weight: float, near: float, about: np.ndarray, targets: bool = True) -> np.ndarray:
        """Minimizer y of |e|^2 + weight^2 |c|^2 + near^2 |y - about|^2, without e unless `targets`."""
        chart, free, y = self.chart, self.chart.free, y.copy()
        known: dict[bytes, tuple[np.ndarray, np.ndarray]] = {}

        def rows(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            if z.tobytes() not in known:
                y[free] = z
                r, J = self.at(y, weight, targets)
                known.clear()
                known[z.tobytes()] = (
                    np.concatenate([r, near * (z - about[free])]), np.concatenate([J, near * np.eye(free.size)])
                )  # fmt: skip
            return known[z.tobytes()]

        tolerance = 1e-8 if near == NEAR_START else 1e-14
        y[free] = least_squares(
            lambda z: rows(z)[0], y[free], lambda z: rows(z)[1], (chart.lower[free], chart.upper[free]), method="trf",
            ftol=tolerance, xtol=tolerance, gtol=1e-12, max_nfev=EVALUATIONS,
        ).x  # fmt: skip
        return chart.coordinates(chart.configuration(y))

    def missed(self, y: np.ndarray) -> dict[str, Miss]:
        """Errors of more than `REACHED`, by name."""
        q, found = self.chart.configuration(y), {}
        x = self._state(q)
        for frame, residuals in self.places.items():
            sizes = {type(r): float(np.linalg.norm(r.evaluate(x))) for r in residuals}
            found[frame] = Miss(*sizes.values()) if len(sizes) == 2 else _alone(residuals[0], *sizes.values())
        for loop in self.loops:
            found[loop.frame] = Miss(*loop_gap(self.chart.model, q, loop))
        for coupling, row in zip(self.couplings, self._coupled(q)[0], strict=True):
            names, full = [joint for joint, _ in coupling.joints], self.chart.model.full
            turns = full.joints[full.joint_index(names[0])].code == REVOLUTE
            found[" - ".join(names)] = Miss(0.0, abs(float(row))) if turns else Miss(abs(float(row)))
        for residual in self.held:
            names = getattr(residual, "component_names", None) or [f"{residual.name}[{i}]" for i in range(residual.nr)]
            for name, beyond in zip(names, self._beyond(residual, x)[0], strict=True):
                found[name] = max(found.get(name, Miss(0.0)), Miss(abs(float(beyond))))
        return {name: miss for name, miss in found.items() if max(miss) > REACHED}

    def _state(self, q: np.ndarray) -> np.ndarray:
        return np.concatenate([q, np.zeros(self.chart.model.nv)])[None]

    def _targets(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Errors e of the targets and their Jacobian along the tangent."""
        x, n = self._state(q), self.chart.model.nv
        found = [r.evaluate_with_jacobians(x) for residuals in self.places.values() for r in residuals]
        return np.concatenate([r[0] for r, _, _ in found]), np.concatenate([rx[0, :, :n] for _, rx, _ in found])

    def _rest(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Errors c of the constraints and their Jacobian along the tangent."""
        x, model = self._state(q), self.chart.model
        parts = [self._coupled(q)]
        for loop in self.loops:
            motion = pair_motion(model, q[None], loop.frames, loop.offsets)
            parts.append((motion.apart.ravel(), motion.J.reshape(-1, model.nv)))
        parts += [self._beyond(residual, x) for residual in self.held]
        return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])

    def _coupled(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Errors sum_j r_j q_j - offset of the couplings and their Jacobian."""
        model = self.chart.model
        if not self.couplings:
            return np.zeros(0), np.zeros((0, model.nv))
        full, now = model.full, model.full_configuration(q)
        at = [[(full.q_index[full.joint_index(joint)], ratio) for joint, ratio in c.joints] for c in self.couplings]
        sums = [sum(ratio * now[i] for i, ratio in entries) for entries in at]
        J = np.array([joint_row(full, coupling.joints) for coupling in self.couplings])
        return np.array(sums) - [coupling.offset for coupling in self.couplings], model.mimic_map.leave("p", J)

    def _beyond(self, residual: Any, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Violation r - clip(r, lower, upper) of the limits of a residual and its Jacobian."""
        r, rx, _ = residual.evaluate_with_jacobians(x)
        beyond = r[0] - np.clip(r[0], residual.lower, residual.upper)
        return beyond, np.where(beyond[:, None] != 0.0, rx[0, :, : self.chart.model.nv], 0.0)


def _alone(residual: RobotResidual, size: float) -> Miss:
    return Miss(0.0, size) if isinstance(residual, FrameRotation) else Miss(size)


def _places(model: RigidBodyModel, targets: Any) -> dict[str, list[RobotResidual]]:
    """Residuals of every frame: its position error, its rotation error, or both."""
    if not isinstance(targets, Mapping) or not targets:
        raise TypeError(f"targets: got {type(targets).__name__}, expected a mapping of frames to places, not empty")
    found: dict[str, list[RobotResidual]] = {}
    for frame, place in targets.items():
        if as_name("targets", frame) not in model.frames:
            raise unknown_name("targets", frame, model.frames)
        label = f"targets[{frame!r}]"
        R, p = place if isinstance(place, tuple) and len(place) == 2 else (None, place)
        found[frame] = []
        if p is not None or R is None:
            found[frame].append(
                FrameTranslation(model, frame, _not_huge(label, as_array(label, cast(ArrayLike, p), (3,))))
            )
        if R is not None:
            found[frame].append(FrameRotation(model, frame, as_placement(label, (R, np.zeros(3)))[0]))
    return found


def _not_huge(name: str, array: np.ndarray) -> np.ndarray:
    if np.abs(array).max(initial=0.0) > LARGEST:
        raise ValueError(f"{name}: got {np.abs(array).max():.3g} as an entry, expected at most {LARGEST:g}")
    return array


def _residuals(model: RigidBodyModel, avoid: Any) -> list[RobotResidual]:
    given = () if avoid is None else (avoid,) if isinstance(avoid, RobotResidual) else avoid
    found = list(as_items("avoid", given, "residuals with limits, such as Collisions"))
    for i, residual in enumerate(found):
        label = "avoid" if residual is avoid else f"avoid[{i}]"
        as_kind(label, residual, RobotResidual, "a residual with limits, such as Collisions")
        if residual.nu is not None or not (hasattr(residual, "lower") and hasattr(residual, "upper")):
            expected = "a residual of the state alone with lower and upper, such as Collisions"
            raise TypeError(f"{label}: got {type(residual).__name__}, expected {expected}")
        if residual.model != model:
            raise ValueError(f"{label}: {residual.name!r} is of another model, expected this one")
    return found


def _loops(model: RigidBodyModel, loops: Any) -> list[LoopConstraint]:
    found = list(as_items("loops", loops, "LoopConstraints"))
    for i, loop in enumerate(found):
        if as_kind(f"loops[{i}]", loop, LoopConstraint).model != model:
            raise ValueError(f"loops[{i}]: {loop.frame!r} is of another model, expected this one")
    own = [LoopConstraint(model, loop.frame1, loop.frame2, loop.kind, axis=loop.axis) for loop in model.loops]
    given = {loop.frame for loop in found}
    return found + [loop for loop in own if loop.frame not in given]


def _limits(model: RigidBodyModel, limits: bool) -> tuple[np.ndarray, np.ndarray]:
    if not limits:
        return np.full(model.nq, -np.inf), np.full(model.nq, np.inf)
    lower, upper = model.lower_position, model.upper_position
    for i in np.flatnonzero(~(lower <= upper))[:1]:
        raise ValueError(
            f"limits: got lower_position[{i}] = {lower[i]}, upper_position[{i}] = {upper[i]}, expected lower <= upper"
        )
    return lower, upper
