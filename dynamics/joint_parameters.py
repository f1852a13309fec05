"""Parameters that a user attaches to a joint: position limits per entry of q, the others per degree of freedom."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from dynamics.joints import Continuous, Joint
from dynamics.validation import as_array, as_floats


def position_limits(
    label: str, joint: Joint, lower: ArrayLike | None, upper: ArrayLike | None
) -> dict[str, np.ndarray]:
    """Lower and upper (nq,), infinite by default."""
    limits = {"lower": np.full(joint.nq, -np.inf), "upper": np.full(joint.nq, np.inf)}
    for argument, value in (("lower", lower), ("upper", upper)):
        if value is None:
            continue
        if joint.nq == 0 or isinstance(joint, Continuous):
            raise ValueError(f"{label}{argument}: got {value!r}, but a {joint.type_name} joint has no position limits")
        if joint.nq == joint.nv and as_floats(label + argument, value).ndim == 0:
            value = np.full(joint.nq, as_array(label + argument, value, (), allow_infinite=True))
        limits[argument] = as_array(label + argument, value, (joint.nq,), allow_infinite=True).copy()
    crossed = np.flatnonzero(limits["lower"] > limits["upper"])
    if crossed.size:
        low, high = limits["lower"][crossed[0]], limits["upper"][crossed[0]]
        raise ValueError(f"{label}lower: got {low}, which is above upper, {high}; expected lower <= upper")
    return limits


def dof_parameters(label: str, joint: Joint, **values: ArrayLike | None) -> dict[str, np.ndarray]:
    """Nonnegative parameters, each (nv,); velocity and effort limits may be infinite, which is what None stands for."""
    parameters = {}
    for argument, value in values.items():
        is_limit = argument in ("velocity", "effort")
        if value is None:
            value = np.inf
        if as_floats(label + argument, value).ndim == 0:
            given = as_array(label + argument, value, (), allow_infinite=is_limit)
            if joint.nv == 0 and given != (np.inf if is_limit else 0.0):
                raise ValueError(f"{label}{argument}: got {value!r}, but a {joint.type_name} joint does not move")
            value = np.full(joint.nv, given)
        parameters[argument] = as_array(label + argument, value, (joint.nv,), allow_infinite=is_limit).copy()
        if (parameters[argument] < 0.0).any():
            raise ValueError(f"{label}{argument}: got {parameters[argument].min()}, expected no negative entry")
    return parameters
