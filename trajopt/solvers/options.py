"""Solver options: frozen keyword-only dataclasses that answer a misspelt name with the nearest right one."""

from dataclasses import dataclass, fields
from typing import TypeVar, dataclass_transform

import numpy as np

from trajopt.validation import did_you_mean, whole_number

T = TypeVar("T")


@dataclass_transform(kw_only_default=True, frozen_default=True)
def solver_options(cls: type[T]) -> type[T]:
    """Make cls a frozen keyword-only dataclass whose constructor names the nearest option if one is unknown."""
    cls = dataclass(frozen=True, kw_only=True)(cls)
    names = [f.name for f in fields(cls)]  # pyright: ignore[reportArgumentType]
    plain_init = cls.__init__

    def checked_init(self, *unnamed, **options):
        if unnamed:
            raise TypeError(f"{cls.__name__}: options are given by name, e.g. {cls.__name__}({names[0]}=...)")
        for name in options:
            if name not in names:
                raise TypeError(
                    f"{cls.__name__}: no option {name!r}, wanted one of {', '.join(names)}{did_you_mean(name, names)}"
                )
        plain_init(self, **options)

    checked_init.__wrapped__ = plain_init  # so that help() and signature() show the options
    cls.__init__ = checked_init
    return cls


@solver_options
class LoopOptions:
    """What the loop needs, whatever the direction.

    Parameters
    ----------
    max_iterations : int
        Steps tried at most.
    tolerance : float
        Converged where the predicted decrease of a full step is at most tolerance |J| (and mu is small).
    absolute_tolerance : float
        The same in units of the cost, for problems whose optimal cost is zero.
    initial_regularization : float
        The first mu, added to the diagonal of Quu.
    max_regularization : float
        The mu beyond which the solve gives up.
    """

    max_iterations: int = 500
    tolerance: float = 1e-13
    absolute_tolerance: float = 1e-24
    initial_regularization: float = 0.0
    max_regularization: float = 1e10

    def __post_init__(self):
        whole_number("max_iterations", self.max_iterations, 0)
        for name in ("tolerance", "absolute_tolerance", "initial_regularization", "max_regularization"):
            non_negative(name, getattr(self, name))


def non_negative(name: str, value: float) -> None:
    """Raise ValueError unless value is a finite number >= 0."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
        raise TypeError(f"{name}: got {value!r}, wanted a number >= 0")
    if not (np.isfinite(value) and value >= 0):
        raise ValueError(f"{name}: got {value}, wanted a finite number >= 0")
