"""How terms of a residual enter an expansion, whether they are costs or stand for constraints."""

from typing import Any

import numpy as np

from trajopt.costs.cost import Quadratic
from trajopt.costs.loss import Model
from trajopt.validation import same_shape


def evaluated(residual: Any, nr: int, xs: np.ndarray, us: np.ndarray | None) -> np.ndarray:
    """r (K, nr), its shape checked."""
    return same_shape("residual.evaluate", residual.evaluate(xs, us), (len(xs), nr))


def linearized(
    residual: Any, nr: int, xs: np.ndarray, us: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """r, rx, ru, in one pass if the residual offers it; the shape of r checked."""
    together = getattr(residual, "evaluate_with_jacobians", None)
    if together is None:
        return evaluated(residual, nr, xs, us), *residual.jacobians(xs, us)
    r, rx, ru = together(xs, us)
    return same_shape("residual.evaluate_with_jacobians, r", r, (len(xs), nr)), rx, ru


def add_gradient(model: Model, rx: Any, ru: Any, scale: float, target: Quadratic) -> None:
    """Add scale times J'A_r and J'A_rr J, A to second order being the model."""
    K, nr = model.residual.shape
    rx = same_shape("residual.jacobians, rx", rx, (K, nr, target.lx.shape[1]))
    model.add(scale, rx, target.lx, target.lxx)
    if ru is not None and target.lu is not None:
        assert target.lux is not None and target.luu is not None
        ru = same_shape("residual.jacobians, ru", ru, (K, nr, target.lu.shape[1]))
        model.add(scale, ru, target.lu, target.luu)
        model.add_cross(scale, ru, rx, target.lux)


def add_curvature(residual: Any, xs: np.ndarray, us: np.ndarray | None, mu: np.ndarray, target: Quadratic) -> None:
    """Add sum_i mu_i d2 r_i, mu (K, nr)."""
    blocks = residual.hessian_products(xs, us, mu)
    for name, H, into in zip(("Hxx", "Hux", "Huu"), blocks, target[2:], strict=True):
        if H is not None and into is not None:
            np.add(into, same_shape(f"residual.hessian_products, {name}", H, into.shape), out=into)
