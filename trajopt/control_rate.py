"""A cost of control rates: the previous control becomes part of the state.

With z = (x, p), p the control before, and tangent dz = (dx, dp), the system F and the cost

    F(z, u) = (f(x, u), u),        l(z, u) = 1/2 sum_i w_i ((u_i - p_i)/dt)^2

have only blocks of f's derivatives, and constants:

    F_z = [[f_x, 0], [0, 0]]       F_u = [[f_u], [I]]           lam'F'' = (lam_x'f'') in the blocks of x and u
    l_u = W (u - p)/dt^2 = -l_p    l_uu = l_pp = W/dt^2 = -l_up

Costs and residuals made for the system inside are lifted: they see x and u, and know nothing of p.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from trajopt.cost_kernels import add_rates, weighted_squares
from trajopt.costs import Cost, Quadratic
from trajopt.costs.knot_rows import as_rows, check_knots, common_knots, weight_rows
from trajopt.residual import Residual
from trajopt.stepwise import closed_loop_by_steps
from trajopt.system import System, as_manifold, knot_durations, state_array, window
from trajopt.validation import scalar_or_vector

PICTURES = ("skeleton", "contact_points", "contact_forces", "center_of_mass")
"""What a system may say of its pictures, as functions of its states."""


class ControlRateSystem:
    """Any system with the previous control appended to its state: z = (x, u_before), tangent (dx, du_before).

    Parameters
    ----------
    system : System
        With state x (nx), tangent (ndx) and controls u (nu); its time step and controls remain.

    Attributes
    ----------
    nx, ndx : those of the system inside, plus nu.
    """

    semi_implicit = False

    def __init__(self, system: System) -> None:
        self.system: Any = system
        self.nx, self.ndx, self.nu = system.nx + system.nu, system.ndx + system.nu, system.nu
        self.dt = system.dt
        self._manifold = as_manifold(system)
        self.euclidean = self._manifold is None
        for name in PICTURES:
            if hasattr(system, name):
                setattr(self, name, partial(self._of_system, name))
        if hasattr(system, "window"):
            self.horizon = self.system.horizon
            self.durations = knot_durations(system, self.horizon)
            self.window = self._window

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

    def check_state(self, xs: np.ndarray) -> None:
        """Raise ValueError if one of the states xs (K, nx + nu) is none for the system inside."""
        check = getattr(self.system, "check_state", None)
        if check is not None:
            check(self.split(xs)[0])

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

    def _window(self, start: int, stop: int) -> ControlRateSystem:
        return ControlRateSystem(window(self.system, start, stop))

    def _of_system(self, name: str, zs: np.ndarray, *us: np.ndarray) -> np.ndarray:
        """What the function of this name of the system inside says."""
        return getattr(self.system, name)(self.split(zs)[0], *us)

    # -------------------------------------------------------------------------------------------- motion
    def step(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Next state (f(x, u), u), one point or a batch."""
        return _joined(self.system.step(self.split(x)[0], u), np.asarray(u))

    def rollout(self, x0: np.ndarray, us: np.ndarray) -> np.ndarray:
        """States (N+1, nx + nu) under the controls us (N, nu)."""
        x, before = self.split(x0)
        return _joined(self.system.rollout(x, us), np.vstack([before, us]))

    def closed_loop_rollout(
        self,
        x0: np.ndarray,
        xs: np.ndarray,
        us: np.ndarray,
        k: np.ndarray,
        K: np.ndarray,
        alphas: np.ndarray,
        gaps: np.ndarray | None = None,
        lower: np.ndarray | None = None,
        upper: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """See `System.closed_loop_rollout`; one step of all candidates after another."""
        return closed_loop_by_steps(self, x0, xs, us, k, K, alphas, gaps, lower, upper)

    # -------------------------------------------------------------------------------------------- expansions
    def linearize(self, xs: np.ndarray, us: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """F_z (N, ndx + nu, ndx + nu) and F_u (N, ndx + nu, nu)."""
        N, n = len(us), self.system.ndx
        Fz, Fu = np.zeros((N, self.ndx, self.ndx)), np.zeros((N, self.ndx, self.nu))
        Fz[:, :n, :n], Fu[:, :n] = self.system.linearize(self.split(xs)[0], us)
        Fu[:, n:] = np.eye(self.nu)
        return Fz, Fu

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


def _joined(x: np.ndarray, p: np.ndarray) -> np.ndarray:
    """(x, p), one of which may be a single point while the other is a batch."""
    batch = np.broadcast_shapes(x.shape[:-1], p.shape[:-1])
    return np.concatenate([np.broadcast_to(a, (*batch, a.shape[-1])) for a in (x, p)], axis=-1)


def _check_system(cost: str, made_for: ControlRateSystem, system: System) -> None:
    """Raise ValueError if the system has other dimensions, or another time step, than a cost was made for."""
    wanted = made_for.nx, made_for.ndx, made_for.nu, made_for.dt
    got = system.nx, system.ndx, system.nu, system.dt
    if got != wanted:
        raise ValueError(f"{cost}: made for a system with (nx, ndx, nu, dt) = {wanted}, got one with {got}")


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

    def check(self, system: System, terminal: bool) -> None:
        """Raise ValueError at the terminal knot, or for a system of other dimensions."""
        if terminal:
            raise ValueError("terminal_costs: got a ControlRateCost, wanted costs of the state")
        _check_system("ControlRateCost", self.system, system)

    def value(self, xs: np.ndarray, us: np.ndarray | None) -> np.ndarray:
        """Cost (K,) at xs (K, nx) and us (K, nu)."""
        assert us is not None
        check_knots("ControlRateCost", self.knots, us)
        return weighted_squares(us, self.system.split(xs)[1], self._weights)

    def accumulate(self, xs: np.ndarray, us: np.ndarray | None, scale: float, target: Quadratic) -> None:
        """Add scale times gradient and Hessian, which is exact."""
        assert us is not None
        check_knots("ControlRateCost", self.knots, us)
        add_rates(us, self.system.split(xs)[1], self._weights, scale, *target)

    def accumulate_curvature(self, xs: np.ndarray, us: np.ndarray | None, scale: float, target: Quadratic) -> None:
        """Nothing: the rates are linear in state and control."""


class LiftedCost:
    """A cost of (x, u) as one of ((x, p), u)."""

    def __init__(self, system: ControlRateSystem, cost: Cost) -> None:
        self.system, self.cost = system, cost
        self.knots = getattr(cost, "knots", None)

    def check(self, system: System, terminal: bool) -> None:
        """Raise ValueError for a system of other dimensions, or whatever the cost inside raises."""
        _check_system("lifted cost", self.system, system)
        self.cost.check(self.system.system, terminal)

    def value(self, xs: np.ndarray, us: np.ndarray | None) -> np.ndarray:
        """Cost (K,) at xs (K, nx + nu) and us (K, nu)."""
        return self.cost.value(self.system.split(xs)[0], us)

    def accumulate(self, xs: np.ndarray, us: np.ndarray | None, scale: float, target: Quadratic) -> None:
        """Add scale times gradient and Gauss-Newton Hessian."""
        inside = self._target(target)
        self.cost.accumulate(self.system.split(xs)[0], us, scale, inside)
        self._add(inside, target)

    def accumulate_curvature(self, xs: np.ndarray, us: np.ndarray | None, scale: float, target: Quadratic) -> None:
        """Add scale times the residual curvature."""
        inside = self._target(target)
        self.cost.accumulate_curvature(self.system.split(xs)[0], us, scale, inside)
        self._add(inside, target)

    def _target(self, target: Quadratic) -> Quadratic:
        """Zeros where the cost inside adds to x; controls are the same, so it adds to those of the target itself."""
        K, n = len(target.lx), self.system.system.ndx
        lux = None if target.lux is None else np.zeros((K, self.system.nu, n))
        return target._replace(lx=np.zeros((K, n)), lxx=np.zeros((K, n, n)), lux=lux)

    def _add(self, inside: Quadratic, target: Quadratic) -> None:
        n = self.system.system.ndx
        target.lx[:, :n] += inside.lx
        target.lxx[:, :n, :n] += inside.lxx
        if target.lux is not None:
            target.lux[:, :, :n] += inside.lux


class LiftedResidual:
    """A residual r(x, u) as one of ((x, p), u); for costs and constraints."""

    def __init__(self, system: ControlRateSystem, residual: Residual) -> None:
        self.system, self.residual, self.nr = system, residual, residual.nr

    def _widened(self, block: np.ndarray) -> np.ndarray:
        """The block with columns of zeros for p."""
        return np.concatenate([block, np.zeros((*block.shape[:-1], self.system.nu))], axis=-1)

    def evaluate(self, xs: np.ndarray, us: np.ndarray | None) -> np.ndarray:
        """r (K, nr)."""
        return self.residual.evaluate(self.system.split(xs)[0], us)

    def jacobians(self, xs: np.ndarray, us: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
        """rx (K, nr, ndx + nu) and ru (K, nr, nu) or None."""
        rx, ru = self.residual.jacobians(self.system.split(xs)[0], us)
        return self._widened(rx), ru

    def hessian_products(
        self, xs: np.ndarray, us: np.ndarray | None, mu: np.ndarray
    ) -> tuple[np.ndarray | None, np.ndarray | None, np.ndarray | None]:
        """Second derivatives of mu_t'r."""
        Hxx, Hux, Huu = self.residual.hessian_products(self.system.split(xs)[0], us, mu)
        Hzz = None if Hxx is None else self._widened(self._widened(Hxx).swapaxes(1, 2)).swapaxes(1, 2)
        return Hzz, None if Hux is None else self._widened(Hux), Huu
