"""One optimal control problem, stated twice, and what the two statements share.

    Crocoddyl                                          here
    IntegratedActionModelEuler(model, dt)              RigidBodySystem(model, dt), semi-implicit Euler; running costs
                                                       are multiplied by dt, the terminal ones are not, in both
    CostModelResidual, weight w                        1/2 w |r|^2, weights w
    ActivationModelWeightedQuad(w)                     1/2 sum w_i r_i^2, weights w
    ResidualModelState                                 StateCost: difference from the reference to the state
    ResidualModelFramePlacement                        FramePlacement: log6(Mref^-1 M), linear part first

Pinocchio keeps a continuous joint as cosine and sine of its angle, this library as the angle, so the two state
differences agree only while every continuous joint is less than half a turn from the reference.
"""

from typing import Any, NamedTuple

import crocoddyl  # pyright: ignore[reportMissingImports]
import numpy as np

import trajopt


class Pair(NamedTuple):
    """An optimal control problem in both libraries.

    Attributes
    ----------
    name : str
    ours : trajopt.Problem
    theirs : crocoddyl.ShootingProblem
    published : float or None
        Optimal cost that the other library's own example reports.
    limits : (lower, upper) of the controls, or None
    in_python : bool
        Whether parts of the other library's statement are Python classes, as in its own example: its times then say
        little about the library.
    inverse : trajopt.Problem or None
        The same problem with accelerations as the sweep's controls; asked for, and of fully actuated robots only.
    """

    name: str
    ours: trajopt.Problem
    theirs: Any
    published: float | None
    limits: tuple[Any, Any] | None = None
    in_python: bool = False
    inverse: trajopt.Problem | None = None


def to_pinocchio(model: Any, xs: np.ndarray) -> np.ndarray:
    """States (K, nx) of this library as Pinocchio has them; `model` is Pinocchio's.

    An angle becomes cosine and sine where Pinocchio has two numbers for one degree of freedom.
    """
    columns, k = [], 0
    for joint in model.joints[1:]:
        if (joint.nq, joint.nv) == (2, 1):
            columns += [np.cos(xs[:, k]), np.sin(xs[:, k])]
            k += 1
        else:
            columns += list(xs[:, k : k + joint.nq].T)
            k += joint.nq
    return np.column_stack([*columns, xs[:, k:]])


def from_pinocchio(model: Any, x: np.ndarray) -> np.ndarray:
    """A state (nx,) of Pinocchio in this library's numbers; angles of continuous joints in (-pi, pi]."""
    numbers, k = [], 0
    for joint in model.joints[1:]:
        if (joint.nq, joint.nv) == (2, 1):
            numbers.append(np.arctan2(x[k + 1], x[k]))
        else:
            numbers += list(x[k : k + joint.nq])
        k += joint.nq
    return np.r_[numbers, x[k:]]


def cost(state: Any, residual: Any, weights: np.ndarray | None = None) -> Any:
    """Crocoddyl's cost of a residual, weighted entry by entry."""
    shape = () if weights is None else (crocoddyl.ActivationModelWeightedQuad(weights),)
    return crocoddyl.CostModelResidual(state, *shape, residual)


def cost_sum(state: Any, nu: int, costs: dict[str, tuple[Any, float]]) -> Any:
    """Crocoddyl's sum of name -> (cost, weight)."""
    total = crocoddyl.CostModelSum(state, nu)
    for name, (model, weight) in costs.items():
        total.addCost(name, model, weight)
    return total


def action(state: Any, actuation: Any, costs: dict[str, tuple[Any, float]], dt: float, limits: Any = None) -> Any:
    """Crocoddyl's action model: free dynamics under semi-implicit Euler, with costs of name -> (cost, weight).

    Limits are set both as bounds of the action, which the Box solvers read, and as a constraint, which SQP ones read.
    """
    total = cost_sum(state, actuation.nu, costs)
    if limits is None:
        free = crocoddyl.DifferentialActionModelFreeFwdDynamics(state, actuation, total)
        return crocoddyl.IntegratedActionModelEuler(free, dt)
    lower, upper = (np.full(actuation.nu, 1.0) * limit for limit in limits)
    manager = crocoddyl.ConstraintModelManager(state, actuation.nu)
    residual = crocoddyl.ResidualModelControl(state, actuation.nu)
    manager.addConstraint("limits", crocoddyl.ConstraintModelResidual(state, residual, lower, upper))
    free = crocoddyl.DifferentialActionModelFreeFwdDynamics(state, actuation, total, manager)
    model = crocoddyl.IntegratedActionModelEuler(free, dt)
    model.u_lb, model.u_ub = lower, upper
    return model


def bounds(limits: tuple[Any, Any] | None) -> dict[str, Any]:
    """Keyword arguments of `trajopt.Problem` for limits of the controls."""
    return {} if limits is None else {"constraints": [trajopt.ControlBounds(*limits)]}
