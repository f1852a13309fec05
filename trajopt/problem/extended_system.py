"""Systems whose states are those of another system and some numbers more.

With z = (x, p), p in R^m, tangent dz = (dx, dp): the manifold of a longer state, costs and residuals made for the
system inside, which know nothing of p, and what the system inside offers besides (`trajopt.capabilities`), offered here
too, or refused with a reason.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from trajopt.capabilities import Expansions, capability
from trajopt.interfaces.stepwise import ClosedLoopRollouts
from trajopt.interfaces.system import System, as_manifold
from trajopt.problem.control_map import ControlMap
from trajopt.problem.lifted import LiftedCost, LiftedResidual, WithControls
from trajopt.problem.system_wrapper import Lifted, LiftedValue, Refused, of_states, same


class ExtendedSystem(ClosedLoopRollouts):
    """Base of systems with numbers p appended to the state: z = (x, p), tangent (dx, dp).

    Parameters
    ----------
    system : System, the one inside
    memory : int, how many numbers p has

    Attributes
    ----------
    nx, ndx : those of the system inside, plus `memory`.
    map : ControlMap, where terms of the system inside find its controls
    """

    remembers = "controls"
    """What p is, in words."""
    steps_a_knot = 1
    """How many steps a knot has that takes time, of a system in finer steps than its plan's."""

    def __init__(self, system: System, memory: int) -> None:
        if capability(system, Expansions).acceleration_control is not None:
            raise ValueError(
                f"system: got a {type(system).__name__} that takes accelerations for controls, expected one with "
                'formulation="forward", whose controls are torques: rates are those of the controls'
            )
        self.system: Any = system
        self.memory = memory
        self.nx, self.ndx, self.nu = system.nx + memory, system.ndx + memory, system.nu
        self.map = ControlMap(system.nx, system.ndx, system.nu, np.arange(system.nu))
        self.dt = system.dt
        self._manifold = as_manifold(system)
        self.euclidean = self._manifold is None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.system!r})"

    # -------------------------------------------------------------------------------------------- the state manifold
    def split(self, zs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """States x (..., nx) of the system inside and what is remembered with them (..., memory)."""
        zs = np.asarray(zs)
        n = self.system.nx
        return np.ascontiguousarray(zs[..., :n]), np.ascontiguousarray(zs[..., n:])

    def _split_tangent(self, dz):
        dz = np.asarray(dz)
        n = self.system.ndx
        return np.ascontiguousarray(dz[..., :n]), dz[..., n:]

    def integrate(self, x: np.ndarray, dx: np.ndarray) -> np.ndarray:
        """Move x along the tangent vector dx."""
        (inside, p), (d, dp) = self.split(x), self._split_tangent(dx)
        return joined(self.system.integrate(inside, d), p + dp)

    def difference(self, x0: np.ndarray, x1: np.ndarray) -> np.ndarray:
        """Tangent vector from x0 to x1."""
        (a, p), (b, q) = self.split(x0), self.split(x1)
        return joined(self.system.difference(a, b), q - p)

    def difference_expansion(self, x_ref: np.ndarray, xs: np.ndarray, mu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `ManifoldSystem.difference_expansion`: the blocks of the system inside, and the identity."""
        K, n = len(xs), self.system.ndx
        J, H = np.tile(np.eye(self.ndx), (K, 1, 1)), np.zeros((K, self.ndx, self.ndx))
        if self._manifold is not None:
            inside = self.split(x_ref)[0], self.split(xs)[0], self._split_tangent(mu)[0]
            J[:, :n, :n], H[:, :n, :n] = self._manifold.difference_expansion(*inside)
        return J, H

    @Lifted
    def difference_with_jacobian(self, inside, x_ref, zs):
        """The difference and its Jacobian: those of the system inside, and the identity."""
        (a, p), (b, q) = self.split(x_ref), self.split(zs)
        n, J = self.system.ndx, np.tile(np.eye(self.ndx), (len(zs), 1, 1))
        r, J[:, :n, :n] = inside(a, b)
        return joined(r, q - p), J

    @Lifted
    def integrate_jacobian(self, inside, zs):
        """The Jacobian of the system inside, and the identity."""
        xs, p = self.split(zs)
        n, d, J = self.system.nx, self.system.ndx, np.zeros((len(zs), self.nx, self.ndx))
        J[:, :n, :d], J[:, n:, d:] = inside(xs), np.eye(p.shape[-1])
        return J

    @LiftedValue
    def state_space(self, factors):
        """Factors of the system inside, and the numbers appended."""
        return *factors, ("euclidean", self.memory)

    @LiftedValue
    def serves(self, subjects):
        """Subjects of the system inside, with the numbers appended."""
        return tuple(WithControls(subject, self.memory, self.remembers) for subject in subjects)

    @LiftedValue
    def neutral_state(self, x):
        """The state that limits are counted from."""
        return self.state(x)

    check_state, plain_tangent = of_states(), same()
    difference_residual = Refused(
        "it sums squares over states of the system inside, without the control before; "
        "difference_with_jacobian serves costs of both"
    )

    # -------------------------------------------------------------------------------------------- names and the start
    @LiftedValue
    def state_names(self, names):
        """Names of the numbers of a state."""
        return self._with_names_before(names)

    @LiftedValue
    def tangent_names(self, names):
        """Names of the components of a tangent vector."""
        return self._with_names_before(names)

    @LiftedValue
    def tangent_units(self, units):
        """Units of the components of a tangent vector, none of the numbers appended."""
        return *units, *("",) * self.memory

    control_names = same()
    control_units = Refused("its controls may be rates of those inside, or have durations among them")
    check_start, quasi_static, start_advice = of_states(), of_states(), same()

    # -------------------------------------------------------------------------------------------- knots and steps
    def _around(self, inside: Any) -> Any:
        """This system around another system inside, whatever that no longer says of its states."""
        new = copy.copy(self)
        ExtendedSystem.__init__(new, inside, self.memory)
        new.steps_a_knot = self.steps_a_knot * round(self.dt / new.dt)
        return new

    @Lifted
    def window(self, inside, start, stop):
        """The system of the knots start <= t < stop alone."""
        return self._around(inside(start, stop))

    @Lifted
    def refined(self, inside, substeps):
        """The same in finer steps."""
        return self._around(inside(substeps))

    @Lifted
    def resimulated(self, inside):
        """The same in steps that are exact."""
        return self._around(inside())

    @Lifted
    def with_model(self, inside, model):
        """The same of another model."""
        return self._around(inside(model))

    @Lifted
    def step_noise(self, inside, zs):
        """Noise of the steps inside, and none of the numbers appended."""
        noise = inside(self.split(zs)[0])
        return np.hstack([noise, np.zeros((len(noise), self.memory))])

    horizon, durations, phase_starts, integrator_order = same(), same(), same(), same()
    idle = Refused("a control that moves nothing is the control before of the next knot all the same")
    timed = Refused("rates are counted by the system's own time step")
    durations_along = Refused("rates are counted by the system's own time step")

    # -------------------------------------------------------------------------------------------- expansions
    def linearize(self, xs: np.ndarray, us: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """F_z (N, ndx, ndx) and F_w (N, ndx, nu)."""
        first = np.zeros((len(us), self.ndx, self.ndx)), np.zeros((len(us), self.ndx, self.nu))
        self._expand(xs, us, None, first, None)
        return first

    def hessian_products(
        self, xs: np.ndarray, us: np.ndarray, lam: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Hessians of lam_t'F per knot, lam (N, ndx)."""
        N, n, m = len(us), self.ndx, self.nu
        H = np.zeros((N, n, n)), np.zeros((N, m, n)), np.zeros((N, m, m))
        self._expand(xs, us, lam, None, H)
        return H

    def write_expansion(
        self, xs: np.ndarray, us: np.ndarray, lam: np.ndarray, fx: np.ndarray, fu: np.ndarray, *H: np.ndarray
    ) -> None:
        """Write what `linearize` and `hessian_products` return into the arrays given."""
        for block in (fx, fu, *H):
            block[...] = 0.0
        self._expand(xs, us, lam, (fx, fu), H)

    def hessians(self, xs: np.ndarray, us: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Full tensors of F, output index first."""
        parts = [self.hessian_products(xs, us, np.tile(row, (len(us), 1))) for row in np.eye(self.ndx)]
        Fzz, Fuz, Fuu = (np.stack(blocks, axis=1) for blocks in zip(*parts, strict=True))
        return Fzz, Fuz, Fuu

    def _expand(self, xs: Any, us: Any, lam: Any, first: Any, second: Any) -> None:
        """Write F_z, F_w to `first`, and the Hessians of lam'F to `second`, all of them zeros before, unless these are
        None."""
        self._expand_moving(self.system, self.map, slice(len(us)), xs, us, lam, first, second)

    def _expand_moving(
        self, moves: Any, by: ControlMap, rows: slice | np.ndarray, xs: Any, us: Any, lam: Any, first: Any, second: Any
    ) -> None:
        """`_expand` at the rows at which `moves` moves x, with controls that the map `by` gives."""
        x, u = by.inside(xs[: len(us)][rows], us[rows])
        given = None if lam is None else np.ascontiguousarray(lam[rows, : by.ndx])
        f, H = expansion_of(moves, x, u, given, first is not None)
        blocks = *(first or ()), *(second or ())
        parts = [block[rows] for block in blocks]  # views, but for rows that are apart
        if first is not None:
            by.place_first(f[0], f[1], parts[0][:, : by.ndx], parts[1][:, : by.ndx])
            self._write_numbers(parts[0][:, by.ndx :], parts[1][:, by.ndx :])
        if second is not None:
            by.place_hessian(H[0], H[1], H[2], *parts[-3:])
        if not isinstance(rows, slice):
            for block, part in zip(blocks, parts, strict=True):
                block[rows] = part

    def _write_numbers(self, pz: np.ndarray, pw: np.ndarray) -> None:
        """Write the derivatives that are not zero of the numbers after a step, pz (N, memory, ndx) and pw (N, memory,
        nu): here they stay what they are."""
        pz[:, :, self.system.ndx :] = np.eye(self.memory)

    @Lifted
    def parameter_gradient(self, inside, zs, us, lam):
        """The gradient of the system inside: the numbers appended depend on no parameters."""
        return inside(self.split(zs)[0], us, self._split_tangent(lam)[0])

    semi_implicit = Refused("the rows of the control before do not have that structure")
    semi_implicit_from = Refused("the rows of the control before do not have that structure")
    acceleration_control = Refused("rates are those of the controls, which would have to be accelerations")

    # -------------------------------------------------------------------------------------------- joints and limits
    @LiftedValue
    def joint_feedback(self, offered):
        """Joints of the system inside, of whose tangents and controls those here are longer ones."""
        positions, velocities, efforts = offered
        return positions, velocities, np.pad(efforts, ((0, 0), (0, self.nu - efforts.shape[1])))

    @Lifted
    def joint_efforts(self, inside, us):
        """Efforts of the controls inside."""
        return inside(np.ascontiguousarray(us[:, : self.system.nu]))

    @Lifted
    def state_limits(self, inside, position=True, velocity=True):
        """Limits of the system inside, and none of the numbers appended."""
        lower, upper = inside(position=position, velocity=velocity)
        return np.append(lower, np.full(self.memory, -np.inf)), np.append(upper, np.full(self.memory, np.inf))

    @LiftedValue
    def control_speeds(self, offered):
        """Speeds of the system inside, which read the velocities in front of the numbers appended; other controls have
        none."""
        (S, w), others = offered, self.nu - self.system.nu
        return np.pad(S, ((0, others), (0, self.memory))), np.pad(w, (0, others), constant_values=np.inf)

    joint_inertias, single_joints, control_limits = of_states(), same(), same()
    nq = Refused("the numbers of a state behind its positions are velocities and the control before")

    # -------------------------------------------------------------------------------------------- contacts, pictures
    contact_frames, contact_points, contact_forces = same(), of_states(), of_states()
    skeleton, body_placements, center_of_mass, quantities = of_states(), of_states(), of_states(), of_states()
    solids, scenery = same(), same()

    # -------------------------------------------------------------------------------------------- what was made for x
    def lift(self, inner: Any) -> Any:
        """A cost or a residual made for the system inside, as one for this system.

        Raises TypeError if it is neither.
        """
        inner = inner.for_system(self.system) if hasattr(inner, "for_system") else inner
        if all(hasattr(inner, name) for name in ("check", "value", "accumulate", "accumulate_curvature")):
            return LiftedCost(self, inner)
        if all(hasattr(inner, name) for name in ("nr", "evaluate", "jacobians", "hessian_products")):
            return LiftedResidual(self, inner)
        raise TypeError(f"lift: got {type(inner).__name__}, expected a cost or a residual")


def expansion_of(system: Any, x: np.ndarray, u: Any, lam: np.ndarray | None, first: bool) -> tuple[Any, Any]:
    """(fx, fu) of a system if `first`, else None, and its (Hxx, Hux, Huu) along lam, None without one."""
    write_expansion = capability(system, Expansions).write_expansion
    if lam is not None and first and write_expansion is not None:
        N, n, m = len(u), lam.shape[1], u.shape[1]
        f, H = [np.empty((N, n, k)) for k in (n, m)], [np.empty((N, j, k)) for j, k in ((n, n), (m, n), (m, m))]
        write_expansion(x, u, lam, *f, *H)
        return f, H
    return system.linearize(x, u) if first else None, None if lam is None else system.hessian_products(x, u, lam)


def _is_outer(system: Any, kind: type | None) -> bool:
    return isinstance(system, ExtendedSystem) and not (kind is not None and isinstance(system, kind))


def innermost(system: Any, kind: type | None = None) -> Any:
    """The system inside all with longer states, or the first of them that is of this kind."""
    return innermost(system.system, kind) if _is_outer(system, kind) else system


def lifted(system: Any, inner: Any, kind: type | None = None) -> Any:
    """A cost or residual of `innermost` as one for the system."""
    return system.lift(lifted(system.system, inner, kind)) if _is_outer(system, kind) else inner


def joined(x: np.ndarray, p: np.ndarray) -> np.ndarray:
    """(x, p), one of which may be a single point while the other is a batch."""
    batch = np.broadcast_shapes(x.shape[:-1], p.shape[:-1])
    return np.concatenate([np.broadcast_to(a, (*batch, a.shape[-1])) for a in (x, p)], axis=-1)
