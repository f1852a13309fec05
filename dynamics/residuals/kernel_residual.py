"""Residuals from three kernels: the value r, its Jacobian J, and the Hessian H of mu'r, for one knot per lane.

    class FrameTranslation(KernelResidual):
        nr = 3
        kernels = residual_kernels(_value, _jacobian, _hessian, rows=3, columns=nv, scratch={"body": nb * BODY, ...})

From these come values, Jacobians, Hessian products, and weighted squares summed and expanded in the lanes
(`dynamics.residuals.squares`).  The kernels' parameters are the model m, lanes by their names below, scratch by the
names that are declared, and whatever else the residual knows of itself, which goes through as it comes:

    x (nx)      u (nu), zero at knots without controls      r (rows)      mu (rows)      J (rows columns)
    H (columns columns), symmetric and zero but for the rows and columns that the residual names

The Jacobian is asked for after the value, the Hessian after the Jacobian, with what these have left in the scratch.  A
parameter `order` tells what will be asked for, VALUE or else.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from types import ModuleType
from typing import Any, ClassVar

import numpy as np

from dynamics.kernel_model import kernel_model
from dynamics.residuals import squares
from dynamics.residuals.robot_residual import (
    HESSIAN,
    JACOBIAN,
    NO_ROWS,
    VALUE,
    RobotResidual,
    knots,
    run,
    scatter_block,
)
from dynamics.simd import LANES, gather, kernel
from dynamics.simd.lane_blocks import import_lines, import_of, origin_lines, parameters_of, sum_lines
from dynamics.simd.sizes import Size
from dynamics.simd.written import written_module

RESIDUALS: list[ResidualKernels] = []
"""All that were declared."""

_DRIVE = """
@driver
def drive(first, last, work, block, {data}order, xs, {us}mus, values, derivative):
{carve}
    for chunk in range(first, last):
        gather(xs, chunk * LANES, x)
{gather}
        {value}
        if values.shape[0] > 0:
            scatter(r, chunk * LANES, values)
        if order != VALUE:
            {jacobian}
        if order == JACOBIAN:
            scatter_block(J, {rows}, {columns}, chunk * LANES, derivative, 0, 0)
        elif order == HESSIAN:
            gather(mus, chunk * LANES, mu)
            {hessian}
            scatter_block(H, {columns}, {columns}, chunk * LANES, derivative, 0, 0)
"""

_SQUARES = """
@driver
def drive_squares(
    first, last, work, block, {data}path, weights, start, stop, order, xs, {us}{target}
):
{carve}
    row, free = carve(free, weights.shape[1])
    total = 0.0
    for chunk in range(first, last):
        t = start + chunk * LANES
        count = min(LANES, stop - t)
        gather(xs, t, x)
{gather}
        {value}
        total += sum_lanes(weigh(weights, chunk * LANES, r, row, mu, gauss_newton_weight), row, count)
        if order != VALUE:
            {jacobian}
        if order & JACOBIAN:
            add_gauss_newton(path, J, mu, gauss_newton_weight, t, count, row, lx, lxx)
{controls}
        if order & HESSIAN:
            {hessian}
            add_curvature(path, H, t, count, Hxx)
    return total
"""

_CONTROLS = """\
            controlled = min(count, us.shape[0] - t)
            add_control_gauss_newton(B, skip, J, mu, gauss_newton_weight, t, controlled, row, lu, lux, luu)"""


@kernel
def gather_controls(us, first, u):
    """Controls of the knots from `first` on, zero at those that have none."""
    u[:] = 0.0
    knots = us.shape[0]
    if first < knots:
        gather(us, first, u)
        for k in range(min(LANES, knots - first), LANES):
            for i in range(u.shape[0]):
                u[i, k] = 0.0


class ResidualKernels:
    """Three kernels and the two drivers that are written for them; made by `residual_kernels`.

    `data` names what the residual has to give them, in this order."""

    def __init__(
        self,
        value: Any,
        jacobian: Any,
        hessian: Any,
        rows: Size | int,
        columns: Size | int,
        scratch: dict[str, Size | int],
        nu: Size | None,
    ) -> None:
        self.value, self.jacobian, self.hessian = value, jacobian, hessian
        self.controlled = nu is not None
        self.sizes = {
            "x": "xs.shape[1]", **({"u": nu} if self.controlled else {}), "r": rows, "mu": rows,
            "gauss_newton_weight": rows, "J": rows * columns, "H": columns * columns, **scratch,
        }  # fmt: skip
        self.rows, self.columns = rows, columns
        kernels = [k for k in (value, jacobian, hessian) if k is not None]
        named = [name for k in kernels for name in parameters_of(k)]
        self.data = tuple(name for name in dict.fromkeys(named) if name not in {"m", "order", *self.sizes})
        self.module_name = ".".join(import_of(value))
        RESIDUALS.append(self)

    @cached_property
    def module(self) -> ModuleType:
        """What was written: `drive`, `drive_squares`, and `numbers`, the scratch that they need."""
        return written_module(self.module_name, self.source)

    @property
    def source(self) -> str:
        """The text of `module`."""
        functions = [k for k in (self.value, self.jacobian, self.hessian, scatter_block, kernel_model) if k is not None]
        functions += [squares.add_curvature, squares.add_gauss_newton, squares.sum_lanes, squares.weigh]
        functions += [squares.add_control_gauss_newton, gather_controls] if self.controlled else []
        data = "".join(f"{name}, " for name in self.data)
        origins = origin_lines(self.sizes.values())
        carved = [f"    {name}, free = carve(free, {size})" for name, size in self.sizes.items()]
        parts = {
            "carve": "\n".join(["    m = kernel_model(block)", *origins, "    free = work", *carved]),
            "data": data,
            "us": "us, " if self.controlled else "",
            "target": "lx, lu, lxx, lux, luu, Hxx" if self.controlled else "lx, lxx, Hxx",
            "rows": str(self.rows),
            "columns": str(self.columns),
        }
        orders = f"VALUE, JACOBIAN, HESSIAN = {VALUE}, {JACOBIAN}, {HESSIAN}"
        for name in ("value", "jacobian", "hessian"):
            parts[name] = _call(getattr(self, name))
        first = "gather_controls(us, {}, u)" if self.controlled else ""
        drive = _DRIVE.format(gather=f"        {first.format('chunk * LANES')}", **parts)
        drive_squares = _SQUARES.format(
            gather=f"        {first.format('t')}", controls=_CONTROLS if self.controlled else "", **parts
        )
        lines = f'"""Written by dynamics.residuals.kernel_residual for {self.module_name}."""', ""
        lines += *import_lines(functions, ("LANES", "carve", "driver", "gather", "scatter")), "", orders, "", ""
        lines += f"def numbers(m, {data}xs, weights):", *origins
        lines += *sum_lines([*map(str, self.sizes.values()), "weights.shape[1]"]), "", drive, drive_squares
        return "\n".join(line for text in lines for line in text.split("\n") if line.strip() or not line)


def _call(function: Any) -> str:
    if function is None:
        return "pass  # the value kernel has done it"
    return f"{import_of(function)[1]}({', '.join(parameters_of(function))})"


def residual_kernels(
    value: Any,
    jacobian: Any,
    hessian: Any,
    rows: Size | int,
    columns: Size | int,
    scratch: Mapping[str, Size | int],
    nu: Size | None = None,
) -> ResidualKernels:
    """The kernels of a residual.

    Parameters
    ----------
    value, jacobian, hessian : compiled functions (m, ...) as above; no jacobian if the value kernel fills J, by order
    rows, columns : size of J; columns are those of the first directions of the tangent [dq; dv], nv or 2 nv of them
    scratch : sizes of lanes that only the kernels see
    nu : the number of controls, for residuals B u + f(x) whose data have B and skip
    """
    return ResidualKernels(value, jacobian, hessian, rows, columns, dict(scratch), nu)


class KernelResidual(RobotResidual):
    """Base of residuals of three kernels, which a class has in `kernels`.

    Its constructor ends with `_finish`: which rows and columns of H are not zero, and what the kernels take."""

    kernels: ClassVar[ResidualKernels]
    _path: np.ndarray
    _data: tuple

    def _finish(self, path: np.ndarray, **data: Any) -> None:
        if set(data) != set(self.kernels.data):
            raise TypeError(f"data: got {', '.join(data)}, expected {', '.join(self.kernels.data)}")
        self._set(_path=path, _data=tuple(data[name] for name in self.kernels.data))

    @property
    def sums_squares(self) -> bool:
        """Whether `weighted_squares` is there, for this class and not only for one it derives from."""
        return "kernels" in type(self).__dict__

    def _run(self, drive, count, xs, weights, *arguments):
        numbers = self.kernels.module.numbers(self.model.arrays, *self._data, xs, weights)
        return run(drive, count, numbers, self.model.block, *self._data, *arguments)

    def _drive(self, order, xs, mu, r, derivative, us=None):
        controls = (NO_ROWS if us is None else us,) if self.kernels.controlled else ()
        self._run(self.kernels.module.drive, len(xs), xs, NO_ROWS, order, xs, *controls, mu, r, derivative)

    def _drive_squares(self, weights, start, stop, order, xs, us, target, curvature):
        points = (xs, knots("us", us, self.nu)) if self.kernels.controlled else (xs,)
        blocks = target if self.kernels.controlled else (target[0], target[2])
        span = self._path, weights, start, stop, order
        return self._run(
            self.kernels.module.drive_squares, stop - start, xs, weights, *span, *points, *blocks, curvature[2]
        )
