"""Systems whose states are those of another system and some numbers more.

With z = (x, p), p in R^m, tangent dz = (dx, dp): the manifold of a longer state, costs and residuals made for the
system inside, which know nothing of p, and what the system inside offers besides (`trajopt.capabilities`), offered here
too, or refused with a reason.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from trajopt.capabilities import AccelerationControlled, JointExpansion, capability
from trajopt.interfaces.stepwise import ClosedLoopRollouts
from trajopt.interfaces.system import System, as_manifold
from trajopt.problem.lifted import LiftedCost, LiftedResidual, WithControls

REFUSED = {
    "difference_residual": "it sums squares over states of the system inside, without the control before; "
    "difference_with_jacobian serves costs of both",
    "idle": "a control that moves nothing is the control before of the next knot all the same",
    "semi_implicit": "the rows of the control before do not have that structure",
    "semi_implicit_from": "the rows of the control before do not have that structure",
    "timed": "rates are counted by the system's own time step",
    "durations_along": "rates are counted by the system's own time step",
    "acceleration_control": "rates are those of the controls, which would have to be accelerations",
    "control_units": "its controls may be rates of those inside, or have durations among them",
    "nq": "the numbers of a state behind its positions are velocities and the control before",
}
"""Capabilities of the system inside that one around it has not got, and why."""


class ExtendedSystem(ClosedLoopRollouts):
    """Base of systems with numbers p appended to the state: z = (x, p), tangent (dx, dp).

    Parameters
    ----------
    system : System, the one inside
    memory : int, how many numbers p has

    Attributes
    ----------
    nx, ndx : those of the system inside, plus `memory`.
    """

    remembers = "controls"
    """What p is, in words."""
    steps_a_knot = 1
    """How many steps a knot has that takes time, of a system in finer steps than its plan's."""

    def __init__(self, system: System, memory: int) -> None:
        if capability(system, AccelerationControlled) is not None:
            raise ValueError(
                f"system: got a {type(system).__name__} that takes accelerations for controls, wanted one with "
                'formulation="forward", whose controls are torques: rates are those of the controls'
            )
        self.system: Any = system
        self.memory = memory
        self.nx, self.ndx, self.nu = system.nx + memory, system.ndx + memory, system.nu
        self.dt = system.dt
        self._manifold = as_manifold(system)
        self.euclidean = self._manifold is None

    def __getattr__(self, name: str) -> Any:
        """A capability of the system inside, where it has it."""
        known = name in FORWARDED or name in REFUSED
        offered = getattr(self.__dict__.get("system"), name, None) if known else None
        if offered is None:
            raise AttributeError(f"{type(self).__name__} has no {name!r}, nor has the system inside")
        if name in REFUSED:
            raise AttributeError(f"{type(self).__name__} has no {name!r} of the system inside: {REFUSED[name]}")
        return FORWARDED[name](self, offered)

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

    def _difference_with_jacobian(self, inside, x_ref, zs):
        """What the function of the system inside says, and the identity."""
        (a, p), (b, q) = self.split(x_ref), self.split(zs)
        n, J = self.system.ndx, np.tile(np.eye(self.ndx), (len(zs), 1, 1))
        r, J[:, :n, :n] = inside(a, b)
        return joined(r, q - p), J

    def _integrate_jacobian(self, inside, zs):
        """What the function of the system inside says, and the identity."""
        xs, p = self.split(zs)
        n, d, J = self.system.nx, self.system.ndx, np.zeros((len(zs), self.nx, self.ndx))
        J[:, :n, :d], J[:, n:, d:] = inside(xs), np.eye(p.shape[-1])
        return J

    def _around(self, inside, *arguments):
        """This system around what a function of the system inside makes, whatever that no longer says of its states."""
        new = copy.copy(self)
        ExtendedSystem.__init__(new, inside(*arguments), self.memory)
        new.steps_a_knot = self.steps_a_knot * round(self.dt / new.dt)
        return new

    def _of_states(self, inside, zs, *us):
        """What a function of the states of the system inside says."""
        return inside(self.split(zs)[0], *us)

    def _parameter_gradient(self, inside, zs, us, lam):
        """That of the system inside: what is remembered depends on no parameters."""
        return inside(self.split(zs)[0], us, self._split_tangent(lam)[0])

    def _state_space(self, factors):
        """Those of the system inside, and the numbers that are remembered."""
        return *factors, ("euclidean", self.memory)

    def _serves(self, subjects):
        return tuple(WithControls(subject, self.memory, self.remembers) for subject in subjects)

    def _control_speeds(self, offered):
        """Those of the system inside, which read the velocities in front of what is remembered."""
        return np.hstack([offered[0], np.zeros((self.nu, self.memory))]), offered[1]

    def _joint_feedback(self, offered):
        """That of the system inside, of whose tangents and controls those here are longer ones."""
        positions, velocities, efforts = offered
        return positions, velocities, np.pad(efforts, ((0, 0), (0, self.nu - efforts.shape[1])))

    def _state_limits(self, inside, position=True, velocity=True):
        """Those of the system inside, and none of what is remembered."""
        lower, upper = inside(position=position, velocity=velocity)
        return np.append(lower, np.full(self.memory, -np.inf)), np.append(upper, np.full(self.memory, np.inf))

    def _step_noise(self, inside, zs):
        """That of the system inside, and none of what is remembered."""
        noise = inside(self.split(zs)[0])
        return np.hstack([noise, np.zeros((len(noise), self.memory))])

    # -------------------------------------------------------------------------------------------- what was made for x
    def inside_controls(self, us: np.ndarray | None) -> np.ndarray | None:
        """Controls of the system inside: here the same."""
        return us

    def lift(self, inner: Any) -> Any:
        """A cost or a residual made for the system inside, as one for this system.

        Raises TypeError if it is neither.
        """
        inner = inner.for_system(self.system) if hasattr(inner, "for_system") else inner
        if all(hasattr(inner, name) for name in ("check", "value", "accumulate", "accumulate_curvature")):
            return LiftedCost(self, inner)
        if all(hasattr(inner, name) for name in ("nr", "evaluate", "jacobians", "hessian_products")):
            return LiftedResidual(self, inner)
        raise TypeError(f"lift: got {type(inner).__name__}, wanted a cost or a residual")


class ExpandedTogether(ExtendedSystem):
    """Base of extended systems that write all blocks of an expansion in one pass, by `_expand`."""

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
        raise NotImplementedError


def expansion_of(system: Any, x: np.ndarray, u: Any, lam: np.ndarray | None, first: bool) -> tuple[Any, Any]:
    """(fx, fu) of a system if `first`, else None, and its (Hxx, Hux, Huu) along lam, None without one."""
    joint = capability(system, JointExpansion)
    if lam is not None and first and joint is not None:
        N, n, m = len(u), lam.shape[1], u.shape[1]
        f, H = [np.empty((N, n, k)) for k in (n, m)], [np.empty((N, j, k)) for j, k in ((n, n), (m, n), (m, m))]
        joint.write_expansion(x, u, lam, *f, *H)
        return f, H
    return system.linearize(x, u) if first else None, None if lam is None else system.hessian_products(x, u, lam)


def _function(method: Callable[..., Any]) -> Callable[[ExtendedSystem, Any], Any]:
    """Forwards a function of the system inside by a method that takes it as its first argument."""
    return lambda system, offered: partial(method, system, offered)


def _unchanged(system: ExtendedSystem, offered: Any) -> Any:
    return offered


FORWARDED: dict[str, Callable[[Any, Any], Any]] = {
    "difference_with_jacobian": _function(ExtendedSystem._difference_with_jacobian),
    "integrate_jacobian": _function(ExtendedSystem._integrate_jacobian),
    **dict.fromkeys(("window", "refined", "resimulated", "with_model"), _function(ExtendedSystem._around)),
    "write_expansion": lambda system, offered: partial(system._write_expansion, offered),
    "parameter_gradient": lambda system, offered: partial(system._parameter_gradient, offered),
    "serves": ExtendedSystem._serves,
    "state_space": ExtendedSystem._state_space,
    "control_speeds": lambda system, offered: system._control_speeds(offered),
    "joint_feedback": lambda system, offered: system._joint_feedback(offered),
    "neutral_state": lambda system, x: system.state(x),
    "state_limits": _function(ExtendedSystem._state_limits),
    **dict.fromkeys(("state_names", "tangent_names"), lambda system, names: system._with_names_before(names)),
    "tangent_units": lambda system, units: (*units, *("",) * system.memory),
    **dict.fromkeys(("horizon", "durations", "scenery", "solids", "control_names", "control_limits"), _unchanged),
    "contact_frames": _unchanged,
    "joint_efforts": _function(lambda system, inside, us: inside(system.inside_controls(us))),
    "plain_tangent": _unchanged,
    "step_noise": _function(ExtendedSystem._step_noise),
    **dict.fromkeys(("phase_starts", "start_advice", "integrator_order", "single_joints"), _unchanged),
    **dict.fromkeys(
        (
            "check_state",
            "check_start",
            "quasi_static",
            "skeleton",
            "body_placements",
            "center_of_mass",
            "quantities",
            "contact_points",
            "contact_forces",
            "joint_inertias",
        ),
        _function(ExtendedSystem._of_states),
    ),
}
"""How the capabilities of the system inside become those of one around it."""


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
