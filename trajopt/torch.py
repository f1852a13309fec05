"""Optimal control as a module of PyTorch: trajectories for batches of parameters, with exact gradients.

Both modes multiply by the exact derivatives of solutions (`trajopt.sensitivity`), as autograd functions, which
`torch.func` maps and differentiates like any others; trajectories are computed on the processor, in float64, whatever
device p is on.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from dynamics.distribution import how_to_install
from trajopt.layers import Covectors, LayerHost, SolvedPoint, warm_starts_of
from trajopt.problem.problem import Problem

try:
    torch: Any = import_module("torch")
except ImportError as error:
    raise ImportError(f"trajopt.torch needs torch: {how_to_install('torch')}") from error

SECOND = (
    "OptimalControl: got second derivatives asked for, expected first ones (backward, torch.func.grad, jacrev, "
    "jacfwd); second ones are differences of these, or Gauss-Newton's J'J of residuals with J by torch.func.jacrev"
)
"""Message for second derivatives."""


class OptimalControl(torch.nn.Module):
    """A differentiable function of parameters: ``xs, us, cost = layer(p)``, optimal trajectories and their costs.

    Parameters
    ----------
    make_problem : function of p (P,), a numpy array, that returns a Problem, as for `trajopt.sensitivity`: horizon and
        sizes stay the same; of p alone, since solutions are kept by p; at the top level of a module if there are
        workers
    solver : `ILQR`, `DDP`, or an object with their ``solve(problem, warm_start=)``
    workers : processes that share the problems of a batch, forward by `solve_many`, and backward; None: this one alone
    memory : number of last points that are kept: a solve without a warm start begins at the nearest of those of earlier
        calls; with 0 without a start, so that equal p and warm starts have equal results whatever came before

    Attributes
    ----------
    failed : of the last call, (B,) or (), bool: True where there is no solution
    reasons : of the last call, one text for each problem: why there is no solution, empty where there is one

    Raises
    ------
    TypeError, ValueError : naming the argument.
    NotImplementedError : where second derivatives are asked for, or a batch of autograd (``vectorize=True``).

    Notes
    -----
    ``layer(p, warm_start=solution)`` sets the start of solves, see `forward`.  `grad`, `vjp`, `jvp`, `jacrev`, `jacfwd`
    and `vmap` of `torch.func` apply to the layer, and so does autograd in both modes.  The solution from a warm start
    is kept by p and the start's numbers, and a solve that fails from there has no solution.  Solutions are polished by
    Newton steps.  Where make_problem or the solve raises ValueError, does not converge, or ends at no strict minimum,
    all numbers are NaN, and so are gradients of losses that depend on them, with a warning that gives the reason.
    Select before anything is computed from such numbers, ``xs[~layer.failed]``: then nothing depends on them, and
    gradients are zero.  Where limits are weakly active, gradients are those of one side, with a warning.
    """

    def __init__(
        self, make_problem: Callable[[np.ndarray], Problem], solver: Any, workers: int | None = None, memory: int = 64
    ) -> None:
        super().__init__()
        self.host = LayerHost(make_problem, solver, workers, memory)
        self.failed = torch.zeros(0, dtype=torch.bool)
        self.reasons: tuple[str, ...] = ()

    def clear(self) -> None:
        """Forget all points, as when data that make_problem reads besides p have changed."""
        self.host.clear()

    @torch.compiler.disable  # a compiled function breaks off here, instead of tracing solvers
    def forward(self, p: Any, warm_start: Any = None) -> tuple[Any, Any, Any]:
        """xs (B, N+1, nx), us (B, N, nu) and cost (B,) for p (B, P), float64; without B for p (P,).

        Solves begin at the warm start, a `Solution` or a `WarmStart` for all problems, or a sequence of one for each
        of the batch; where there is None, at the nearest known point.

        Raises: TypeError if p is no tensor of float64 and for an invalid warm start; ValueError for another shape or an
        empty batch, for a number of warm starts other than that of the problems, or some of another system.
        """
        if not isinstance(p, torch.Tensor) or p.dtype != torch.float64:
            raise TypeError(f"p: got {getattr(p, 'dtype', type(p).__name__)}, expected a tensor of torch.float64")
        if p.ndim not in (1, 2) or not p.numel():
            raise ValueError(f"p: got shape {tuple(p.shape)}, expected (P,) or (B, P)")
        return _Solutions.apply(p, _Call(self, warm_start))[:3]


class _Call:
    """A call of the layer: the starts of its solves, and the resulting points."""

    def __init__(self, layer: OptimalControl, warm_start: Any) -> None:
        self.layer, self.warm_start = layer, warm_start
        self.points: list[SolvedPoint] = []

    def solve(self, p: Any) -> tuple[Any, ...]:
        """xs, us, cost and indices of the points, for p with any number of batch axes; sets `failed` and `reasons` of
        the layer."""
        lead, layer = p.shape[:-1], self.layer
        ps = np.ascontiguousarray(_numbers(p)).reshape(-1, p.shape[-1])
        starts = warm_starts_of(self.warm_start, len(ps) if lead else None)
        self.points = layer.host.points(ps, starts)
        layer.reasons = tuple(point.reason for point in self.points)
        layer.failed = torch.tensor([point.solution is None for point in self.points]).reshape(lead)
        places = torch.arange(len(ps), device=p.device).reshape(lead)
        return *self.tensors(layer.host.numbers(self.points), p), places

    def at(self, places: Any) -> list[SolvedPoint]:
        """The points with these indices."""
        return [self.points[i] for i in _numbers(places).ravel()]

    @staticmethod
    def tensors(arrays: Any, like: Any) -> tuple[Any, ...]:
        """Arrays with one batch axis as tensors with the batch axes of p."""
        return tuple(like.new_tensor(part).reshape((*like.shape[:-1], *part.shape[1:])) for part in arrays)


def _numbers(tensor: Any) -> np.ndarray:
    try:
        return tensor.detach().cpu().numpy()
    except RuntimeError as error:  # autograd's own batches do not support custom functions
        raise NotImplementedError(
            "OptimalControl: got a batch of autograd (vectorize=True, is_grads_batched=True), expected "
            "torch.func.jacrev or jacfwd"
        ) from error


# ------------------------------------------------------------------------------------------------ functions of torch
class _MappedFunction(torch.autograd.Function):
    """A function of a call and of tensors with any number of batch axes: `torch.vmap` adds one in front."""

    @classmethod
    def vmap(cls, info: Any, axes: Any, *given: Any) -> tuple[Any, Any]:
        """The function of all arguments with the new axis in front."""
        moved = [
            tensor.movedim(axis, 0) if axis is not None else tensor.expand((info.batch_size, *tensor.shape))
            for tensor, axis in zip(given[:-1], axes[:-1], strict=True)
        ]
        found = cls.apply(*moved, given[-1])
        return found, tuple(0 for _ in found) if isinstance(found, tuple) else 0


class _Solutions(_MappedFunction):
    """Points as tensors that depend on p, and their indices in the call."""

    @staticmethod
    def forward(p: Any, call: _Call) -> Any:
        return call.solve(p)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        p, ctx.call = inputs
        ctx.mark_non_differentiable(output[3])
        ctx.save_for_backward(p, output[3])
        ctx.save_for_forward(p, output[3])

    @staticmethod
    def backward(ctx: Any, *bars: Any) -> Any:
        return _Pull.apply(*ctx.saved_tensors, *bars[:3], ctx.call), None

    @staticmethod
    def jvp(ctx: Any, dp: Any, _: Any) -> Any:
        return *tuple(_Push.apply(*ctx.saved_tensors, dp, ctx.call)), None


class _Product(_MappedFunction):
    """A product with derivatives at points; its own derivative with respect to p is not available and raises."""

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *bars: Any) -> Any:
        raise NotImplementedError(SECOND)

    @staticmethod
    def jvp(ctx: Any, *along: Any) -> Any:
        raise NotImplementedError(SECOND)


class _Pull(_Product):
    """The derivative of a loss with respect to p, from those with respect to xs, us and cost."""

    @staticmethod
    def forward(p: Any, places: Any, xs: Any, us: Any, cost: Any, call: _Call) -> Any:
        points = call.at(places)
        bars = [_numbers(bar).reshape((len(points), *bar.shape[p.ndim - 1 :])) for bar in (xs, us, cost)]
        each = [Covectors(dx, du, float(dJ)) for dx, du, dJ in zip(*bars, strict=True)]
        return call.tensors([call.layer.host.vjp(points, each)], p)[0]


class _Push(_Product):
    """Changes of xs, us and cost with p along dp."""

    @staticmethod
    def forward(p: Any, places: Any, dp: Any, call: _Call) -> Any:
        points = call.at(places)
        return call.tensors(call.layer.host.jvp(points, _numbers(dp).reshape(len(points), -1)), p)
