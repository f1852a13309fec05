"""Algorithms that fill matrices of every knot, called in two ways: with arrays, and with results left in the lanes."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dynamics.algorithms.batch import empty_matrices, launch, points, square_matrices
from dynamics.algorithms.inverse_mass import AUTOMATIC
from dynamics.derivatives import forward_dynamics as fdsva
from dynamics.derivatives import hessian
from dynamics.derivatives import inverse_dynamics as idsva
from dynamics.model.knot_driver import KnotDriver
from experiments.derivatives.competitors_common import paths, require_one_axis


class Algorithm(NamedTuple):
    """A driver (block, [paths,] q, v, u, *rest, *matrices), u being a or tau, or a declared one (model, q, v, u, ...).

    Attributes
    ----------
    drive : the driver; arrays for no knots leave its results in the lanes
    workspace_size : (model, [paths]) -> workspace size per lane
    result : of the matrices, what is returned
    matrices : how many (nv, nv) the driver fills
    rest : arguments between the points and the matrices
    along_paths : whether the driver takes `paths`
    one_axis : whether joints must be revolute or prismatic
    public : the library's own function, which then is called for arrays
    """

    drive: Any
    workspace_size: Callable[..., int]
    result: Callable[..., Any]
    matrices: int = 3
    rest: tuple = ()
    along_paths: bool = True
    one_axis: bool = True
    public: Callable[..., Any] | None = None

    def __call__(self, model, q, v, u) -> Any:
        """The derivatives at one point or a batch, each (nv, nv) or (K, nv, nv).

        Parameters: q (nq,) or (K, nq);  v, u (nv,) or (K, nv).
        Raises ValueError for a joint that the algorithm does not allow, a wrong shape or a non-finite entry; it names
        the joint or the argument.
        """
        if self.public is not None:
            return self.public(model, q, v, u)
        if self.one_axis:
            require_one_axis(model)
        single, batches = points(model, q, v=v, u=u)
        out = empty_matrices(self.matrices, len(batches[0]), model.nv)
        self._call(model, batches, out)()
        return self.result(*square_matrices(single, out))

    def in_lanes(self, model, *points: np.ndarray) -> Callable[[], None]:
        """A call at K points that writes no arrays."""
        return self._call(model, points, [np.empty((0, model.nv**2)) for _ in range(self.matrices)])

    def _call(self, model, batches, out) -> Callable[[], None]:
        if isinstance(self.drive, KnotDriver):
            return partial(self.drive, model, *batches, *self.rest, *out)
        trees = (paths(model),) if self.along_paths else ()
        workspace_size = self.workspace_size(model, *trees)
        arguments = model.block, *trees, *batches, *self.rest, *out
        return partial(launch, self.drive, len(batches[0]), workspace_size, *arguments)


def _of_library(drive: KnotDriver, public: Any, matrices: int, *rest: Any) -> Algorithm:
    size = drive.workspace_size
    return Algorithm(drive, size, tuple, matrices, rest, along_paths=False, one_axis=False, public=public)


IDSVA = _of_library(idsva.drive_derivatives, idsva.inverse_dynamics_derivatives, 3, None)
EXPANSION = _of_library(hessian.drive_expansion, hessian.inverse_dynamics_expansion, 7, None)
"""First order of inverse dynamics and the Hessian of w'tau; points are q, v, a and w."""
FDSVA = _of_library(fdsva.drive_first_order, fdsva.forward_dynamics_derivatives, 3, AUTOMATIC, None)


def fdsva_by(route: int) -> Algorithm:
    """FDSVA with its products by a route of `inverse_mass`, where the library would choose."""
    return FDSVA._replace(result=fdsva.ForwardDynamicsDerivatives, rest=(route, None), public=None)
