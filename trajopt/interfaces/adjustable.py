"""Attributes of costs, residuals and constraints that may change while a solver stays prepared; gradients by them."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from trajopt.capabilities import capability


class Adjustable:
    """What a term offers for `trajopt.solvers.prepared.PreparedSolver.update`.  Others stay as they are."""

    together: ClassVar = (("adjustable", "adjusted"),)

    @property
    def adjustable(self) -> tuple[str, ...]:
        """Names of the attributes that may change."""
        return ()

    def adjusted(self, **values: Any) -> Self:
        """A copy with other values of these attributes, of the shapes that they had; the rest is shared."""
        raise NotImplementedError


class Tangents(NamedTuple):
    """K points of a trajectory, xs (K, nx) and us (K, nu), and a tangent at each, dx (K, ndx) and du (K, nu); us and du
    are None at the last knot."""

    xs: np.ndarray
    us: np.ndarray | None
    dx: np.ndarray
    du: np.ndarray | None


class AttributeGradient:
    """What an adjustable term may offer besides: its derivative by an attribute, for `trajopt.Solution.vjp`."""

    def gradient_by(self, name: str, at: Tangents, value: np.ndarray, slope: np.ndarray) -> np.ndarray | None:
        """d/d(attribute) sum_t value_t'y_t + slope_t'dy_t, y the term at K points, dy its change along the way.

        Parameters
        ----------
        name : of the attribute, which may be one of what the term is made of
        at : the points and the direction
        value, slope : multipliers, (K,) of a cost, (K, nr) of a residual

        Returns
        -------
        An array of the attribute's shape, along its tangent where it lies on a manifold; None where the term does not
        know it: then the term alone is differenced.
        """
        return None


def gradient_by(term: object, name: str, at: Tangents, value: np.ndarray, slope: np.ndarray) -> np.ndarray | None:
    """What a term says as an `AttributeGradient`, None where it says nothing."""
    return capability(term, AttributeGradient).gradient_by(name, at, value, slope)


def summed_to(rows: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Derivatives by a row for each knot, (K, n), as those by an array of shape (), (n,), (1, n) or (K, n) that rows
    are broadcast from."""
    if len(shape) < 2:
        return np.asarray(rows.sum(axis=0 if shape else None))
    return rows if len(rows) == shape[0] else rows.sum(axis=0, keepdims=True)
