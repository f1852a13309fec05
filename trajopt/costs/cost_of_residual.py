"""Costs of residuals: losses, activations and Gauss-Newton models of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from operator import is_
from typing import Any, NamedTuple, Self

import numpy as np

from dynamics.simd import by_address
from dynamics.simd.prepared_calls import PreparedCall, PreparedCalls, calls_of, checks_of
from dynamics.simd.squares import CLIPPED, MULTIPLIERS, KnotSum, ResidualWeights, multipliers
from dynamics.validation import as_array, as_choice, check_rows
from trajopt.costs.activations import QuadraticActivation, QuadraticBarrier, add_gauss_newton, prepared_gauss_newton
from trajopt.costs.cost import ONE_SIDED, ExpandedCost, Into, Quadratic, as_rows, check_knots
from trajopt.interfaces.residual import at_knots
from trajopt.interfaces.system import System
from trajopt.interfaces.terms import Tangents, gradient_by, summed_to

# --------------------------------------------------------------------------------------------
# A(r) of residuals: an activation and its weights, to second order.

WEIGHT_STEP = 1e-3
"""Relative, of differences by weights, to one side: weights are not below zero.  Exact where an activation is linear in
its weights, as most are."""


class Model(NamedTuple):
    """A to second order at K residuals: A_r (K, n), and A_rr (1 or K, n, n) or its diagonal (1 or K, n)."""

    gradient: np.ndarray
    hessian: np.ndarray

    def weights(self, scale: float) -> ResidualWeights:
        """scale times A_r and the diagonal that A_rr is."""
        diagonal = np.broadcast_to(self.hessian, self.gradient.shape)
        return ResidualWeights(scale * np.concatenate([self.gradient, diagonal], axis=1), MULTIPLIERS)


@by_address
def _add_shift(r, shift, shifted):
    """shifted = r + shift, shift (1 or K, n)"""
    next_shift = min(shift.shape[0] - 1, 1)
    for k in range(r.shape[0]):
        for i in range(r.shape[1]):
            shifted[k, i] = r[k, i] + shift[next_shift * k, i]


@by_address
def _scale_model(gradient, diagonal, scale, weights):
    """Write `Model.weights`, (K, 2 n)."""
    n, next_row = gradient.shape[1], min(diagonal.shape[0] - 1, 1)
    for k in range(gradient.shape[0]):
        for i in range(n):
            weights[k, i], weights[k, n + i] = scale * gradient[k, i], scale * diagonal[next_row * k, i]


class _PreparedResidual(NamedTuple):
    """Calls that evaluate a residual, less a reference; arrays of r (K, nr), and of rx and ru, None for zeros."""

    calls: tuple[Callable[[], Any], ...]
    r: np.ndarray
    rx: Any
    ru: Any


class Loss:
    """A(r) of residuals with n numbers.

    Parameters
    ----------
    weights : (1 or K, n) array
    activation : "quadratic" or an Activation

    Attributes
    ----------
    quadratic : whether A = 1/2 sum_i w_i r_i^2
    diagonal : whether A_rr is
    """

    def __init__(self, weights: np.ndarray, activation: Any) -> None:
        self.weights, self.quadratic = weights, is_quadratic(activation)
        self.activation = QuadraticActivation() if self.quadratic else activation
        self.activation.check(weights.shape[1])
        self.diagonal = self.quadratic
        if not self.quadratic:
            with np.errstate(all="ignore"):
                _, hessian = self.activation.derivatives(np.zeros((1, weights.shape[1])), weights[:1])
            self.diagonal = np.ndim(hessian) == 2

    def value(self, r: np.ndarray) -> np.ndarray:
        """A (K,) of the residuals r (K, n)."""
        check_rows("residual", r, 0, self.weights.shape[1:])
        return as_array("activation.value", self.activation.value(r, self.weights), (len(r),), finite=False)

    def prepared_value(self, r: np.ndarray, values: np.ndarray) -> Callable[[], Any] | None:
        """The call that writes A (K,) of the residuals r (K, n); None where the activation has none."""
        prepare = getattr(self.activation, "prepared_value", None)
        return None if prepare is None else prepare(r, self.weights, values)

    def prepared_derivatives(self, r: np.ndarray) -> tuple[Callable[[], Any], np.ndarray, np.ndarray] | None:
        """The call that writes A_r and A_rr, and these arrays; None where the activation has none."""
        prepare = getattr(self.activation, "prepared_derivatives", None)
        return None if prepare is None else prepare(r, self.weights)

    def by_weights(self, r: np.ndarray, dr: np.ndarray, value: np.ndarray, slope: np.ndarray) -> np.ndarray:
        """d/dw (K, n) of value A + slope A_r'dr at residuals r that change along dr (K, n); value, slope (K,)."""
        if self.quadratic:
            return value[:, None] * 0.5 * r**2 + slope[:, None] * r * dr
        weights = np.broadcast_to(self.weights, r.shape)
        scale = np.where(weights > 0.0, weights, max(float(weights.max()), 1e-3))
        total = np.zeros(r.shape)
        for i in range(r.shape[1]):
            h = WEIGHT_STEP * scale[:, i]
            for multiple, factor in ONE_SIDED:
                w = np.array(weights)
                w[:, i] += multiple * h
                gradient, _ = self.activation.derivatives(r, w)
                along = np.einsum("ti,ti->t", gradient, dr)
                total[:, i] += factor / h * (value * self.activation.value(r, w) + slope * along)
        return total

    def expand(self, r: np.ndarray) -> Model:
        """A to second order at the residuals r (K, n)."""
        gradient, hessian = self.activation.derivatives(r, self.weights)
        gradient = as_array("activation.derivatives, gradient", gradient, r.shape, finite=False)
        (K, n), shape = r.shape, np.shape(hessian)
        if shape[1:] not in ((n,), (n, n)) or shape[0] not in (1, K):
            raise ValueError(
                f"activation.derivatives, Hessian: returned shape {shape}, "
                f"expected {(K, n, n)}, or its diagonal {(K, n)}, or one knot of either"
            )
        return Model(gradient, np.ascontiguousarray(hessian, dtype=np.float64))


def is_quadratic(activation: Any) -> bool:
    """True if an argument `activation` is the quadratic one; raises if it is no activation."""
    if isinstance(activation, str):
        as_choice("activation", activation, ("quadratic",))
        return True
    for method in ("check", "value", "derivatives"):
        if not callable(getattr(activation, method, None)):
            raise TypeError(
                f"activation: got {type(activation).__name__}, expected 'quadratic' or a trajopt.Activation"
            )
    return isinstance(activation, QuadraticActivation)


# --------------------------------------------------------------------------------------------
# What a residual costs, and how that enters an expansion: costs and terms that stand for constraints alike.
#
#     value                 A(r)
#     gradient              J'A_r
#     Gauss-Newton Hessian  J'A_rr J           never indefinite, A being convex
#     residual curvature    sum_i (A_r)_i d2 r_i
#
# So A is known by what it makes of r: its value, A_r and A_rr (`Model`).  A residual that sums by itself adds up the
# rest from A_r and a diagonal A_rr (`trajopt.interfaces.residual.SummedResidual`), else its derivatives are multiplied
# here.


def sums(residual: Any) -> bool:
    """True for a `trajopt.interfaces.residual.SummedResidual` that sums by itself."""
    return getattr(residual, "sums_squares", False) and hasattr(residual, "add_expansion")


def evaluated(residual: Any, nr: int, xs: np.ndarray, us: np.ndarray | None) -> np.ndarray:
    """r (K, nr), its shape checked."""
    return as_array("residual.evaluate", residual.evaluate(xs, us), (len(xs), nr), finite=False)


def linearized(residual: Any, nr: int, xs: np.ndarray, us: np.ndarray | None) -> tuple[np.ndarray, Any, Any]:
    """r, rx, ru, in one pass if the residual offers it; the shape of r checked."""
    together = getattr(residual, "evaluate_with_jacobians", None)
    if together is None:
        return evaluated(residual, nr, xs, us), *residual.jacobians(xs, us)
    r, rx, ru = together(xs, us)
    return as_array("residual.evaluate_with_jacobians, r", r, (len(xs), nr), finite=False), rx, ru


class RowsInPlace:
    """What a residual prepares (`trajopt.interfaces.residual.PreparedResidual`), as a function that leaves its results
    in the same arrays at each call.

    Attributes
    ----------
    arrays : r (K, nr), rx and ru, None for those that there are none of; as at the points when it is made
    """

    def __init__(self, evaluate: Callable[[], tuple[Any, ...]]) -> None:
        self._evaluate = evaluate
        with np.errstate(all="ignore"):
            found = evaluate()
        self.arrays: tuple[Any, ...] = tuple([None if x is None else np.ascontiguousarray(x) for x in found])
        self._there = all(map(is_, self.arrays, found))

    def __call__(self) -> None:
        """Evaluate the residual."""
        for own, array in zip(self.arrays, self._evaluate(), strict=True):
            if own is not array and own is not None:
                own[...] = array

    @property
    def calls(self) -> tuple[PreparedCall, ...] | None:
        """See `dynamics.simd.prepared_calls.calls_of`."""
        return calls_of(self._evaluate) if self._there else None

    @property
    def checks(self) -> tuple[Callable[[], bool], ...]:
        """Those of what the residual prepares."""
        return checks_of(self._evaluate)


def prepared_rows(residual: Any, xs: np.ndarray, us: np.ndarray | None, jacobians: bool) -> RowsInPlace | None:
    """What the residual prepares; None where there is nothing."""
    prepare = getattr(residual, "prepared_rows", None)
    evaluate = None if prepare is None else prepare(xs, us, jacobians)
    return None if evaluate is None else RowsInPlace(evaluate)


def prepared_sum(residual: Any, wanted: KnotSum) -> Callable[[], float] | None:
    """What the residual prepares; None where it sums nothing by itself, or prepares nothing."""
    prepare = getattr(residual, "prepared_sum", None) if sums(residual) else None
    return None if prepare is None else prepare(wanted)


def along(residual: Any, nr: int, at: Tangents) -> tuple[np.ndarray, np.ndarray]:
    """r and its change (K, nr) along a direction."""
    xs, us, dx, du = at
    r, rx, ru = linearized(residual, nr, xs, us)
    dr = np.zeros(r.shape) if rx is None else np.einsum("tij,tj->ti", rx, dx)
    return r, dr if ru is None or du is None else dr + np.einsum("tij,tj->ti", ru, du)


def add_products(model: Model, rx: Any, ru: Any, scale: float, target: Quadratic) -> None:
    """Add scale times J'A_r and J'A_rr J, A to second order being the model."""
    shape = model.gradient.shape
    if rx is not None:
        rx = as_array("residual.jacobians, rx", rx, (*shape, target.lx.shape[1]), finite=False)
    if ru is not None and target.lu is not None:
        ru = as_array("residual.jacobians, ru", ru, (*shape, target.lu.shape[1]), finite=False)
    add_gauss_newton(*model, scale, rx, ru, target)


def add_curvature(residual: Any, xs: np.ndarray, us: np.ndarray | None, mu: np.ndarray, target: Quadratic) -> None:
    """Add sum_i mu_i d2 r_i, mu (K, nr), to the Hessians of the target."""
    if sums(residual):
        residual.add_expansion(KnotSum((0, len(xs)), xs, us, multipliers(mu), None, target))
        return
    blocks = residual.hessian_products(xs, us, mu)
    for name, H, into in zip(("Hxx", "Hux", "Huu"), blocks, target[2:], strict=True):
        if H is not None and into is not None:
            np.add(into, as_array(f"residual.hessian_products, {name}", H, into.shape, finite=False), out=into)


class CostOfResidual(ExpandedCost):
    """Base of the costs A(r - reference) of a residual.

    Attributes
    ----------
    residual : Residual
    nr : its numbers
    knots : the number of knots at which it can be evaluated; None for any
    """

    residual: Any
    reference: Any
    weights: np.ndarray
    nr: int
    knots: int | None
    _loss: Loss
    _diagonal: bool
    """True if A_rr is diagonal."""
    _shift: np.ndarray | None
    """-reference (1 or K, nr), None for zeros."""
    _knots: np.ndarray | None = None
    """The knots (K,) where it counts, of a problem in which its residual differs from knot to knot."""

    def __copy__(self) -> Self:
        """All attributes shared, for others to be set: in less time than `copy` takes to find out how."""
        new = object.__new__(type(self))
        vars(new).update(vars(self))
        return new

    def _set_loss(self, weights: np.ndarray, activation: Any, reference: np.ndarray | None = None) -> None:
        self._loss = Loss(as_rows(weights, self.nr), activation)
        self._diagonal = self._loss.diagonal
        self._set_shift(reference)

    def _set_shift(self, reference: np.ndarray | None) -> None:
        self._shift = None if reference is None or not reference.any() else -as_rows(reference, self.nr)

    def check(self, system: System, terminal: bool) -> None:
        """Accept any system: what the residual returns is checked at each use, when it is evaluated."""

    def _model(self, r: np.ndarray) -> Model:
        """A to second order at what the residual returns, r (K, nr)."""
        return self._loss.expand(r if self._shift is None else r + self._shift)

    def _there(self) -> Any:
        """The residual for points at the knots where it counts."""
        return self.residual if self._knots is None else at_knots(self.residual, self._knots)

    def _evaluate(self, xs: np.ndarray, us: np.ndarray | None) -> np.ndarray:
        check_knots(type(self).__name__, self.knots, xs)
        return evaluated(self._there(), self.nr, xs, us)

    def value(self, xs: np.ndarray, us: np.ndarray | None) -> np.ndarray:
        """Cost (K,) at xs (K, nx) and us (K, nu)."""
        r = self._evaluate(xs, us)
        return self._loss.value(r if self._shift is None else r + self._shift)

    def add_expansion(self, xs: np.ndarray, us: np.ndarray | None, scale: float, target: Into, curvature: Into) -> None:
        """See `trajopt.costs.cost.ExpandedCost`; the residual is evaluated once."""
        residual = self._there()
        if self._diagonal and sums(residual):
            weights = self._model(self._evaluate(xs, us)).weights(scale)
            residual.add_expansion(KnotSum((0, len(xs)), xs, us, weights, target, curvature))
            return
        check_knots(type(self).__name__, self.knots, xs)
        r, rx, ru = (self._evaluate(xs, us), None, None) if target is None else linearized(residual, self.nr, xs, us)
        model = self._model(r)
        if target is not None:
            add_products(model, rx, ru, scale, target)
        if curvature is not None:
            add_curvature(residual, xs, us, scale * model.gradient, curvature)

    def prepared_value(self, xs: np.ndarray, us: np.ndarray | None, values: np.ndarray) -> Callable[[], Any] | None:
        """See `trajopt.costs.cost.PreparedCost`."""
        found = self._prepared_residual(xs, us, False)
        call = None if found is None else self._loss.prepared_value(found.r, values)
        return None if found is None or call is None else PreparedCalls(*found.calls, call)

    def prepared_accumulation(
        self, xs: np.ndarray, us: np.ndarray | None, scale: float, target: Into, curvature: Into
    ) -> Callable[[], Any] | None:
        """See `trajopt.costs.cost.PreparedCost`."""
        residual = self._there()
        by_itself = self._diagonal and sums(residual)
        found = self._prepared_residual(xs, us, target is not None and not by_itself)
        model = None if found is None else self._loss.prepared_derivatives(found.r)
        if found is None or model is None:
            return None
        differentiate, gradient, hessian = model
        parts = [*found.calls, differentiate]
        if target is not None and not by_itself:
            parts.append(prepared_gauss_newton(gradient, hessian, scale, found.rx, found.ru, target))
            target = None
        if target is not None or curvature is not None:
            weights, diagonal = multipliers(np.zeros(found.r.shape)), hessian if by_itself else np.zeros((1, self.nr))
            add = prepared_sum(residual, KnotSum((0, len(xs)), xs, us, weights, target, curvature))
            if add is None:
                return None
            parts += [PreparedCall(_scale_model, gradient, diagonal, scale, weights.rows), add]
        return PreparedCalls(*parts)

    def _prepared_residual(self, xs: np.ndarray, us: np.ndarray | None, jacobians: bool) -> _PreparedResidual | None:
        """Calls that evaluate what the activation is given; None where the residual prepares none."""
        check_knots(type(self).__name__, self.knots, xs)
        rows = None if _differs(type(self)) else prepared_rows(self._there(), xs, us, jacobians)
        if rows is None:
            return None
        r, rx, ru = rows.arrays
        if self._shift is None:
            return _PreparedResidual((rows,), r, rx, ru)
        shifted = np.zeros(r.shape)
        return _PreparedResidual((rows, PreparedCall(_add_shift, r, self._shift, shifted)), shifted, rx, ru)

    def gradient_by(self, name: str, at: Tangents, value: np.ndarray, slope: np.ndarray) -> np.ndarray | None:
        """See `trajopt.interfaces.terms.AttributeGradient`: A_r and A_rr dr are the residual's multipliers."""
        if _differs(type(self)):
            return None
        check_knots(type(self).__name__, self.knots, at.xs)
        r, dr = along(self._there(), self.nr, at)
        r = r if self._shift is None else r + self._shift
        if name == "weights":
            return summed_to(self._loss.by_weights(r, dr, value, slope), self.weights.shape)
        g, h = self._loss.expand(r)
        bent = h * dr if self._diagonal else np.einsum("tij,tj->ti", np.broadcast_to(h, (len(r), *h.shape[1:])), dr)
        return self._gradient_inside(name, at, value[:, None] * g + slope[:, None] * bent, slope[:, None] * g)

    def _gradient_inside(self, name: str, at: Tangents, value: np.ndarray, slope: np.ndarray) -> np.ndarray | None:
        """The same of the difference of residual and reference, value and slope (K, nr)."""
        if name == "reference":
            return summed_to(-value, self.reference.shape)
        return gradient_by(self._there(), name, at, value, slope)

    def squares(self, nu: int) -> tuple[Any, ResidualWeights] | None:
        """The residual and the weights of its squares; None for another cost, and for one of a class derived from those
        here with methods of its own.

        Where they are CLIPPED, the shift is -reference, and the limits are those of a quadratic barrier, or both zero.
        """
        weights, barrier = self._loss.weights, self._loss.activation
        if _differs(type(self)) or not (self._loss.quadratic or type(barrier) is QuadraticBarrier):
            return None
        if self._loss.quadratic and self._shift is None:
            return self.residual, ResidualWeights(weights)
        lower, upper = (barrier.lower, barrier.upper) if isinstance(barrier, QuadraticBarrier) else (0.0, 0.0)
        shift, n = np.zeros((1, self.nr)) if self._shift is None else self._shift, self.nr
        rows = np.empty((max(len(weights), len(shift)), 4 * n))
        for i, part in enumerate((weights, shift, lower, upper)):
            rows[:, i * n : (i + 1) * n] = part
        return self.residual, ResidualWeights(rows, CLIPPED)


@cache
def _differs(kind: type[CostOfResidual]) -> bool:
    """True for a class with methods of its own."""
    return any(getattr(kind, name) is not getattr(CostOfResidual, name) for name in _METHODS)


_METHODS = "value", "accumulate", "accumulate_curvature", "add_expansion", "_model"
