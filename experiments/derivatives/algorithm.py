"""The algorithms that fill matrices of every knot, in one table: ours and the competitors, each a declared driver.

They are called in two ways: with arrays, and with results left in the lanes.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dynamics.algorithms.batch import empty_matrices, points, square_matrices
from dynamics.algorithms.inverse_mass import AUTOMATIC, AZA, DIRECT, FACTOR
from dynamics.derivatives import forward_dynamics as fdsva
from dynamics.derivatives import hessian
from dynamics.derivatives import inverse_dynamics as idsva
from dynamics.derivatives.second_order import drive_second_order, inverse_dynamics_second_derivatives
from dynamics.model.knot_driver import KnotDriver
from experiments.derivatives import aba_chain_rule, idsva_body_frame, rnea_chain_rule
from experiments.derivatives.chain_rule import Paths, paths


class ChainRuleDerivatives(NamedTuple):
    """Partial derivatives of tau(q, v, a), each (nv, nv) or (K, nv, nv); the mass matrix is not computed."""

    dtau_dq: np.ndarray
    dtau_dv: np.ndarray


class Algorithm(NamedTuple):
    """A driver (model, q, v, u, *rest, *matrices), u being a or tau.

    Attributes
    ----------
    drive : the driver; arrays for no knots leave its results in the lanes
    result : what is returned of the matrices (nv, nv) that it fills, one for each field
    rest : arguments between the points and the matrices; the class `Paths` stands for those of the model
    one_axis : whether joints must be revolute or prismatic
    public : the library's own function, which then is called for arrays
    """

    drive: KnotDriver
    result: Any
    rest: tuple = ()
    one_axis: bool = False
    public: Callable[..., Any] | None = None

    def __call__(self, model, q, v, u, *w) -> Any:
        """The derivatives at one point or a batch, each (nv, nv) or (K, nv, nv).

        Parameters: q (nq,) or (K, nq);  v, u (nv,) or (K, nv), and w for the Hessian of w'tau.
        Raises ValueError for a joint that the algorithm does not allow, a wrong shape or a non-finite entry; it names
        the joint or the argument.
        """
        if self.public is not None:
            return self.public(model, q, v, u, *w)
        if self.one_axis:
            require_one_axis(model)
        single, batches = points(model, q, v=v, u=u)
        out = empty_matrices(len(self.drive.outputs), len(batches[0]), model.nv)
        self._call(model, batches, out)()
        return self.result(*square_matrices(single, out))

    def taken(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        """Of q, v, u and w those that it takes."""
        return arrays[: len(self.drive.inputs)]

    def in_lanes(self, model, *points: np.ndarray) -> Callable[[], None]:
        """A call at K points that writes no arrays."""
        return self._call(model, points, [np.empty((0, model.nv**2)) for _ in self.drive.outputs])

    def _call(self, model, batches, out) -> Callable[[], None]:
        rest = (paths(model) if x is Paths else x for x in self.rest)
        return partial(self.drive, model, *batches, *rest, *out)


def require_one_axis(model) -> None:
    """Raises ValueError naming the first joint that is neither revolute nor prismatic."""
    for name, kind, count in zip(model.joint_names, model.joint_types, model.arrays.dof_count, strict=True):
        if count != 1:
            raise ValueError(f"joint {name!r} is {kind}; expected Revolute, Continuous or Prismatic joints only")


_FD, _CHAIN = fdsva.ForwardDynamicsDerivatives, (Paths,)
EXPANSION = Algorithm(hessian.drive_expansion, tuple, (None,), public=hessian.inverse_dynamics_expansion)
"""First order of inverse dynamics and the Hessian of w'tau; points are q, v, a and w."""
PACKED = Algorithm(drive_second_order, tuple, (None,), public=partial(inverse_dynamics_second_derivatives, packed=True))
"""Second order of inverse dynamics, whose results are no matrices."""
INVERSE = {
    "IDSVA": Algorithm(idsva.drive_derivatives, tuple, (None,), public=idsva.inverse_dynamics_derivatives),
    "IDSVA, body frame": Algorithm(idsva_body_frame.drive, idsva.InverseDynamicsDerivatives, one_axis=True),
    "RNEACR": Algorithm(rnea_chain_rule.drive, ChainRuleDerivatives, _CHAIN, one_axis=True),
}
FORWARD = {
    "FDSVA": Algorithm(fdsva.drive_first_order, _FD, (AUTOMATIC, None), public=fdsva.forward_dynamics_derivatives),
    "FDCR": Algorithm(rnea_chain_rule.drive_forward, _FD, _CHAIN, one_axis=True),
    "ABACR": Algorithm(aba_chain_rule.drive, _FD, _CHAIN, one_axis=True),
}
ROUTES = {"FACTOR": FACTOR, "DIRECT": DIRECT, "AZA": AZA}
"""Of FDSVA's products with M^-1."""
BY_ROUTE = {f"FDSVA, {name}": FORWARD["FDSVA"]._replace(rest=(x, None), public=None) for name, x in ROUTES.items()}
