"""A cost of control rates: the previous control becomes part of the state.

With z = (x, p), p the control before, and tangent dz = (dx, dp), the system F and the cost

    F(z, u) = (f(x, u), u),        l(z, u) = 1/2 sum_i w_i ((u_i - p_i)/dt)^2

have only blocks of f's derivatives, and constants:

    F_z = [[f_x, 0], [0, 0]]       F_u = [[f_u], [I]]           lam'F'' = (lam_x'f'') in the blocks of x and u
    l_u = W (u - p)/dt^2 = -l_p    l_uu = l_pp = W/dt^2 = -l_up

Costs and residuals made for the system inside are lifted: they see x and u, and know nothing of p.

What the system inside offers besides (`trajopt.capabilities`) is offered here too, or refused with a reason.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from trajopt.capabilities import AccelerationControlled, capability
from trajopt.costs import Quadratic
from trajopt.costs.cost_kernels import add_rates, weighted_squares
from trajopt.costs.knot_rows import as_rows, check_knots, common_knots, weight_rows
from trajopt.interfaces.owners import state_space
from trajopt.interfaces.stepwise import ClosedLoopRollouts
from trajopt.interfaces.system import System, as_manifold, check_system, control_names, state_array
from trajopt.problem.lifted import LiftedCost, LiftedResidual, WithControls, check_dimensions
from trajopt.validation import check_rows, scalar_or_vector

REFUSED = {
    "difference_residual": "it sums squares over states of the system inside, without the control before; "
    "difference_with_jacobian serves costs of both",
    "idle": "a control that moves nothing is the control before of the next knot all the same",
    "semi_implicit": "the rows of the control before do not have that structure",
    "semi_implicit_from": "the rows of the control before do not have that structure",
    "acceleration_control": "rates are those of the controls, which would have to be accelerations",
    "nq": "the numbers of a state behind its positions are velocities and the control before",
}
"""Capabilities of the system inside that one with control rates has not got, and why."""


class ControlRateSystem(ClosedLoopRollouts):
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
        if capability(system, AccelerationControlled) is not None:
            raise ValueError(
                f"system: got a {type(system).__name__} that takes accelerations for controls, wanted one with "
                'formulation="forward", whose controls are torques: rates are those of the controls'
            )
        self.system: Any = system
        self.nx, self.ndx, self.nu = system.nx + system.nu, system.ndx + system.nu, system.nu
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
        return f"ControlRateSystem({self.system!r})"

    # -------------------------------------------------------------------------------------------- the state manifold
    def state(self, x: ArrayLike, u_before: ArrayLike = 0.0) -> np.ndarray:
        """z = (x, u_before), x (nx,) of the system inside, u_before a number or (nu,)."""
        before = np.full(self.nu, 1.0) * scalar_or_vector("u_before", u_before, self.nu)
        return np.concatenate([state_array(self.system, "x", x), before])

    def split(self, zs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """States x (..., nx) of the system inside and controls before them (..., nu)."""
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
        return ControlRateSystem(inside(*arguments))

    def _of_states(self, inside, zs, *us):
        """What a function of the states of the system inside says."""
        return inside(self.split(zs)[0], *us)

    def _with_controls_before(self, names):
        controls = control_names(self.system) or [f"u_{i + 1}" for i in range(self.nu)]
        return (*names, *(f"{name} before" for name in controls))

    def _serves(self, subjects):
        return tuple(WithControls(subject, self.nu) for subject in subjects)

    def _state_limits(self, inside, position=True, velocity=True):
        """Those of the system inside, and none of the controls before."""
        lower, upper = inside(position=position, velocity=velocity)
        return np.append(lower, np.full(self.nu, -np.inf)), np.append(upper, np.full(self.nu, np.inf))

    # -------------------------------------------------------------------------------------------- motion
    def step(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Next state (f(x, u), u), one point or a batch."""
        return _joined(self.system.step(self.split(x)[0], u), np.asarray(u))

    def rollout(self, x0: np.ndarray, us: np.ndarray) -> np.ndarray:
        """States (N+1, nx + nu) under the controls us (N, nu)."""
        x, before = self.split(x0)
        return _joined(self.system.rollout(x, us), np.vstack([before, us]))

    # -------------------------------------------------------------------------------------------- expansions
    def linearize(self, xs: np.ndarray, us: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """F_z (N, ndx + nu, ndx + nu) and F_u (N, ndx + nu, nu)."""
        N, n = len(us), self.system.ndx
        Fz, Fu = np.zeros((N, self.ndx, self.ndx)), np.zeros((N, self.ndx, self.nu))
        Fz[:, :n, :n], Fu[:, :n] = self.system.linearize(self.split(xs)[0], us)
        Fu[:, n:] = np.eye(self.nu)
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
        Fu[:, n:] = np.eye(m)

    def hessian_products(
        self, xs: np.ndarray, us: np.ndarray, lam: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Hessians of lam_t'F per knot, lam (N, ndx + nu)."""
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
    def lift(self, inner: Any) -> Any:
        """A cost or a residual made for the system inside, as one for this system.

        Raises TypeError if it is neither.
        """
        if all(hasattr(inner, name) for name in ("check", "value", "accumulate", "accumulate_curvature")):
            return LiftedCost(self, inner)
        if all(hasattr(inner, name) for name in ("nr", "evaluate", "jacobians", "hessian_products")):
            return LiftedResidual(self, inner)
        raise TypeError(f"lift: got {type(inner).__name__}, wanted a cost or a residual")


def _function(method: Callable[..., Any]) -> Callable[[ControlRateSystem, Any], Any]:
    """Forwards a function of the system inside by a method that takes it as its first argument."""
    return lambda system, offered: partial(method, system, offered)


def _unchanged(system: ControlRateSystem, offered: Any) -> Any:
    return offered


FORWARDED: dict[str, Callable[[ControlRateSystem, Any], Any]] = {
    "difference_with_jacobian": _function(ControlRateSystem._difference_with_jacobian),
    **dict.fromkeys(("window", "refined", "with_model"), _function(ControlRateSystem._around)),
    "write_expansion": _function(ControlRateSystem._write_expansion),
    "serves": ControlRateSystem._serves,
    "neutral_state": ControlRateSystem.state,
    "state_limits": _function(ControlRateSystem._state_limits),
    **dict.fromkeys(("state_names", "tangent_names"), ControlRateSystem._with_controls_before),
    **dict.fromkeys(("horizon", "durations", "scenery", "solids", "control_names", "control_limits"), _unchanged),
    **dict.fromkeys(("integrator_order", "single_joints", "joint_efforts"), _unchanged),
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
        _function(ControlRateSystem._of_states),
    ),
}
"""How the capabilities of the system inside become those of one with control rates."""


def _joined(x: np.ndarray, p: np.ndarray) -> np.ndarray:
    """(x, p), one of which may be a single point while the other is a batch."""
    batch = np.broadcast_shapes(x.shape[:-1], p.shape[:-1])
    return np.concatenate([np.broadcast_to(a, (*batch, a.shape[-1])) for a in (x, p)], axis=-1)


class ControlRateCost:
    """1/2 sum_i w_i ((u_t - u_{t-1})_i/dt)^2, a running cost; u_{-1} is part of the initial state.

    Parameters
    ----------
    system : ControlRateSystem
    weights : number, (nu,) array, or (K, nu) with weights for each of K knots; non-negative

    Attributes
    ----------
    knots : K, the number of knots at which it can be evaluated; None if the weights are constant.
    """

    def __init__(self, system: ControlRateSystem, weights: ArrayLike) -> None:
        if not isinstance(system, ControlRateSystem):
            raise TypeError(f"system: got {type(system).__name__}, wanted a trajopt.ControlRateSystem")
        self.system = system
        self.weights = np.full(system.nu, 1.0) * weight_rows(weights, system.nu)
        self.knots = common_knots("ControlRateCost", weights=self.weights)
        self._weights = as_rows(self.weights, system.nu) / system.dt**2
        self.made_for = state_space(system)

    def check(self, system: System, terminal: bool) -> None:
        """Raise ValueError at the terminal knot, or for a system of other dimensions."""
        if terminal:
            raise ValueError("terminal_costs: got a ControlRateCost, wanted costs of the state")
        check_dimensions("ControlRateCost", self.system, system)

    def value(self, xs: np.ndarray, us: np.ndarray | None) -> np.ndarray:
        """Cost (K,) at xs (K, nx) and us (K, nu)."""
        assert us is not None
        check_knots("ControlRateCost", self.knots, us)
        return weighted_squares(*self._controls(xs, us), self._weights)

    def accumulate(self, xs: np.ndarray, us: np.ndarray | None, scale: float, target: Quadratic) -> None:
        """Add scale times gradient and Hessian, which is exact."""
        assert us is not None
        check_knots("ControlRateCost", self.knots, us)
        n, m = self.system.ndx, self.system.nu
        for block, row in zip(target, ((n,), (m,), (n, n), (m, n), (m, m)), strict=True):
            assert block is not None
            check_rows("target", block, len(us), row)
        add_rates(*self._controls(xs, us), self._weights, scale, *target)

    def _controls(self, xs, us) -> tuple[np.ndarray, np.ndarray]:
        """us and the controls before, (K, nu) each."""
        before = self.system.split(xs)[1]
        check_rows("us", us, 0, (self.system.nu,))
        check_rows("xs", before, len(us), (self.system.nu,))
        return us, before

    def accumulate_curvature(self, xs: np.ndarray, us: np.ndarray | None, scale: float, target: Quadratic) -> None:
        """Nothing: the rates are linear in state and control."""
