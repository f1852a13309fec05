"""Soft robots: rods and rigid bodies with elasticity, damping, tendons, chambers and driven joints."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.batch import unbatch
from dynamics.content import ByContent
from dynamics.rods.algorithms.backward_pass import BlockRows
from dynamics.rods.algorithms.closed_chains import check_independence
from dynamics.rods.algorithms.constrained_dynamics import acceleration_hessian, constrained_motion
from dynamics.rods.algorithms.equation_of_motion import (
    RobotArrays,
    accelerations_driver_size,
    drive_accelerations,
    drive_residual,
    residual_driver_size,
    robot_arrays,
)
from dynamics.rods.algorithms.inverse_dynamics import common_length, flat_wrenches
from dynamics.rods.kinematics.center_lines import check_turns
from dynamics.rods.loads.tendons import Chamber, Tendon, named_lines, tendon_arrays, warn_of_slack
from dynamics.rods.model.arrays import FIRST, FORCES, MASS_MATRIX, SECOND
from dynamics.rods.model.rod_model import RodModel
from dynamics.simd import launch
from dynamics.validation import as_batch, as_items, as_kind, look_up


class ResidualDerivatives(NamedTuple):
    """First derivatives of r(q, v, a, u): dr/dq, dr/dv, dr/da = M, each (n, n), and B = - dr/du (n, nu); or (K, .)."""

    dr_dq: np.ndarray
    dr_dv: np.ndarray
    M: np.ndarray
    B: np.ndarray


class ResidualHessian(NamedTuple):
    """Second derivatives of w'r, (n, n) or (K, n, n), Hqu (n, nu) or (K, n, nu); rows of Hqv, Hqa, Hqu belong to q.

    The others, Hva, Haa, Hvu, Hau and Huu, are zero.
    """

    Hqq: np.ndarray
    Hqv: np.ndarray
    Hvv: np.ndarray
    Hqa: np.ndarray
    Hqu: np.ndarray


class AccelerationDerivatives(NamedTuple):
    """First derivatives of a(q, v, u): (n, n), (n, n) and (n, nu), or (K, .); row = acceleration."""

    da_dq: np.ndarray
    da_dv: np.ndarray
    da_du: np.ndarray


class AccelerationHessian(NamedTuple):
    """Second derivatives of w'a, (n, n) or (K, n, n), Hqu (n, nu) or (K, n, nu); rows of Hqv and Hqu belong to q.

    Hvu and Huu are zero.
    """

    Hqq: np.ndarray
    Hqv: np.ndarray
    Hvv: np.ndarray
    Hqu: np.ndarray


@dataclass(frozen=True, eq=False)
class SoftRobot(ByContent):
    """A tree of rods and rigid bodies with its elasticity, its damping and its actuators; compared by content.

        r(q, v, a, u, lambda) = ID(q, v, a) + K q + D v - B(q) u - A(q)'lambda = 0                  [GVS, eq. 6a]

    where ID holds the external loads of the model; closed chains e(q) = 0 have the Jacobian A = de/dq and multipliers
    lambda (G,), N and N m.

    positive where they push, then the torques (forces) of driven joints, N m (N), and the controls of loads
    (`add_load`).  A joint of several degrees of freedom takes one control for each: the components [moment; force] that
    it moves, of a wrench on the link in axes of the frame that its joint carries; the opposite wrench acts on its
    parent.

    Parameters
    ----------
    model : RodModel, from `RodModelBuilder`
    tendons : Tendon objects
    torques : names of links whose joint is driven
    chambers : Chamber objects

    Attributes
    ----------
    nq, nv, nu : numbers of coordinates n = nq = nv and of controls
    control_names : (nu,) tuple of str
    arrays : the robot as arrays, for kernels

    Raises
    ------
    TypeError : the model, a tendon or a chamber of another kind.
    ValueError : a tendon or chamber with unknown rods, rods that do not follow each other, a joint between them that it
        cannot cross, a name given twice, or a line that leaves the section of its rod; an entry of `torques` that is
        not a link, has a joint without degrees of freedom, or is given twice.

    Examples
    --------
    >>> builder = rods.RodModelBuilder()
    >>> silicone = rods.Elastic(young=1e6, poisson=0.5, density=1000.0)
    >>> builder.add_rod("arm", "world", 0.3, rods.Circular(0.02), silicone, rods.LegendreBasis(bending_y=2))
    >>> robot = rods.SoftRobot(builder.build(), [rods.Tendon.straight("arm", 0.0, 0.015)])  # 15 mm above the middle
    >>> robot.nq, robot.control_names
    (3, ('tendon 0',))
    """

    model: RodModel
    tendons: Sequence[Tendon] = ()
    torques: Sequence[str] = ()
    chambers: Sequence[Chamber] = ()
    arrays: RobotArrays = field(init=False, repr=False)

    def __post_init__(self):
        as_kind("model", self.model, RodModel)
        tendons = named_lines(self.model, "tendons", self.tendons, Tendon, ())
        taken = [tendon.name or "" for tendon in tendons]
        chambers = named_lines(self.model, "chambers", self.chambers, Chamber, taken)
        driven, lines = _driven_joints(self.model, self.torques), (*tendons, *chambers)
        arrays = robot_arrays(self.model, tendon_arrays(self.model, lines), len(lines), driven)
        values = {"tendons": tendons, "chambers": chambers, "torques": tuple(self.torques), "arrays": arrays}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _parts(self) -> Mapping[str, Any]:
        return {"model": self.model, "controls": self.control_names, "arrays": self.arrays}

    @property
    def nq(self) -> int:
        """Number of coordinates n."""
        return self.model.nq

    @property
    def nv(self) -> int:
        """Number of velocities, equal to nq."""
        return self.model.nq

    @property
    def nu(self) -> int:
        """Number of controls."""
        return int(self.arrays.counts[0])

    @property
    def control_names(self) -> tuple[str, ...]:
        """Names of tendons, of chambers, of driven links (for a joint of several degrees of freedom, of its
        coordinates), then of the loads' controls."""
        lines, joints = (line.name or "" for line in (*self.tendons, *self.chambers)), []
        for name in self.torques:
            own = self.model.joint_coordinates[name]
            joints += [name] if own.stop - own.start == 1 else self.model.coordinate_names[own]
        return (*lines, *joints, *self.model.load_controls)

    def warn_of_slack(self, argument: str, u: np.ndarray) -> None:
        """Warn of tendons that push and chambers that pull for controls u (nu,) or (K, nu); `argument` is the name of
        u."""
        first = 0
        for lines in (self.tendons, self.chambers):
            warn_of_slack(argument, lines, u[..., first : first + len(lines)])
            first += len(lines)

    # -------------------------------------------------------------------------------------------- equation of motion
    def residual(
        self,
        q: ArrayLike,
        v: ArrayLike,
        a: ArrayLike,
        u: ArrayLike,
        wrenches: ArrayLike | None = None,
        multipliers: ArrayLike | None = None,
    ) -> np.ndarray:
        """Residual generalised forces r = ID + K q + D v - B u - A'lambda, N m or N along the coordinates.

        Parameters
        ----------
        q, v, a : (n,) or (K, n);  u : (nu,) or (K, nu); single points are repeated
        wrenches : (W, 6) or (K, W, 6), [moment; force] of the external loads that take one, N m and N, in the order in
            which they were added; by default zero
        multipliers : lambda (G,) or (K, G) of the closed chains; by default zero

        Returns
        -------
        (n,) or (K, n)

        Raises
        ------
        ValueError : a wrong shape, a number that is not finite, a rod that rotates by more than 2 pi between
            neighbouring nodes (more points help), a joint about any axis that rotates by more; so do the methods below.
        """
        single, states = self._states(wrenches, q=q, v=v, a=a, u=u, multipliers=multipliers)
        return unbatch(single, self._known(states, self._residual(FORCES, states))[0])[0]

    def residual_derivatives(
        self,
        q: ArrayLike,
        v: ArrayLike,
        a: ArrayLike,
        u: ArrayLike,
        wrenches: ArrayLike | None = None,
        multipliers: ArrayLike | None = None,
    ) -> ResidualDerivatives:
        """First derivatives of the residual, and B, whose columns are the generalised forces of unit controls.

        Parameters as `residual`.  Returns ResidualDerivatives(dr_dq, dr_dv, M, B).
        """
        single, states = self._states(wrenches, q=q, v=v, a=a, u=u, multipliers=multipliers)
        _, dq, dv, M, B, *_ = self._known(states, self._residual(FIRST, states))
        return ResidualDerivatives(*unbatch(single, dq, dv, M, B))

    def residual_hessian(
        self,
        q: ArrayLike,
        v: ArrayLike,
        a: ArrayLike,
        u: ArrayLike,
        w: ArrayLike,
        wrenches: ArrayLike | None = None,
        multipliers: ArrayLike | None = None,
    ) -> ResidualHessian:
        """Second derivatives of w'r for a multiplier w (n,) or (K, n)             [rod_hessian, sections 2 and 4].

        Other parameters as `residual`.  Returns ResidualHessian(Hqq, Hqv, Hvv, Hqa, Hqu).
        """
        single, states = self._states(wrenches, q=q, v=v, a=a, u=u, w=w, multipliers=multipliers)
        return ResidualHessian(*unbatch(single, *self._known(states, self._residual(SECOND, states))[5:]))

    # -------------------------------------------------------------------------------------------- forward dynamics
    def forward_dynamics(
        self, q: ArrayLike, v: ArrayLike, u: ArrayLike, wrenches: ArrayLike | None = None
    ) -> np.ndarray:
        """Accelerations a with r(q, v, a, u) = 0 and, for closed chains, e'' = 0; (n,) or (K, n).

        Raises ValueError, as the two methods below, where no accelerations exist: chains whose constraints are
        dependent, as for bars in line, or a joint that moves no mass.
        """
        single, states = self._states(wrenches, q=q, v=v, u=u)
        return unbatch(single, self._motion(MASS_MATRIX, states)[0])[0]

    def forward_dynamics_derivatives(
        self, q: ArrayLike, v: ArrayLike, u: ArrayLike, wrenches: ArrayLike | None = None
    ) -> AccelerationDerivatives:
        """First derivatives of a(q, v, u): AccelerationDerivatives(da_dq, da_dv, da_du)."""
        single, states = self._states(wrenches, q=q, v=v, u=u)
        return AccelerationDerivatives(*unbatch(single, *self._motion(FIRST, states)[1:4]))

    def forward_dynamics_hessian(
        self, q: ArrayLike, v: ArrayLike, u: ArrayLike, w: ArrayLike, wrenches: ArrayLike | None = None
    ) -> AccelerationHessian:
        """Second derivatives of w'a(q, v, u) for a multiplier w: AccelerationHessian(Hqq, Hqv, Hvv, Hqu)."""
        single, states = self._states(wrenches, q=q, v=v, u=u, w=w)
        return AccelerationHessian(*unbatch(single, *self._motion(SECOND, states)[4:]))

    # -------------------------------------------------------------------------------------------- batches
    def _states(self, wrenches: ArrayLike | None, **vectors: Any) -> tuple[bool, np.ndarray]:
        """True for a single point, and the states (K, .) in the layout of `residual_kernel`."""
        n, nu, numbers = self.nq, self.nu, 6 * self.model.wrench_count
        G, size = self.model.constraint_count, 4 * n + nu + int(self.arrays.counts[1])
        starts = {"q": 0, "v": n, "a": 2 * n, "w": 3 * n, "u": 4 * n, "wrenches": 4 * n + nu, "multipliers": size - G}
        batches, single = {}, True
        if vectors.get("multipliers", ()) is None:
            del vectors["multipliers"]
        for name, value in vectors.items():
            batches[name], one = as_batch(name, value, {"u": nu, "multipliers": G}.get(name, n))
            single = single and one
        if wrenches is not None:
            batches["wrenches"], one = as_batch("wrenches", flat_wrenches(wrenches, self.model), numbers)
            single = single and one
        K = common_length(batches)
        states = np.zeros((K, size))
        for name, array in batches.items():
            states[:, starts[name] : starts[name] + array.shape[1]] = array
        return single, states

    def _known(self, states: np.ndarray, results: list[np.ndarray]) -> list[np.ndarray]:
        """The results at states (K, .); ValueError if they are not finite because a rotation is too large."""
        if not np.vdot(results[0], results[0]) < np.inf:
            check_turns(self.model, states[:, : self.nq], "q")
        return results

    def _residual(self, level: int, states: np.ndarray) -> list[np.ndarray]:
        """r, dr/dq, dr/dv, M, B, Hqq, Hqv, Hvv, Hqa, Hqu, empty beyond the level, for states (K, .)."""
        r, n, nu = np.empty((len(states), self.nq)), self.nq, self.nu
        least = {"dq": FIRST, "dv": FIRST, "M": MASS_MATRIX, "B": FIRST}
        least |= dict.fromkeys(("Hqq", "Hqv", "Hvv", "Hqa", "Hqu"), SECOND)
        out = {
            name: np.empty((len(states) if level >= of else 0, n, nu if name in ("B", "Hqu") else n))
            for name, of in least.items()
        }
        flat = {name: x.reshape(len(x), x.shape[1] * x.shape[2]) for name, x in out.items()}
        rows = BlockRows(*(flat[name] for name in BlockRows._fields))
        workspace_size = residual_driver_size(self.model.arrays, states, self.arrays)
        arguments = self.model.arrays, self.arrays, level, states, r, rows, flat["B"], flat["Hqu"]
        launch(drive_residual, len(states), workspace_size, *arguments)
        return [r, *out.values()]

    def _motion(self, level: int, states: np.ndarray) -> list[np.ndarray]:
        """Results of `_accelerations`; ValueError where the robot has no accelerations."""
        given = states.copy()
        check_independence(self.model, given[:, : self.nq], "q")
        out = self._accelerations(level, states)
        bad = np.flatnonzero(~np.isfinite(out[0]).all(axis=1))
        if len(bad):
            check_turns(self.model, given[:, : self.nq], "q")
            raise self._no_acceleration(bad[0], self._residual(MASS_MATRIX, given[bad[:1]])[3][0])
        return out

    def _no_acceleration(self, k: int, M: np.ndarray) -> ValueError:
        """The error for point k with mass matrix M."""
        idle = np.flatnonzero(np.diag(M) <= 0.0)
        why = "numbers overflow"
        if len(idle):
            why = f"{self.model.coordinate_names[idle[0]]!r} moves no mass"
        return ValueError(f"q, v, u: point {k} has no finite accelerations: {why}")

    def _accelerations(self, level: int, states: np.ndarray) -> list[np.ndarray]:
        """a, a_q, a_v, a_u and the Hessian's qq, qv, vv, qu, empty beyond the level, for states (K, .)."""
        n, nu = self.nq, self.nu
        if self.model.constraint_count:
            motion = constrained_motion(self.model, self.arrays, level, states, np.arange(n), 0.0)
            of_q, of_v, of_u = np.split(motion.derivatives[:, :n], (n, 2 * n), axis=2)
            second = acceleration_hessian(self.model, self.arrays, states, motion) if level >= SECOND else ()
            return [motion.a, of_q, of_v, of_u, *second]
        wanted = ((FIRST, n), (FIRST, n), (FIRST, nu), (SECOND, n), (SECOND, n), (SECOND, n), (SECOND, nu))
        a = np.empty((len(states), n))
        out = [np.empty((len(states) if level >= least else 0, n, columns)) for least, columns in wanted]
        aq, av, au, Hqq, Hqv, Hvv, Hqu = (x.reshape(len(x), n * x.shape[2]) for x in out)
        none = np.empty((0, n * n))
        workspace_size = accelerations_driver_size(self.model.arrays, states, self.arrays)
        rows = BlockRows(aq, av, none, Hqq, Hqv, Hvv, none)
        arguments = self.model.arrays, self.arrays, level, states, a, rows, au, Hqu
        launch(drive_accelerations, len(states), workspace_size, *arguments)
        return [a, *out]


def _driven_joints(model: RodModel, torques: Sequence[str]) -> list[slice]:
    """Coordinates of the joints of these links."""
    driven: list[slice] = []
    for k, name in enumerate(as_items("torques", torques, "names of links")):
        own = look_up(f"torques[{k}]: link with a joint", name, model.joint_coordinates)
        if own.stop == own.start:
            raise ValueError(f"torques[{k}]: the joint of {name!r} has no degree of freedom, expected at least one")
        if own in driven:
            raise ValueError(f"torques[{k}]: {name!r} is given twice")
        driven.append(own)
    return driven


def picklable(robot: SoftRobot | None) -> SoftRobot | None:
    """The robot, or None if it has functions that cannot be pickled, such as routes that are lambdas."""
    try:
        pickle.dumps(robot)
    except (pickle.PicklingError, AttributeError, TypeError):
        return None
    return robot
