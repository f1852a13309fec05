"""Systems that remember numbers of the knot before as part of their state, as the controls.

With z = (x, p), p what is remembered, a linear function of state and control, and tangent dz = (dx, dp), the system

    F(z, u) = (f(x, u), p+)

has only blocks of f's derivatives, and constants:

    F_z = [[f_x, 0], [p+_x, 0]]    F_u = [[f_u], [p+_u]]        lam'F'' = (lam_x'f'') in the blocks of x and u

Costs and residuals made for the system inside are lifted: they see x and u, and know nothing of p.

What the system inside offers besides (`trajopt.capabilities`) is offered here too, or refused with a reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from trajopt.capabilities import AccelerationControlled, capability
from trajopt.interfaces.stepwise import ClosedLoopRollouts
from trajopt.interfaces.system import System, as_manifold, check_system, control_names, state_array
from trajopt.problem.lifted import LiftedCost, LiftedResidual, WithControls
from trajopt.validation import scalar_or_vector

REFUSED = {
    "difference_residual": "it sums squares over states of the system inside, without the control before; "
    "difference_with_jacobian serves costs of both",
    "idle": "a control that moves nothing is the control before of the next knot all the same",
    "semi_implicit": "the rows of the control before do not have that structure",
    "semi_implicit_from": "the rows of the control before do not have that structure",
    "timed": "rates are counted by the system's own time step",
    "durations_along": "rates are counted by the system's own time step",
    "acceleration_control": "rates are those of the controls, which would have to be accelerations",
    "nq": "the numbers of a state behind its positions are velocities and the control before",
}
"""Capabilities of the system inside that one with a memory has not got, and why."""


class RememberingSystem(ClosedLoopRollouts):
    """Base of systems with numbers of the knot before, p, appended to the state: z = (x, p), tangent (dx, dp).

    Parameters
    ----------
    system : System, the one inside
    memory : int, how many numbers it remembers

    Attributes
    ----------
    nx, ndx : those of the system inside, plus `memory`.
    """

    remembers = "controls"
    """What p is, in words."""

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

    def _remembered(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        """p+ (..., memory) at states x (..., nx) of the system inside and controls u (..., nu)."""
        raise NotImplementedError

    def _write_memory(self, px: np.ndarray, pu: np.ndarray) -> None:
        """Write the derivatives of p+ that are not zero, px (N, memory, ndx inside), pu (N, memory, nu)."""
        raise NotImplementedError

    def _names_before(self) -> Sequence[str]:
        """Names (memory,) of what is remembered, without "before"."""
        raise NotImplementedError

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
        return _joined(self.system.integrate(inside, d), p + dp)

    def difference(self, x0: np.ndarray, x1: np.ndarray) -> np.ndarray:
        """Tangent vector from x0 to x1."""
        (a, p), (b, q) = self.split(x0), self.split(x1)
        return _joined(self.system.difference(a, b), q - p)

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
        return _joined(r, q - p), J

    def _around(self, inside, *arguments):
        """The system inside that a function of it makes."""
        return type(self)(inside(*arguments))

    def _of_states(self, inside, zs, *us):
        """What a function of the states of the system inside says."""
        return inside(self.split(zs)[0], *us)

    def _with_names_before(self, names):
        return (*names, *(f"{name} before" for name in self._names_before()))

    def _serves(self, subjects):
        return tuple(WithControls(subject, self.memory, self.remembers) for subject in subjects)

    def _control_speeds(self, offered):
        """Those of the system inside, which read the velocities in front of what is remembered."""
        return np.hstack([offered[0], np.zeros((self.nu, self.memory))]), offered[1]

    def _state_limits(self, inside, position=True, velocity=True):
        """Those of the system inside, and none of what is remembered."""
        lower, upper = inside(position=position, velocity=velocity)
        return np.append(lower, np.full(self.memory, -np.inf)), np.append(upper, np.full(self.memory, np.inf))

    # -------------------------------------------------------------------------------------------- motion
    def step(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Next state (f(x, u), p+), one point or a batch."""
        x = self.split(x)[0]
        return _joined(self.system.step(x, u), self._remembered(x, np.asarray(u)))

    def rollout(self, x0: np.ndarray, us: np.ndarray) -> np.ndarray:
        """States (N+1, nx + memory) under the controls us (N, nu)."""
        x, before = self.split(x0)
        xs = self.system.rollout(x, us)
        return _joined(xs, np.vstack([before, self._remembered(xs[:-1], np.asarray(us))]))

    # -------------------------------------------------------------------------------------------- expansions
    def linearize(self, xs: np.ndarray, us: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """F_z (N, ndx + memory, ndx + memory) and F_u (N, ndx + memory, nu)."""
        N, n = len(us), self.system.ndx
        Fz, Fu = np.zeros((N, self.ndx, self.ndx)), np.zeros((N, self.ndx, self.nu))
        Fz[:, :n, :n], Fu[:, :n] = self.system.linearize(self.split(xs)[0], us)
        self._write_memory(Fz[:, n:, :n], Fu[:, n:])
        return Fz, Fu

    def _write_expansion(self, inside, zs, us, lam, *outputs):
        """F_z, F_u, Hzz, Huz, Huu of the blocks that the system inside writes."""
        Fz, Fu, Hzz, Huz, Huu = outputs
        N, n, m = len(us), self.system.ndx, self.nu
        fx, fu, Hxx, Hux = (np.empty(shape) for shape in ((N, n, n), (N, n, m), (N, n, n), (N, m, n)))
        inside(self.split(zs)[0], us, self._split_tangent(lam)[0], fx, fu, Hxx, Hux, Huu)
        for whole in (Fz, Fu, Hzz, Huz):
            whole[...] = 0.0
        Fz[:, :n, :n], Fu[:, :n], Hzz[:, :n, :n], Huz[:, :, :n] = fx, fu, Hxx, Hux
        self._write_memory(Fz[:, n:, :n], Fu[:, n:])

    def hessian_products(
        self, xs: np.ndarray, us: np.ndarray, lam: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Hessians of lam_t'F per knot, lam (N, ndx + memory)."""
        N, n = len(us), self.system.ndx
        Hxx, Hux, Huu = self.system.hessian_products(self.split(xs)[0], us, self._split_tangent(lam)[0])
        Hzz, Huz = np.zeros((N, self.ndx, self.ndx)), np.zeros((N, self.nu, self.ndx))
        Hzz[:, :n, :n], Huz[:, :, :n] = Hxx, Hux
        return Hzz, Huz, Huu

    def hessians(self, xs: np.ndarray, us: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Full tensors of F, output index first."""
        N, n, m = len(us), self.system.ndx, self.ndx
        Fzz, Fuz, Fuu = np.zeros((N, m, m, m)), np.zeros((N, m, self.nu, m)), np.zeros((N, m, self.nu, self.nu))
        Fzz[:, :n, :n, :n], Fuz[:, :n, :, :n], Fuu[:, :n] = self.system.hessians(self.split(xs)[0], us)
        return Fzz, Fuz, Fuu

    # -------------------------------------------------------------------------------------------- what was made for x
    def inside_controls(self, us: np.ndarray | None) -> np.ndarray | None:
        """Controls of the system inside: here the same."""
        return us

    def lift(self, inner: Any) -> Any:
        """A cost or a residual made for the system inside, as one for this system.

        Raises TypeError if it is neither.
        """
        if all(hasattr(inner, name) for name in ("check", "value", "accumulate", "accumulate_curvature")):
            return LiftedCost(self, inner)
        if all(hasattr(inner, name) for name in ("nr", "evaluate", "jacobians", "hessian_products")):
            return LiftedResidual(self, inner)
        raise TypeError(f"lift: got {type(inner).__name__}, wanted a cost or a residual")


class ControlRateSystem(RememberingSystem):
    """Any system with the previous control appended to its state: z = (x, u_before), tangent (dx, du_before).

    Parameters
    ----------
    system : System
        With state x (nx), tangent (ndx) and controls u (nu); its time step and controls remain.

    Attributes
    ----------
    nx, ndx : those of the system inside, plus nu.

    Raises
    ------
    ValueError
        If the system takes accelerations for controls (``formulation="inverse"``).

    Notes
    -----
    It has most capabilities of the system inside; those that it cannot carry raise an AttributeError
    that says why.
    """

    def __init__(self, system: System) -> None:
        check_system(system, "nx", "ndx", "nu", "dt", "integrate", "difference", "step")
        super().__init__(system, system.nu)

    def state(self, x: ArrayLike, u_before: ArrayLike = 0.0) -> np.ndarray:
        """z = (x, u_before), x (nx,) of the system inside, u_before a number or (nu,)."""
        before = np.full(self.nu, 1.0) * scalar_or_vector("u_before", u_before, self.nu)
        return np.concatenate([state_array(self.system, "x", x), before])

    def _remembered(self, x, u):
        return u

    def _write_memory(self, px, pu):
        pu[:] = np.eye(self.nu)

    def _names_before(self):
        return control_names(self.system) or [f"u_{i + 1}" for i in range(self.nu)]


def _function(method: Callable[..., Any]) -> Callable[[RememberingSystem, Any], Any]:
    """Forwards a function of the system inside by a method that takes it as its first argument."""
    return lambda system, offered: partial(method, system, offered)


def _unchanged(system: RememberingSystem, offered: Any) -> Any:
    return offered


FORWARDED: dict[str, Callable[[Any, Any], Any]] = {
    "difference_with_jacobian": _function(RememberingSystem._difference_with_jacobian),
    **dict.fromkeys(("window", "refined", "with_model"), _function(RememberingSystem._around)),
    "write_expansion": _function(RememberingSystem._write_expansion),
    "serves": RememberingSystem._serves,
    "control_speeds": lambda system, offered: system._control_speeds(offered),
    "neutral_state": lambda system, x: system.state(x),
    "state_limits": _function(RememberingSystem._state_limits),
    **dict.fromkeys(("state_names", "tangent_names"), lambda system, names: system._with_names_before(names)),
    **dict.fromkeys(("horizon", "durations", "scenery", "solids", "control_names", "control_limits"), _unchanged),
    **dict.fromkeys(("phase_starts", "integrator_order", "single_joints", "joint_efforts"), _unchanged),
    **dict.fromkeys(
        (
            "check_state",
            "check_start",
            "quasi_static",
            "skeleton",
            "body_placements",
            "center_of_mass",
            "contact_points",
            "contact_forces",
        ),
        _function(RememberingSystem._of_states),
    ),
}
"""How the capabilities of the system inside become those of one with a memory."""


def _is_outer(system: Any, kind: type | None) -> bool:
    return isinstance(system, RememberingSystem) and not (kind is not None and isinstance(system, kind))


def innermost(system: Any, kind: type | None = None) -> Any:
    """The system inside all that remember, or the first of them that is of this kind."""
    return innermost(system.system, kind) if _is_outer(system, kind) else system


def lifted(system: Any, inner: Any, kind: type | None = None) -> Any:
    """A cost or residual of `innermost` as one for the system."""
    return system.lift(lifted(system.system, inner, kind)) if _is_outer(system, kind) else inner


def _joined(x: np.ndarray, p: np.ndarray) -> np.ndarray:
    """(x, p), one of which may be a single point while the other is a batch."""
    batch = np.broadcast_shapes(x.shape[:-1], p.shape[:-1])
    return np.concatenate([np.broadcast_to(a, (*batch, a.shape[-1])) for a in (x, p)], axis=-1)
