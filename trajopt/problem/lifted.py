"""Costs and residuals of a state x and controls u, made to serve where the control before, p, is part of the state."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from trajopt.costs import Cost, Quadratic
from trajopt.interfaces.adjustable import Tangents, gradient_by
from trajopt.interfaces.owners import Subject, subject_of
from trajopt.interfaces.residual import Residual, at_knots, at_times, component_names
from trajopt.interfaces.system import System
from trajopt.problem.objective import Term

if TYPE_CHECKING:
    from trajopt.problem.extended_system import ExtendedSystem


class WithControls(NamedTuple):
    """The subject of terms of a state with the control before, or other numbers that are remembered, or of lifted
    ones."""

    inside: Subject
    count: int
    remembered: str = "controls"

    def __str__(self) -> str:
        return f"{self.inside}, with {self.count} {self.remembered} before"

    def unlike(self, other: Any) -> str:
        """See `trajopt.interfaces.owners.Subject`."""
        alike = isinstance(other, WithControls) and other[1:] == self[1:]
        return self.inside.unlike(other.inside) if alike else f"not for {other}"


def _lifted(inner: object, system: "ExtendedSystem") -> WithControls | None:
    """What a cost or a residual was made for, with the control before."""
    subject = subject_of(inner)
    return None if subject is None else WithControls(subject, system.memory, system.remembers)


def check_dimensions(cost: str, made_for: Any, system: System) -> None:
    """Raise ValueError if the system has other dimensions, or another time step, than a cost was made for."""
    wanted = made_for.nx, made_for.ndx, made_for.nu, made_for.dt
    got = system.nx, system.ndx, system.nu, system.dt
    if got != wanted:
        raise ValueError(f"{cost}: made for a system with (nx, ndx, nu, dt) = {wanted}, got one with {got}")


def inside(system: "ExtendedSystem", at: Tangents) -> Tangents:
    """Points and a direction of the system inside."""
    dx = np.ascontiguousarray(at.dx[:, : system.system.ndx])
    return Tangents(system.split(at.xs)[0], system.inside_controls(at.us), dx, system.inside_controls(at.du))


class LiftedCost:
    """A cost of (x, u) as one of ((x, p), u)."""

    def __init__(self, system: "ExtendedSystem", cost: Cost) -> None:
        self.system, self.cost = system, cost
        self.knots, self.at = getattr(cost, "knots", None), getattr(cost, "at", None)
        self.made_for = _lifted(cost, system)
        self.name = Term(cost, None, 1.0, False).name

    def check(self, system: System, terminal: bool) -> None:
        """Raise ValueError for a system of other dimensions, or whatever the cost inside raises."""
        check_dimensions("lifted cost", self.system, system)
        self.cost.check(self.system.system, terminal)

    def placed(self, system: System, knots: np.ndarray, rows: np.ndarray, times: np.ndarray) -> "LiftedCost":
        """See `trajopt.costs.Cost`."""
        placed = getattr(self.cost, "placed", None)
        inside = self.cost if placed is None else placed(self.system.system, knots, rows, times)
        return self if inside is self.cost else LiftedCost(self.system, inside)

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

    def gradient_by(self, name: str, at: Tangents, value: np.ndarray, slope: np.ndarray) -> np.ndarray | None:
        """See `trajopt.interfaces.adjustable.AttributeGradient`."""
        return gradient_by(self.cost, name, inside(self.system, at), value, slope)

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

    def __init__(self, system: "ExtendedSystem", residual: Residual) -> None:
        self.system, self.residual, self.nr = system, residual, residual.nr
        self.made_for, self.component_names = _lifted(residual, system), component_names(residual)
        self.name = getattr(residual, "name", "") or type(residual).__name__

    def at_times(self, times: np.ndarray) -> "LiftedResidual":
        """See `trajopt.interfaces.residual.KnotByKnotResidual`."""
        return self._with(at_times(self.residual, times))

    def at_knots(self, knots: np.ndarray) -> "LiftedResidual":
        """See `trajopt.interfaces.residual.KnotByKnotResidual`."""
        return self._with(at_knots(self.residual, knots))

    def _with(self, residual: Residual) -> "LiftedResidual":
        return self if residual is self.residual else type(self)(self.system, residual)

    def _widened(self, block: np.ndarray) -> np.ndarray:
        """The block with columns of zeros for p."""
        return np.concatenate([block, np.zeros((*block.shape[:-1], self.system.memory))], axis=-1)

    def evaluate(self, xs: np.ndarray, us: np.ndarray | None) -> np.ndarray:
        """r (K, nr)."""
        return self.residual.evaluate(self.system.split(xs)[0], self.system.inside_controls(us))

    def jacobians(self, xs: np.ndarray, us: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
        """rx (K, nr, ndx + nu) and ru (K, nr, nu) or None."""
        rx, ru = self.residual.jacobians(self.system.split(xs)[0], self.system.inside_controls(us))
        return self._widened(rx), None if ru is None else self._with_other_controls(ru, 2)

    def gradient_by(self, name: str, at: Tangents, value: np.ndarray, slope: np.ndarray) -> np.ndarray | None:
        """See `trajopt.interfaces.adjustable.AttributeGradient`."""
        return gradient_by(self.residual, name, inside(self.system, at), value, slope)

    def hessian_products(
        self, xs: np.ndarray, us: np.ndarray | None, mu: np.ndarray
    ) -> tuple[np.ndarray | None, np.ndarray | None, np.ndarray | None]:
        """Second derivatives of mu_t'r."""
        inside = self.system.split(xs)[0], self.system.inside_controls(us)
        Hxx, Hux, Huu = self.residual.hessian_products(*inside, mu)
        Hzz = None if Hxx is None else self._widened(self._widened(Hxx).swapaxes(1, 2)).swapaxes(1, 2)
        Huz = None if Hux is None else self._with_other_controls(self._widened(Hux), 1)
        return Hzz, Huz, None if Huu is None else self._with_other_controls(self._with_other_controls(Huu, 1), 2)

    def _with_other_controls(self, block: np.ndarray, axis: int) -> np.ndarray:
        """The block with zeros for controls that the system inside does not have."""
        more = self.system.nu - self.system.system.nu
        return block if more == 0 else np.pad(block, [(0, more * (i == axis)) for i in range(block.ndim)])
