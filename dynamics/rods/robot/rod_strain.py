"""Strains and internal forces of a rod at one place, which are linear in the coordinates:

xi(s) = Phi(s) q + xi*        f(s) = diag(G Jx, E Jy, E Jz, E A, G A, G A) (xi(s) - xi*)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from dynamics.residuals.kernel_residual import KernelResidual, residual_kernels
from dynamics.residuals.robot_residual import VECTOR
from dynamics.rods.model.rod_model import Rod, RodModel
from dynamics.rods.recursion.blocks import n
from dynamics.rods.robot.link_frame import as_share, load_configuration, massless
from dynamics.simd import align_stack, fma, kernel, load, splat, store
from dynamics.validation import as_kind, look_up


@kernel
def _value(m, matrix, rest, target, path, x, q, r, J):
    """r = matrix q + rest - target and J = matrix (6 n)."""
    align_stack(q)
    n = m.counts[0]
    load_configuration(m, x, q)
    J[:] = 0.0
    for k in range(6):
        total = splat(q, rest[k]) - load(target, k)
        for i in path:
            total = fma(matrix[k, i], load(q, i), total)
            store(J, k * n + i, splat(q, matrix[k, i]))
        store(r, k, total)


@kernel
def _hessian(H):
    H[:] = 0.0


_Target = ArrayLike | Callable[[float], ArrayLike] | None
_LINEAR = residual_kernels(_value, None, _hessian, 6, n, {"q": n}, model=massless, target=6)


class _OfRod(KernelResidual):
    """Base of residuals that are linear in a rod's coordinates."""

    rod: str
    s: float

    def _attach(self, model: RodModel, rod: str, s: float, what: str) -> tuple[Rod, np.ndarray]:
        """The rod, and Phi (6, n) of all coordinates at s."""
        as_kind("model", model, RodModel)
        part = look_up("rod", rod, model.rods)
        s = as_share(model, rod, s)
        super().__init__(cast("RodModel", model), f"{what} of {rod} at s = {s:g}")  # pyright: ignore[reportArgumentType]
        self._set(rod=rod, s=s)
        Phi = np.zeros((6, model.nq))
        Phi[:, part.coordinates] = part.basis.matrix(s)
        return part, Phi

    def _fill(self, part: Rod, matrix: np.ndarray, rest: np.ndarray, target: Any) -> None:
        own = np.arange(part.coordinates.start, part.coordinates.stop)
        self._finish(own, self.model.arrays, self._as_targets(target), matrix=matrix, rest=rest)


class RodStrain(_OfRod):
    """Strains of a rod at one place minus a target: [torsion, bending about y and z; stretch, shear along y and z], 1/m
    and m/m.

    Parameters
    ----------
    model : RodModel
    rod : name of one of its rods
    s : position along the rod, X / length between 0 and 1
    target : (6,), by default the strains at rest, (0, 0, 0, 1, 0, 0) of a straight rod; or (N+1, 6) with one for each
        knot of a problem, or a function of time, t (s) to (6,), which a problem evaluates at its knots

    Raises
    ------
    TypeError : a model that is not a RodModel.
    ValueError : unknown rod (with the nearest matches), s out of range, a target of wrong shape or not finite.
    """

    nr = 6
    target_kind = VECTOR
    kernels = _LINEAR

    def __init__(self, model: RodModel, rod: str, s: float, target: _Target = None) -> None:
        part, Phi = self._attach(model, rod, s, "strain")
        rest = part.reference_strains(np.array([self.s]))[0]
        self._fill(part, Phi, rest, rest if target is None else target)


class RodForces(_OfRod):
    """Elastic forces in a rod's section minus a target: [torsion, bending moments about y and z; tension, shear forces
    along y and z], N m and N, in axes of the section; without viscosity, tendons and chambers.

    Parameters
    ----------
    model, rod, s : as for `RodStrain`
    target : (6,), by default zero; or one for each knot, or a function of time, as for `RodStrain`

    Raises
    ------
    TypeError, ValueError : as `RodStrain`.
    """

    nr = 6
    target_kind = VECTOR
    kernels = _LINEAR

    def __init__(self, model: RodModel, rod: str, s: float, target: _Target = None) -> None:
        part, Phi = self._attach(model, rod, s, "forces")
        at = np.array([self.s])
        stiffness = part.material.stiffness(part.section.properties(at), at)[0]
        matrix = (np.diag(stiffness) if stiffness.ndim == 1 else stiffness) @ Phi
        self._fill(part, matrix, np.zeros(6), np.zeros(6) if target is None else target)
