"""Residuals made of three kernels, one knot per lane, with targets that may differ from knot to knot."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import cached_property
from operator import is_
from types import ModuleType
from typing import Any, ClassVar, Self

import numpy as np

from dynamics.model.kernel_model import kernel_model
from dynamics.residuals import squares
from dynamics.residuals.robot_residual import (
    HESSIAN,
    JACOBIAN,
    PLACEMENT,
    VALUE,
    VECTOR,
    Blocks,
    RobotResidual,
    Rows,
    scatter_block,
)
from dynamics.simd import LANES, gather, kernel, launch
from dynamics.simd.lane_blocks import (
    free_names,
    import_lines,
    import_of,
    origin_lines,
    parameters_of,
    sum_lines,
    written_module,
)
from dynamics.simd.prepared_calls import PreparedLaunch
from dynamics.simd.sizes import Size
from dynamics.validation import as_array, as_floats, as_placement, check_finite, has_mask

# --------------------------------------------------------------------------------------------
# Targets of residuals: one for all knots of a problem, one for each of them, or a function of time.
#
#     kind         one target     one per knot                  numbers of a target
#     VECTOR       (n,)           (N+1, n)                      n
#     ROTATION     (3, 3)         (N+1, 3, 3)                   9, row-major
#     PLACEMENT    (R, p)         (R, p), one or both of them   12, those of R and then those of p
#
# Knots are 0 ... N, whichever of them a residual is evaluated at.  A function takes the time of a knot (s) and returns
# one target; `trajopt.Problem` evaluates it.

Targets = tuple[Any, np.ndarray | None]
"""A target as residuals keep it, and its numbers (1 or N+1, n), None of a function of time."""


def as_targets(kind: str, value: Any, size: int) -> Targets:
    """The argument `target` of a residual, its arrays copied and read-only.

    Raises ValueError naming the argument, and the knot of several, for another shape, entries that are not finite, and
    what is no rotation.
    """
    if callable(value):
        return value, None
    if kind == VECTOR:
        array = as_floats("target", value)
        if array.ndim not in (1, 2) or array.shape[-1] != size or not len(array):
            raise ValueError(f"target: got shape {array.shape}, expected ({size},), or (N+1, {size}) with one per knot")
        check_finite("target", array)
        return _kept(array[0] if len(array) == 1 and array.ndim == 2 else array, array.reshape(-1, size))
    if kind == PLACEMENT:
        return _placements("target", value)
    rotation = as_floats("target", value)
    if rotation.ndim != 3 or not len(rotation):
        rotation, _ = as_placement("target", (value, np.zeros(3)))
    else:
        found = [as_placement(f"target[{t}]", (R, np.zeros(3)))[0] for t, R in enumerate(rotation)]
        rotation = np.stack(found) if len(found) > 1 else found[0]
    return _kept(rotation, rotation.reshape(-1, 9))


def targets_at(kind: str, function: Callable[[float], Any], size: int, times: np.ndarray) -> Targets:
    """The same for what a function returns at times (K,), s, K > 1; ValueError also names the time."""
    found = [function(float(t)) for t in times]
    names = [f"target({t:g} s)" for t in times]
    if kind == VECTOR:
        rows = np.stack([as_array(name, one, (size,)) for name, one in zip(names, found, strict=True)])
        return _kept(rows, rows)
    if kind == PLACEMENT:
        pairs = [as_placement(name, _not_none(name, one)) for name, one in zip(names, found, strict=True)]
        return _kept_pair(np.stack([R for R, _ in pairs]), np.stack([p for _, p in pairs]))
    R = np.stack([as_placement(name, (one, np.zeros(3)))[0] for name, one in zip(names, found, strict=True)])
    return _kept(R, R.reshape(-1, 9))


def as_places(name: str, value: Any) -> Targets:
    """The places of an obstacle: as of a target that is a pose, or positions alone, (3,) or (N+1, 3).

    Raises ValueError naming the argument.
    """
    if callable(value):
        return value, None
    if isinstance(value, tuple):
        return _placements(name, value)
    p = as_floats(name, value)
    if p.ndim not in (1, 2) or p.shape[-1] != 3 or not len(p):
        expected = "(3,), or (N+1, 3) with one for each knot, a pair (R, p), or a function of time"
        raise ValueError(f"{name}: got shape {p.shape}, expected {expected}")
    p = as_array(name, p)
    return _placements(name, (np.eye(3), p[0] if len(p) == 1 and p.ndim == 2 else p))


def places_at(name: str, function: Callable[[float], Any], times: np.ndarray) -> Targets:
    """The same for what a function returns at times (K,), s, K > 1; ValueError also names the time."""
    found = [as_places(f"{name}({t:g} s)", function(float(t))) for t in times]
    for t, (_, rows) in zip(times, found, strict=True):
        if rows is None or len(rows) != 1:
            raise ValueError(f"{name}({t:g} s): got more than one place, expected (3,) or a pair (R, p)")
    return _kept_pair(*(np.stack(parts) for parts in zip(*(place for place, _ in found), strict=True)))


def _placements(name: str, value: Any) -> Targets:
    stacked = isinstance(value, (tuple, list)) and len(value) == 2 and None not in map(_dimensions, value)
    R_dimensions, p_dimensions = map(_dimensions, value) if stacked else (2, 1)
    if (R_dimensions, p_dimensions) not in ((3, 2), (3, 1), (2, 2)):
        return _kept_pair(*as_placement(name, _not_none(name, value)))
    R, p = as_floats(f"{name} rotation", value[0]), as_floats(f"{name} translation", value[1])
    counts = [len(part) for part, of_one in ((R, 2), (p, 1)) if part.ndim > of_one]
    if len(set(counts)) > 1 or 0 in counts:
        raise ValueError(f"{name}: got {len(R)} rotations and {len(p)} translations, expected as many of each, or one")
    R, p = (R if R.ndim == 3 else [R] * counts[0]), (p if p.ndim == 2 else [p] * counts[0])
    pairs = [as_placement(f"{name}[{t}]", pair) for t, pair in enumerate(zip(R, p, strict=True))]
    if len(pairs) == 1:
        return _kept_pair(*pairs[0])
    return _kept_pair(np.stack([R for R, _ in pairs]), np.stack([p for _, p in pairs]))


def _dimensions(value: Any) -> int | None:
    """Dimensions of an array-like, None of what is no array."""
    try:
        return None if has_mask(value) else np.ndim(value)
    except ValueError:
        return None


def _not_none(name: str, value: Any) -> Any:
    if value is None:
        raise ValueError(f"{name}: got None, expected a pair (R, p) of shapes (3, 3) and (3,)")
    return value


def _kept(target: np.ndarray, rows: np.ndarray) -> Targets:
    """A read-only copy, and numbers that kernels may have, which are not read-only."""
    target = target.copy()
    target.flags.writeable = False
    return target, rows.copy()


def _kept_pair(R: np.ndarray, p: np.ndarray) -> Targets:
    rows = np.hstack([R.reshape(-1, 9), p.reshape(-1, 3)])
    R, p = R.copy(), p.copy()
    R.flags.writeable = p.flags.writeable = False
    return (R, p), rows


# --------------------------------------------------------------------------------------------
# Residuals from three kernels: the value r, its Jacobian J, and the Hessian H of mu'r, for one knot per lane.
#
#     class FrameTranslation(KernelResidual):
#         nr = 3
#         kernels = residual_kernels(_value, _jacobian, _hessian, rows=3, columns=nv, scratch={"body": nb * BODY, ...})
#
# From these come values, Jacobians, Hessian products, and weighted squares summed and expanded in the lanes
# (`dynamics.residuals.squares`).  The kernels' parameters are the model m, lanes by their names below, scratch by the
# names that are declared, and whatever else the residual knows of itself, which goes through as it comes:
#
#     x (nx)      u (nu), zero at knots without controls      r (rows)      mu (rows)      J (rows columns)
#     H (columns columns), symmetric and zero but for the rows and columns that the residual names
#     target (as many numbers as are declared), that of each lane's own knot; a single one is gathered once
#
# The Jacobian is asked for after the value, the Hessian after the Jacobian, with what these have left in the scratch.
# A parameter `order` tells what will be asked for, VALUE or else.

RESIDUALS: list[ResidualKernels] = []
"""All that were declared."""

_DRIVE = """
@driver
def drive(
    first, last, work, block, {data}path, layout, weights, start, stop, order, xs, {us}{targets}values, rx, {blocks}
):
{slices}
    row, free = split(free, weights.shape[1])
    total = 0.0
    for chunk in range(first, last):
        t = start + chunk * LANES
        count = min(LANES, stop - t)
        gather(xs, t, x)
{gather}
        {value}
        if values.shape[0] > 0:
            scatter(r, t, values)
        if weights.shape[0] > 0:
            total += sum_lanes(weigh(layout, weights, chunk * LANES, r, row, mu, gauss_newton_weight), row, count)
        if order != VALUE:
            {jacobian}
        if rx.shape[0] > 0:
            {scatter}
        elif order & JACOBIAN:
            {gauss_newton}
{controls}
        if order & HESSIAN:
            {hessian}
            {curvature}
    return total
"""

_CONTROLS = """\
            controlled = min(count, us.shape[0] - t)
            add_control_gauss_newton(B, skip, J, mu, gauss_newton_weight, t, controlled, row, lu, lux, luu)"""


_TARGET = """\
        if chunk == first or targets.shape[0] > 1:
            gather(targets, t, target)"""


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


_OWN_NAMES = {
    "m", "first", "chunk", "t", "count", "order", "path", "layout", "row", "rx", "lx", "lu", "lxx", "lux", "luu", "Hxx",
    "xs", "targets",
}  # fmt: skip
"""What the driver calls by names of its own."""


class ResidualKernels:
    """Kernels and the driver that is written for them; made by `residual_kernels`.

    `data` names what the residual has to give them, in this order."""

    def __init__(
        self,
        kernels: dict[str, Any],
        rows: Size | int,
        columns: Size | int,
        scratch: dict[str, Size | int],
        nu: Size | None,
        model: Any,
        target: Size | int | str,
    ) -> None:
        self.kernels, self.model, self.controlled = kernels, model, nu is not None
        self.target_size, self.targeted = target, target != 0
        self.sizes = {
            "x": "xs.shape[1]", **({"u": nu} if self.controlled else {}), "r": rows, "mu": rows,
            "gauss_newton_weight": rows, "J": rows * columns, "H": columns * columns,
            **({"target": target} if target else {}), **scratch,
        }  # fmt: skip
        self.rows, self.columns = rows, columns
        named = [name for k in kernels.values() if k is not None for name in parameters_of(k)]
        named += free_names(self.sizes.values())
        self.data = tuple(name for name in dict.fromkeys(named) if name not in {*_OWN_NAMES, *self.sizes})
        self.module_name = ".".join(import_of(kernels["value"]))
        RESIDUALS.append(self)

    @cached_property
    def module(self) -> ModuleType:
        """What was written: `drive`, and `workspace_size`, the scratch that it needs."""
        return written_module(self.module_name, self.source)

    @property
    def source(self) -> str:
        """The text of `module`."""
        functions = [k for k in (*self.kernels.values(), self.model) if k is not None]
        functions += [squares.sum_lanes, squares.weigh]
        functions += [squares.add_control_gauss_newton, gather_controls] if self.controlled else []
        data, origins = "".join(f"{name}, " for name in self.data), origin_lines(self.sizes.values())
        sliced = [f"    {name}, free = split(free, {size})" for name, size in self.sizes.items()]
        calls = {name: _call(k) for name, k in self.kernels.items()}
        if self.kernels["scatter"] is None:
            functions.append(scatter_block)
            calls["scatter"] = f"scatter_block(J, {self.rows}, {self.columns}, t, rx, 0, 0)"
        gathered = ["        gather_controls(us, t, u)"] * self.controlled
        gathered += [_TARGET] * self.targeted
        given = [f"    m = by_reference({import_of(self.model)[1]}(block))"]
        given += [f"    {name} = by_reference({name})" for name in self.data]
        drive = _DRIVE.format(
            slices="\n".join([*given, *origins, "    free = work", *sliced]),
            data=data,
            us="us, " if self.controlled else "",
            targets="targets, " if self.targeted else "",
            blocks="lx, lu, lxx, lux, luu, Hxx" if self.controlled else "lx, lxx, Hxx",
            gather="\n".join(gathered),
            controls=_CONTROLS if self.controlled else "",
            **calls,
        )
        orders = f"VALUE, JACOBIAN, HESSIAN = {VALUE}, {JACOBIAN}, {HESSIAN}"
        lines = f'"""Written by dynamics.residuals.kernel_residual for {self.module_name}."""', ""
        names = "LANES", "by_reference", "split", "driver", "gather", "scatter"
        lines += *import_lines(functions, names), "", orders, "", ""
        lines += f"def workspace_size(m, {data}xs, weights):", *origins
        lines += *sum_lines([*map(str, self.sizes.values()), "weights.shape[1]"]), "", drive
        return "\n".join(line for text in lines for line in text.split("\n") if line.strip() or not line)

    def workspace_size(self, model: Any, data: tuple, xs: np.ndarray, weights: np.ndarray) -> int:
        """Workspace size per lane."""
        return self.module.workspace_size(model.arrays, *data, xs, weights)

    def run(
        self,
        workspace_size: int,
        robot: tuple,
        span: tuple,
        points: tuple,
        rows: Rows,
        target: Blocks,
        Hxx: np.ndarray,
        call: Callable[..., Any] = launch,
    ) -> Any:
        """Call the driver, or prepare the call, on the caller's thread: a hundred knots take less time than waking
        another one.  robot is block, *data, path, span is layout, weights, start, stop, order, and points are xs, us,
        and the targets of the knots if there are some."""
        (xs, us, *targets), (lx, lu, lxx, lux, luu), (r, rx, _) = points, target, rows
        given = (xs, us, *targets, r, rx, lx, lu, lxx, lux, luu) if self.controlled else (xs, *targets, r, rx, lx, lxx)
        count = span[3] - span[2]
        return call(self.module.drive, count, workspace_size, *robot, *span, *given, Hxx, most_threads=1)


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
    scatter: Any = None,
    gauss_newton: Any = squares.add_gauss_newton,
    curvature: Any = squares.add_curvature,
    model: Any = kernel_model,
    target: Size | int | str = 0,
) -> ResidualKernels:
    """The kernels of a residual.

    Parameters
    ----------
    value, jacobian, hessian : compiled functions (m, ...) as above; no jacobian if the value kernel fills J, by order
    rows, columns : size of J; columns are those of the first directions of the tangent [dq; dv], nv or 2 nv of them
    scratch : sizes of lanes that only the kernels see
    nu : the number of controls, for residuals B u + f(x) whose data have B and skip
    scatter, gauss_newton, curvature : for a J and H of another layout, what takes J to rx from knot t on, and adds its
        products to lx and lxx and H to Hxx at `count` knots from t on, as `dynamics.residuals.squares` does
    model : what makes m of the robot's block
    target : how many numbers the target of a knot has, of residuals with one, which may differ from knot to knot
    """
    kernels = {
        "value": value, "jacobian": jacobian, "hessian": hessian, "scatter": scatter, "gauss_newton": gauss_newton,
        "curvature": curvature,
    }  # fmt: skip
    return ResidualKernels(kernels, rows, columns, dict(scratch), nu, model, target)


class KernelResidual(RobotResidual):
    """Base of residuals of three kernels, which a class has in `kernels`.

    Its constructor ends with `_finish`: which rows and columns of H are not zero, what the kernels take, and the target
    where they have one: one for all knots, one for each knot of a problem, or a function of time
    (`dynamics.residuals.kernel_residual`)."""

    kernels: ClassVar[ResidualKernels]
    _data: tuple
    _robot: tuple
    _owner: Any
    """The model that kernels are given, of which scratch has the size."""
    _workspace_sizes: dict[int, int]
    """Workspace size per lane, by the columns of weights."""
    _targets: np.ndarray | None = None
    """Numbers of the targets, (1, n) or (N+1, n) with those of each knot; None without, and of a function of time."""
    _knots: np.ndarray | None = None
    """The knots (K,) whose targets count, None for all of them one by one."""
    _moving: ClassVar[str] = "target"
    """The attribute that may differ from knot to knot."""
    _here: np.ndarray | None = None
    """Rows of `_targets` for the points of an evaluation, (1, n) for any number of points, or (K, n)."""

    def _finish(self, path: np.ndarray, block: Any = None, targets: Targets | None = None, **data: Any) -> None:
        if set(data) != set(self.kernels.data):
            raise TypeError(f"data: got {', '.join(data)}, expected {', '.join(self.kernels.data)}")
        ordered = tuple(data[name] for name in self.kernels.data)
        owner = self.model
        if block is None:
            owner, block = self.model.full, self.model.full.block
            self._set(_joint_map=self.model.mimic_map)
        self._set(_data=ordered, _robot=(block, *ordered, path), _workspace_sizes={}, _owner=owner)
        if targets is not None:
            self._set_target(*targets)

    def _set_target(self, target: Any, rows: np.ndarray | None, at: np.ndarray | None = None) -> None:
        at = None if rows is not None and len(rows) == 1 else at
        self._set(_targets=rows, _knots=at, _here=rows if rows is None or at is None else rows[at])
        if self.target_kind:
            self._set(target=target)

    def adjusted(self, **values: Any) -> Self:
        """See `RobotResidual`; scratch stays as large."""
        if self.kernels.targeted and set(values) == {"target"}:
            new = self.__copy__()
            new._set_target(*self._as_targets(values["target"]), self._knots)
            return new
        new = super().adjusted(**values)
        new._workspace_sizes.update(self._workspace_sizes)
        return new

    @property
    def _target_size(self) -> int:
        size = self.kernels.target_size
        assert isinstance(size, int)
        return size

    def _as_targets(self, target: Any) -> Targets:
        return as_targets(self.target_kind, target, self._target_size)

    def at_times(self, times: np.ndarray) -> Self:
        """See `trajopt.interfaces.residual.KnotByKnotResidual`."""
        target, new = self.__dict__.get("target"), self
        if callable(target):
            new = copy.copy(self)
            found = targets_at(self.target_kind, target, self._target_size, self._times_of_all(times))
            new._set_target(*found, self._knots)
        if new._here is not None and len(new._here) not in (1, len(times)):
            what = f"{self._moving}: {self.name!r} has {len(new._here)} of them"
            raise ValueError(f"{what}, expected {len(times)}, one per knot")
        return new

    def _times_of_all(self, times: np.ndarray) -> np.ndarray:
        """Times of the knots that have a target each, from the times of the knots where these count: several of the
        latter, one behind the other, may share a target, which is that of the first of them."""
        if self._knots is None:
            return times
        return times[np.searchsorted(self._knots, np.arange(self._knots[-1] + 1))]

    def at_knots(self, knots: np.ndarray) -> Self:
        """See `trajopt.interfaces.residual.KnotByKnotResidual`."""
        if self._targets is None or len(self._targets) == 1:
            return self
        new = copy.copy(self)
        at = knots if self._knots is None else self._knots[knots]
        new._set_target(self.__dict__.get("target"), self._targets, at)
        return new

    def _summed(self, gradients: np.ndarray) -> np.ndarray:
        if self._targets is None or len(self._targets) == 1:
            return gradients.sum(axis=0)
        if self._knots is None:
            return gradients.copy()
        total = np.zeros((len(self._targets), gradients.shape[1]))
        np.add.at(total, np.broadcast_to(self._knots, len(gradients)), gradients)
        return total

    def _prepared(self, *arguments: Any) -> PreparedLaunch:
        """See `RobotResidual._prepared`."""
        return self._expand(*arguments, call=PreparedLaunch)

    def with_own_numbers(self) -> Self:
        """See `trajopt.interfaces.residual.PreparedResidual`."""
        own = copy.copy(self)
        if self._here is not None:
            own._set(_here=self._here.copy())
        return own

    def take_numbers(self, other: Any) -> bool:
        """See `trajopt.interfaces.residual.PreparedResidual`."""
        if type(other) is not type(self) or not all(map(is_, other._robot, self._robot)):
            return False
        mine, given = self._here, other._here
        if mine is None or given is None:
            return mine is given
        if mine.shape != given.shape:
            return False
        mine[...] = given
        return True

    def _expand(self, weights, start, stop, order, xs, us, rows, target, curvature, call=launch):
        given, layout = weights
        columns = given.shape[1]
        workspace_size = self._workspace_sizes.get(columns)
        if workspace_size is None:
            workspace_size = self.kernels.workspace_size(self._owner, self._data, xs, given)
            self._workspace_sizes[columns] = workspace_size
        span, points = (layout, given, start, stop, order), (xs, us)
        if self.kernels.targeted:
            points = xs, us, self._rows_for(len(xs))
        return self.kernels.run(workspace_size, self._robot, span, points, rows, target, curvature[2], call)

    def _rows_for(self, points: int) -> np.ndarray:
        """The targets of so many points; raises ValueError where they are those of other knots."""
        if self._here is None:
            what = "is a function of time, which a trajopt.Problem evaluates, expected the residual that it makes of it"
            raise ValueError(f"{self._moving}: that of {self.name!r} {what}")
        if len(self._here) not in (1, points):
            what = f"{self._moving}: {self.name!r} has {len(self._here)} of them, one per knot"
            raise ValueError(f"{what}, got {points} points")
        return self._here
